package awsretry_test

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

// A timeout is an error whose Timeout method returns true.
type timeout struct{}

func (timeout) Error() string { return "time-out" }
func (timeout) Timeout() bool { return true }

func TestError(t *testing.T) {
	for _, tt := range []struct {
		name               string
		err                awsretry.Error
		want               string // Error
		temporary, timeout bool
	}{
		{"zero", awsretry.Error{}, "", false, false},
		{
			"permanent", awsretry.Error{Attempts: 1, Stop: awsretry.StopPermanent, Err: errors.New("x509: unknown authority")},
			"awsretry: permanent after 1 attempt: x509: unknown authority", false, false,
		},
		{
			"max attempts", awsretry.Error{Attempts: 3, Stop: awsretry.StopMaxAttempts, Err: context.DeadlineExceeded},
			"awsretry: max_attempts after 3 attempts: context deadline exceeded", true, true,
		},
		{"canceled after a time-out", awsretry.Error{Stop: awsretry.StopCanceled, Err: errors.Join(context.Canceled, timeout{})}, "", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got == "" || tt.want != "" && got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if tt.err.Temporary() != tt.temporary || tt.err.Timeout() != tt.timeout {
				t.Errorf("temporary %v, time-out %v; want %v, %v", tt.err.Temporary(), tt.err.Timeout(), tt.temporary, tt.timeout)
			}
			if tt.err.Unwrap() != tt.err.Err {
				t.Errorf("it wraps %v", tt.err.Unwrap())
			}
		})
	}
}

// An Error matches what refused the attempt, as well as the failure before it.
func TestErrorIs(t *testing.T) {
	_, outOfTokens := get(t, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 1}, Base: failing(errReset)})
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
			return (&http.Client{Transport: failing(io.ErrUnexpectedEOF)}).Do(req)
		}), ""},
		"another URL, as if Prepare signed in the query": {
			failing(fmt.Errorf("middleware: %w", &url.Error{Op: "Get", URL: secret, Err: io.ErrUnexpectedEOF})),
			`: middleware: Get "http://service.example/path?…": unexpected EOF`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := get(t, &awsretry.Transport{MaxAttempts: 1, Base: tt.base})
			if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "secret") || !strings.HasSuffix(err.Error(), tt.want) {
				t.Error(err)
			}
		})
	}
}
