package attempts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/term"
)

func response(status int, header http.Header) *http.Response {
	u := &url.URL{Scheme: "http", Host: "example.com"}
	return &http.Response{StatusCode: status, Header: header, Request: &http.Request{URL: u}}
}

func TestStatusAndDetails(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route")}
	for _, c := range []struct {
		name            string
		attempt         awsretry.Attempt
		status, details string
	}{
		{"response", awsretry.Attempt{Response: response(404, nil)}, "404", ""},
		{"code", awsretry.Attempt{Response: response(400, nil), Code: "ValidationException"}, "400",
			"ValidationException"},
		{"throttling", awsretry.Attempt{
			Response: response(429, http.Header{"Retry-After": {"9"}, "X-Amz-Retry-After": {"900"}}),
			Code:     "SlowDown",
			Class:    awsretry.Throttled,
		}, "429", "SlowDown, Retry-After: 9, X-Amz-Retry-After: 900"},
		{"Retry-After of a permanent failure", awsretry.Attempt{
			Response: response(403, http.Header{"Retry-After": {"9"}}),
			Class:    awsretry.Permanent,
		}, "403", ""},
		{"redirect", awsretry.Attempt{Response: response(302, http.Header{"Location": {"/there?key=secret"}})}, "302",
			"to http://example.com/there"},
		{"canceled", awsretry.Attempt{Err: context.Canceled, Stop: awsretry.StopCanceled}, "ended", "context canceled"},
		{"time-out", awsretry.Attempt{Err: context.DeadlineExceeded, Class: awsretry.Timeout}, "timeout",
			"context deadline exceeded"},
		{"DNS", awsretry.Attempt{Err: &net.DNSError{Err: "no such host", Name: "x"}}, "dns", "lookup x: no such host"},
		{"certificate", awsretry.Attempt{Err: &tls.CertificateVerificationError{Err: errors.New("expired")}}, "tls",
			"tls: failed to verify certificate: expired"},
		{"authority", awsretry.Attempt{Err: x509.UnknownAuthorityError{}}, "tls",
			"x509: certificate signed by unknown authority"},
		{"no TLS", awsretry.Attempt{Err: tls.RecordHeaderError{Msg: "no TLS"}}, "tls", "tls: no TLS"},
		{"closed", awsretry.Attempt{Err: fmt.Errorf("reading: %w", io.ErrUnexpectedEOF)}, "closed",
			"reading: unexpected EOF"},
		{"dial", awsretry.Attempt{Err: dial}, "error", "dial tcp: no route"},
		{"on a connection, without addresses", awsretry.Attempt{Err: &net.OpError{
			Op: "read", Net: "tcp", Addr: &net.TCPAddr{Port: 80}, Err: errors.New("broken"),
		}}, "error", "broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Status(c.attempt); got != c.status {
				t.Errorf("status %q, want %q", got, c.status)
			}
			if got := Details(c.attempt); got != c.details {
				t.Errorf("details %q, want %q", got, c.details)
			}
		})
	}
}

func TestTable(t *testing.T) {
	rows := []awsretry.Attempt{
		{
			Number:   1,
			Response: response(503, nil),
			Code:     "SlowDown",
			Class:    awsretry.Throttled,
			Elapsed:  1234 * time.Microsecond,
			Waited:   20 * time.Millisecond,
			Delay:    396 * time.Millisecond,
		},
		{
			Number:   2,
			Response: response(500, nil),
			Class:    awsretry.Transient,
			Elapsed:  99 * time.Second,
			Waited:   time.Microsecond,
			Stop:     awsretry.StopQuota,
		},
		{Number: 3, Response: response(200, nil), Class: awsretry.Success, Elapsed: time.Second,
			Stop: awsretry.StopSuccess},
	}
	for _, c := range []struct {
		name     string
		adaptive bool
		states   []awsretry.State
		want     string
	}{
		{"standard", false, []awsretry.State{{Tokens: 490}, {Tokens: 3}, {Tokens: math.MaxInt}}, `
   #  STATUS   CLASS         TIME  TOKENS  NEXT                    DETAIL
   1  503      throttled   1.23ms     490  retry in 396ms          SlowDown
   2  500      transient    1m39s       3  stop: too few tokens
   3  200      success         1s       -  done
`},
		{"adaptive", true, []awsretry.State{
			{Tokens: 490, Limited: true, SendRate: 0.5}, {Tokens: 3, Limited: true, SendRate: 12}, {Tokens: 4},
		}, `
   #  STATUS   CLASS         TIME   WAITED     RATE  TOKENS  NEXT                    DETAIL
   1  503      throttled   1.23ms     20ms    0.5/s     490  retry in 396ms          SlowDown
   2  500      transient    1m39s        -   12.0/s       3  stop: too few tokens
   3  200      success         1s        -     free       4  done
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			plain := func(s ...any) string { return fmt.Sprint(s...) }
			number := 0
			table := Table{
				W:        &b,
				Palette:  term.Palette{Faint: plain, Good: plain, Bad: plain, Warn: plain, Throttle: plain},
				Indent:   " ",
				Width:    math.MaxInt,
				Adaptive: c.adaptive,
				State:    func() (awsretry.State, bool) { return c.states[number], true },
			}
			if table.Begun() {
				t.Error("the table has begun")
			}
			for i, a := range rows {
				number = i
				table.Row(a)
			}
			if diff := cmp.Diff(c.want, "\n"+b.String()); diff != "" || !table.Begun() {
				t.Errorf("want to got:\n%s", diff)
			}
		})
	}
}

func TestNextStep(t *testing.T) {
	stops := []awsretry.Stop{
		awsretry.StopSuccess, awsretry.StopPermanent, awsretry.StopMaxAttempts, awsretry.StopQuota,
		awsretry.StopDeadline, awsretry.StopCanceled, awsretry.StopBody, awsretry.StopRetryAfter,
		awsretry.StopRateLimit, awsretry.StopOuterRetry,
		awsretry.StopDisabled,
	}
	seen := map[string]bool{}
	for _, stop := range stops {
		text := nextStep(awsretry.Attempt{Stop: stop})
		if seen[text] || strings.Contains(text, "_") || len(text) > 22 {
			t.Errorf("%s is %q, want words of its own that fit the column", stop, text)
		}
		seen[text] = true
	}
}
