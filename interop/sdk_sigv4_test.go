package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"
)

const (
	sigRegion   = "us-east-1"
	sigLifetime = 5 * time.Minute // how long AWS accepts a signature
	sigFormat   = "20060102T150405Z"
)

// A sigClock is the time that the service and the signer agree on.
type sigClock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func (c *sigClock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *sigClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newSigner signs for a service; S3 alone signs the path as it is sent.
func newSigner(service string) *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" })
}

// sign signs as a Prepare hook does: anew, whatever was there. The body's hash stands in a header, in the SDK's context, or is
// made from a body that can be had again.
func sign(clock *sigClock, service string) func(*http.Request, int) error {
	signer := newSigner(service)
	return func(req *http.Request, _ int) error {
		hash := req.Header.Get("X-Amz-Content-Sha256")
		if hash == "" {
			hash = v4.GetPayloadHash(req.Context())
		}
		if hash == "" && req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return err
			}
			defer body.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, body); err != nil {
				return err
			}
			hash = hex.EncodeToString(sum.Sum(nil))
		}
		credentials, err := sdkCredentials.Retrieve(req.Context())
		if err != nil {
			return err
		}
		req.Header.Del("Authorization")
		return signer.SignHTTP(req.Context(), credentials, req, hash, service, sigRegion, clock.time())
	}
}

// A sigService accepts requests whose signature holds and is not too old, and throttles each operation's first ones, taking
// a quarter of an hour for it.
type sigService struct {
	t         *testing.T
	clock     *sigClock
	service   string
	throttles int

	mu      sync.Mutex
	answers []string // guarded by mu
	stored  []byte   // guarded by mu; what the accepted request brought
}

func (s *sigService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading the request: %v", err)
	}
	answer := s.judge(r, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer == "" && len(s.answers) < s.throttles {
		answer = "SlowDown"
		s.clock.advance(15 * time.Minute)
	}
	switch answer {
	case "":
		s.stored = body
		s.answers = append(s.answers, "accepted")
		if s.service == "dynamodb" {
			io.WriteString(w, "{}")
		}
		return
	case "SlowDown":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
	s.answers = append(s.answers, answer)
	if s.service == "dynamodb" {
		fmt.Fprintf(w, `{"__type":"%s"}`, answer)
	} else {
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", answer)
	}
}

// judge returns the error code for a request, "" where it is in order.
func (s *sigService) judge(r *http.Request, body []byte) string {
	date, err := time.Parse(sigFormat, r.Header.Get("X-Amz-Date"))
	if err != nil || s.clock.time().Sub(date).Abs() > sigLifetime {
		return "RequestTimeTooSkewed"
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	if said := r.Header.Get("X-Amz-Content-Sha256"); said != "" && said != hash {
		return "XAmzContentSHA256Mismatch"
	}
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
	}
	for _, name := range strings.Split(list, ";") {
		if values, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	credentials, _ := sdkCredentials.Retrieve(r.Context())
	if err := newSigner(s.service).SignHTTP(r.Context(), credentials, again, hash, s.service, sigRegion, date); err != nil {
		s.t.Error(err)
	}
	if again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		return "SignatureDoesNotMatch"
	}
	return ""
}

// TestSigV4 throttles signed requests for longer than their signatures hold.
func TestSigV4(t *testing.T) {
	payload := []byte(strings.Repeat("signed ", 1000))
	// plain sends a request whose signature was made at a time before now.
	plain := func(age time.Duration) func(*testing.T, string, http.RoundTripper, *sigClock) error {
		return func(t *testing.T, addr string, rt http.RoundTripper, clock *sigClock) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+addr+"/a/path%20b?x=1&y=%2F", bytes.NewReader(payload))
			if err != nil {
				t.Fatal(err)
			}
			if err := sign(&sigClock{now: clock.time().Add(-age)}, "execute-api")(req, 1); err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					err = fmt.Errorf("status %d", resp.StatusCode)
				}
			}
			return err
		}
	}
	s3Do := func(t *testing.T, addr string, rt http.RoundTripper, _ *sigClock) error {
		return s3Put(t.Context(), newS3(addr, rt, aws.NopRetryer{}), "a key/with spaces", payload)
	}
	ddbDo := func(t *testing.T, addr string, rt http.RoundTripper, _ *sigClock) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, aws.NopRetryer{}), 7)
	}
	tests := []struct {
		name, service string
		do            func(*testing.T, string, http.RoundTripper, *sigClock) error
		throttles     int
		prepare       bool
		sdkHeaders    bool
		answers       []string
	}{
		{"net/http", "execute-api", plain(0), 2, true, false, []string{"SlowDown", "SlowDown", "accepted"}},
		{"net/http, too old from the start", "execute-api", plain(time.Hour), 0, true, false, []string{"accepted"}},
		{"net/http, with SDKHeaders", "execute-api", plain(0), 2, true, true, []string{"SlowDown", "SlowDown", "accepted"}},
		{"net/http, not signed anew", "execute-api", plain(0), 2, false, false, []string{"SlowDown", "RequestTimeTooSkewed"}},
		{"net/http, too old and not signed anew", "execute-api", plain(time.Hour), 0, false, false, []string{"RequestTimeTooSkewed"}},
		{"S3", "s3", s3Do, 2, true, false, []string{"SlowDown", "SlowDown", "accepted"}},
		{"S3, not signed anew", "s3", s3Do, 2, false, false, []string{"SlowDown", "RequestTimeTooSkewed"}},
		{"DynamoDB", "dynamodb", ddbDo, 1, true, false, []string{"SlowDown", "accepted"}},
		{"DynamoDB, with SDKHeaders", "dynamodb", ddbDo, 1, true, true, []string{"SlowDown", "accepted"}},
		{"DynamoDB, not signed anew", "dynamodb", ddbDo, 1, false, false, []string{"SlowDown", "RequestTimeTooSkewed"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			clock := &sigClock{now: time.Now().UTC()}
			service := &sigService{t: t, clock: clock, service: test.service, throttles: test.throttles}
			server := httptest.NewServer(service)
			defer server.Close()
			transport := &awsretry.Transport{
				Base:       newBase(t),
				Backoff:    awsretry.Exponential{Initial: time.Millisecond},
				SDKHeaders: test.sdkHeaders,
			}
			if test.prepare {
				transport.Prepare = sign(clock, test.service)
			}
			err := test.do(t, server.Listener.Addr().String(), transport, clock)
			if accepted := test.answers[len(test.answers)-1] == "accepted"; (err == nil) != accepted {
				t.Errorf("the error is %v", err)
			}
			if diff := cmp.Diff(test.answers, service.answers); diff != "" {
				t.Errorf("the service's answers (-want +got):\n%s", diff)
			}
			if err == nil && test.service != "dynamodb" && !bytes.Equal(service.stored, payload) {
				t.Errorf("%d bytes arrived, and differ from the %d that were sent", len(service.stored), len(payload))
			}
		})
	}
}

// TestSigV4SDKHeaders has SDKHeaders below a client that signs those headers itself: what is signed is left alone.
func TestSigV4SDKHeaders(t *testing.T) {
	service := &sigService{t: t, clock: &sigClock{now: time.Now().UTC()}, service: "dynamodb"}
	server := httptest.NewServer(service)
	defer server.Close()
	transport := &awsretry.Transport{Base: newBase(t), SDKHeaders: true}
	if err := ddbPut(t.Context(), newDynamoDB(server.Listener.Addr().String(), transport, aws.NopRetryer{}), 7); err != nil {
		t.Errorf("%v: the service's answers were %v", err, service.answers)
	}
}
