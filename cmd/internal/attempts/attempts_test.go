package attempts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	retryAfter := http.Header{"Retry-After": {"9"}, "X-Amz-Retry-After": {"900"}}
	for _, c := range []struct {
		attempt         awsretry.Attempt
		status, details string
	}{
		{awsretry.Attempt{Response: response(429, retryAfter), Code: "SlowDown", Class: awsretry.Throttled},
			"429", "SlowDown, Retry-After: 9, X-Amz-Retry-After: 900"},
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

// A line has the record of the log and additional attributes. It has no control
// character.
func TestJSON(t *testing.T) {
	var b strings.Builder
	write := JSON(&b, func(a awsretry.Attempt) []slog.Attr { return []slog.Attr{slog.Int("tokens", 480+a.Number)} })
	u := &url.URL{Scheme: "https", User: url.User("me"), Host: "example.com", Path: "/orders", RawQuery: "key=secret"}
	for n := range 2 {
		write(awsretry.Attempt{
			Request: &http.Request{Method: "PUT", URL: u}, Number: n + 1, Class: awsretry.Throttled, Code: "Slow\u009bDown",
			Response: &http.Response{StatusCode: 400}, Delay: 3 * time.Second,
		})
	}
	lines := strings.Split(b.String(), "\n")
	const want = `,"class":"throttled","status":400,"code":"Slow�Down","delay_ms":3000,"tokens":482}`
	if len(lines) != 3 || !strings.HasSuffix(lines[1], want) || strings.Contains(b.String(), "secret") ||
		strings.ContainsRune(b.String(), '\u009b') {
		t.Errorf("got %s, want two lines, the second with %s", b.String(), want)
	}
}
