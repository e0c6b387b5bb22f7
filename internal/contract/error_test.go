package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// The zero Error can be used, and a cancel is not a time-out, whatever failed
// before it.
func TestErrorsOfNoTimeout(t *testing.T) {
	for name, e := range map[string]*awsretry.Error{
		"zero":                      {},
		"canceled after a time-out": {Stop: awsretry.StopCanceled, Err: errors.Join(context.Canceled, timeoutError{})},
	} {
		t.Run(name, func(t *testing.T) {
			if e.Error() == "" || e.Timeout() || e.Temporary() || e.Unwrap() != e.Err {
				t.Errorf("%v, time-out %v, temporary %v", e, e.Timeout(), e.Temporary())
			}
		})
	}
}

// A timeoutError is an error whose Timeout method returns true.
type timeoutError struct{}

func (timeoutError) Error() string { return "time-out" }
func (timeoutError) Timeout() bool { return true }

// An Error matches what refused the attempt, as well as the failure before it.
func TestErrorIs(t *testing.T) {
	_, outOfTokens := get(t, &transport{Quota: awsretry.QuotaConfig{Capacity: 1}, Base: failsWith(errReset)})
	for _, tt := range []struct {
		name string
		err  error
		want error // nil: neither
	}{
		{"out of retry tokens", outOfTokens, awsretry.ErrQuotaExceeded},
		{"no retry token", &awsretry.Error{Stop: awsretry.StopQuota, Err: errReset}, awsretry.ErrQuotaExceeded},
		{"no send token", &awsretry.Error{Stop: awsretry.StopRateLimit, Err: errReset}, awsretry.ErrRateLimited},
		{"no more attempts", &awsretry.Error{Stop: awsretry.StopMaxAttempts, Err: errReset}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !errors.Is(tt.err, errReset) {
				t.Errorf("%v hides the failure", tt.err)
			}
			for _, refusal := range []error{awsretry.ErrQuotaExceeded, awsretry.ErrRateLimited} {
				if got := errors.Is(tt.err, refusal); got != (refusal == tt.want) {
					t.Errorf("errors.Is(%v, %v) is %v", tt.err, refusal, got)
				}
			}
		})
	}
}

// No error has the query, the fragment or the user of a URL in it.
func TestNoSecretsInErrors(t *testing.T) {
	const secret = "http://me:secret@service.example/path?sig=secret#secret"
	for name, tt := range map[string]struct {
		base http.RoundTripper
		want string // the end of the error; "": whatever it is
	}{
		"a client's error": {httpfake.Base(func(req *http.Request) (*http.Response, error) {
			return (&http.Client{Transport: failsWith(io.ErrUnexpectedEOF)}).Do(req)
		}), ""},
		"another URL, as if Prepare signed in the query": {
			failsWith(fmt.Errorf("middleware: %w", &url.Error{Op: "Get", URL: secret, Err: io.ErrUnexpectedEOF})),
			`: middleware: Get "http://service.example/path?…": unexpected EOF`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := get(t, &transport{MaxAttempts: 1, Base: tt.base})
			if text := err.Error(); strings.Contains(text, "secret") || !strings.HasSuffix(text, tt.want) {
				t.Error(err)
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v hides its cause", err)
			}
		})
	}
}
