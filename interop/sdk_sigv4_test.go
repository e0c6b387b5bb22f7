package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Signed requests are throttled for longer than their signatures are valid.
// Prepare signs each attempt.
func TestSigV4(t *testing.T) {
	payload := []byte(strings.Repeat("signed ", 1000))
	type call func(t *testing.T, addr string, rt http.RoundTripper, clock *sigClock) error
	// plain returns a call whose first signature has an age.
	plain := func(age time.Duration) call {
		return func(t *testing.T, addr string, rt http.RoundTripper, clock *sigClock) error {
			url := "http://" + addr + "/a/path%20b?x=1&y=%2F"
			req := newRequest(t, t.Context(), http.MethodPut, url, bytes.NewReader(payload))
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
	s3 := func(t *testing.T, addr string, rt http.RoundTripper, _ *sigClock) error {
		return s3Put(t.Context(), newS3(addr, rt, aws.NopRetryer{}), "a key/with spaces", payload)
	}
	dynamodb := func(t *testing.T, addr string, rt http.RoundTripper, _ *sigClock) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, aws.NopRetryer{}), 7)
	}
	const slow, skewed, accepted = "SlowDown", "RequestTimeTooSkewed", "accepted"
	for _, tt := range []struct {
		name, service string
		do            call
		throttles     int
		prepare       bool
		sdkHeaders    bool
		want          []string
	}{
		{"net/http", "execute-api", plain(0), 2, true, false, []string{slow, slow, accepted}},
		{"net/http, too old at first", "execute-api", plain(time.Hour), 0, true, false, []string{accepted}},
		{"net/http, with SDKHeaders", "execute-api", plain(0), 2, true, true, []string{slow, slow, accepted}},
		{"net/http, without Prepare", "execute-api", plain(0), 2, false, false, []string{slow, skewed}},
		{"net/http, too old, without Prepare", "execute-api", plain(time.Hour), 0, false, false, []string{skewed}},
		{"S3", "s3", s3, 2, true, false, []string{slow, slow, accepted}},
		{"S3, without Prepare", "s3", s3, 2, false, false, []string{slow, skewed}},
		{"DynamoDB", "dynamodb", dynamodb, 1, true, false, []string{slow, accepted}},
		{"DynamoDB, with SDKHeaders", "dynamodb", dynamodb, 1, true, true, []string{slow, accepted}},
		{"DynamoDB, without Prepare", "dynamodb", dynamodb, 1, false, false, []string{slow, skewed}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := &sigClock{now: time.Now().UTC()}
			service := &sigService{t: t, clock: clock, service: tt.service, throttles: tt.throttles}
			srv := httpfake.Serve(t, "HTTP/1.1", service.serve)
			tr := retrying(srv.Base)
			tr.SDKHeaders = tt.sdkHeaders
			if tt.prepare {
				tr.Prepare = sign(clock, tt.service)
			}
			err := tt.do(t, hostOf(t, srv.URL), tr, clock)
			if (err == nil) != (tt.want[len(tt.want)-1] == accepted) {
				t.Errorf("the error is %v", err)
			}
			if !slices.Equal(service.responses, tt.want) {
				t.Errorf("the service responded %q, want %q", service.responses, tt.want)
			}
			if err == nil && tt.service != "dynamodb" && !bytes.Equal(service.stored, payload) {
				t.Errorf("%d bytes arrived, which differ from the %d that were sent", len(service.stored), len(payload))
			}
		})
	}
}

const (
	sigRegion   = "us-east-1"
	sigLifetime = 5 * time.Minute // how long AWS accepts a signature
	sigFormat   = "20060102T150405Z"
)

// A sigClock is the time of the service and the signer.
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

// newSigner returns a signer for a service. Only for S3 it signs the path as it
// is sent.
func newSigner(service string) *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" })
}

// sign returns a Prepare hook that replaces the signature. The hash of the body
// is in a header, in the SDK's context, or computed with GetBody.
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

// A sigService accepts requests whose signature is right and not too old. It
// throttles the first ones, and takes a quarter of an hour for each of these.
type sigService struct {
	t         *testing.T
	clock     *sigClock
	service   string
	throttles int

	mu        sync.Mutex
	responses []string // guarded by mu
	stored    []byte   // guarded by mu; the body of the accepted request
}

func (s *sigService) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading the request: %v", err)
	}
	code := s.judge(r, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if code == "" && len(s.responses) < s.throttles {
		code = "SlowDown"
		s.clock.advance(15 * time.Minute)
	}
	switch code {
	case "":
		s.stored = body
		s.responses = append(s.responses, "accepted")
		if s.service == "dynamodb" {
			io.WriteString(w, "{}")
		}
		return
	case "SlowDown":
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
	s.responses = append(s.responses, code)
	if s.service == "dynamodb" {
		fmt.Fprintf(w, `{"__type":"%s"}`, code)
	} else {
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
	}
}

// judge returns the error code for a request, or "".
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
		return "InvalidRequest"
	}
	for name := range strings.SplitSeq(list, ";") {
		if values, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	credentials, _ := sdkCredentials.Retrieve(r.Context())
	err = newSigner(s.service).SignHTTP(r.Context(), credentials, again, hash, s.service, sigRegion, date)
	if err != nil {
		s.t.Error(err)
	}
	if again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		return "SignatureDoesNotMatch"
	}
	return ""
}
