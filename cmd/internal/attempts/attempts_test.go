package attempts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"example.com/awsretry"
)

func response(status int, header http.Header) *http.Response {
	u := &url.URL{Scheme: "http", Host: "example.com"}
	return &http.Response{StatusCode: status, Header: header, Request: &http.Request{URL: u}}
}

func TestStatusAndDetails(t *testing.T) {
	retryAfter := http.Header{"Retry-After": {"9"}, "X-Amz-Retry-After": {"900"}}
	milliseconds := http.Header{"Retry-After": {"9"}, "X-Ms-Retry-After-Ms": {"8500"}, "Retry-After-Ms": {"8400"}}
	for _, c := range []struct {
		attempt         awsretry.Attempt
		status, details string
	}{
		{awsretry.Attempt{Response: response(429, retryAfter), Code: "SlowDown", Class: awsretry.Throttled},
			"429", "SlowDown, Retry-After: 9, X-Amz-Retry-After: 900"},
		{awsretry.Attempt{Response: response(503, milliseconds), Class: awsretry.Transient},
			"503", "Retry-After-Ms: 8400, X-Ms-Retry-After-Ms: 8500, Retry-After: 9"},
		{awsretry.Attempt{Response: response(403, retryAfter), Class: awsretry.Permanent}, "403", ""},
		{awsretry.Attempt{Response: response(302, http.Header{"Location": {"/there?key=secret"}})},
			"302", "to http://example.com/there"},
		{awsretry.Attempt{Response: response(201, http.Header{"Location": {"/there"}})}, "201", ""},
		{awsretry.Attempt{Err: context.Canceled, Stop: awsretry.StopCanceled}, "ended", "context canceled"},
		{awsretry.Attempt{Err: context.DeadlineExceeded, Class: awsretry.Timeout}, "timeout",
			"context deadline exceeded"},
		{awsretry.Attempt{Err: fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), Offset: 1200}, "closed",
			"from byte 1,200, reading: unexpected EOF"},
		{awsretry.Attempt{Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route")}}, "error",
			"dial tcp: no route"},
		{awsretry.Attempt{Err: &net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New("no route")}}, "error",
			"proxyconnect tcp: no route"},
		{awsretry.Attempt{Err: &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{Port: 80},
			Err: &net.OpError{Op: "read", Net: "tcp", Err: errors.New("broken")}}}, "error", "broken"},
	} {
		if status, details := Status(c.attempt), Details(c.attempt); status != c.status || details != c.details {
			t.Errorf("got %q and %q, want %q and %q", status, details, c.status, c.details)
		}
	}
}

// Each reason to stop has its own words, which fit the column.
func TestNextStep(t *testing.T) {
	seen := map[string]bool{}
	for _, stop := range []awsretry.Stop{
		awsretry.StopSuccess, awsretry.StopPermanent, awsretry.StopMaxAttempts, awsretry.StopQuota,
		awsretry.StopDeadline, awsretry.StopCanceled, awsretry.StopBody, awsretry.StopRetryAfter,
		awsretry.StopRateLimit, awsretry.StopOuterRetry, awsretry.StopDisabled,
	} {
		text := nextStep(awsretry.Attempt{Stop: stop})
		if seen[text] || strings.Contains(text, "_") || len(text) > 22 {
			t.Errorf("%s is %q", stop, text)
		}
		seen[text] = true
	}
}
