package clients

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Signed requests are throttled for longer than their signatures are valid.
// Prepare signs each attempt.
func TestSigV4(t *testing.T) {
	payload := []byte(strings.Repeat("signed ", 1000))
	plain := func(t *testing.T, addr string, rt http.RoundTripper) error {
		url := "http://" + addr + "/a/path%20b?x=1&y=%2F"
		req := kit.NewRequest(t, t.Context(), http.MethodPut, url, bytes.NewReader(payload))
		if err := sign("execute-api")(req, 1); err != nil {
			t.Fatal(err)
		}
		_, err := kit.Text(rt.RoundTrip(req))
		return err
	}
	s3 := func(t *testing.T, addr string, rt http.RoundTripper) error {
		return s3Put(t.Context(), newS3(addr, rt, aws.NopRetryer{}), "a key/with spaces", payload)
	}
	dynamodb := func(t *testing.T, addr string, rt http.RoundTripper) error {
		return ddbPut(t.Context(), newDynamoDB(addr, rt, aws.NopRetryer{}), 7)
	}
	const slow, skewed, accepted = "SlowDown", "RequestTimeTooSkewed", "accepted"
	for _, tt := range []struct {
		name, service string
		do            func(t *testing.T, addr string, rt http.RoundTripper) error
		prepare       bool
		sdkHeaders    bool
		want          []string
	}{
		{"net/http", "execute-api", plain, true, false, []string{slow, slow, accepted}},
		{"net/http, without Prepare", "execute-api", plain, false, false, []string{slow, skewed}},
		{"S3", "s3", s3, true, false, []string{slow, slow, accepted}},
		{"DynamoDB, with SDKHeaders", "dynamodb", dynamodb, true, true, []string{slow, slow, accepted}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &sigService{t: t, service: tt.service}
				srv := httpfake.Serve(t, "HTTP/1.1", service.serve)
				tr := kit.Retrying(srv.Base)
				tr.SDKHeaders = tt.sdkHeaders
				if tt.prepare {
					tr.Prepare = sign(tt.service)
				}
				err := tt.do(t, kit.HostOf(t, srv.URL), tr)
				if (err == nil) != tt.prepare || !slices.Equal(service.responses, tt.want) {
					t.Errorf("the service responded %q, want %q: %v", service.responses, tt.want, err)
				}
				srv.Base.CloseIdleConnections()
			})
		})
	}
}

const (
	sigRegion   = "us-east-1"
	sigLifetime = 5 * time.Minute // how long AWS accepts a signature
	sigFormat   = "20060102T150405Z"
)

// newSigner returns a signer for a service. Only for S3 it signs the path as it
// is sent.
func newSigner(service string) *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" })
}

// sign returns a Prepare hook that replaces the signature. The hash of the body is
// in a header, in the SDK's context, or computed with GetBody.
func sign(service string) func(*http.Request, int) error {
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
		return signer.SignHTTP(req.Context(), credentials, req, hash, service, sigRegion, time.Now())
	}
}

// A sigService accepts requests whose signature is right, not too old, and over
// the whole body. It throttles the first two, and takes a quarter of an hour for
// each of these.
type sigService struct {
	t         *testing.T
	service   string
	responses []string
}

func (s *sigService) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Errorf("reading the request: %v", err)
	}
	code, status, form := s.judge(r, body), http.StatusForbidden, "<Error><Code>%s</Code></Error>"
	if code == "" && len(s.responses) < 2 {
		time.Sleep(15 * time.Minute)
		code, status = "SlowDown", http.StatusServiceUnavailable
	}
	if s.service == "dynamodb" {
		form = `{"__type":"%s"}`
	}
	s.responses = append(s.responses, cmp.Or(code, "accepted"))
	if code != "" {
		w.WriteHeader(status)
		fmt.Fprintf(w, form, code)
		return
	}
	if s.service == "dynamodb" {
		io.WriteString(w, "{}")
	}
}

// judge returns the error code for a request, or "".
func (s *sigService) judge(r *http.Request, body []byte) string {
	date, err := time.Parse(sigFormat, r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(date).Abs() > sigLifetime {
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
