package contract_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// peekLine asks for the first line of a body.
func peekLine(_ *http.Response, body []byte) bool { return !bytes.Contains(body, []byte("\n")) }

// errorLine is a Policy for bodies whose first line says failure.
func errorLine(a *awsretry.Attempt) awsretry.Class {
	if bytes.HasPrefix(a.Body, []byte("busy\n")) {
		return awsretry.Throttled
	}
	return awsretry.DefaultPolicy(a)
}

// What the beginning of a 2xx says decides, and the last response is whole. It is
// seen as soon as it has come.
func TestPeek(t *testing.T) {
	const (
		slow    = 10 * time.Second // between two Reads
		anyTime = -1
	)
	long := strings.Repeat("x", 3<<20)
	for _, tt := range []struct {
		name   string
		bodies []string // of one attempt after the other; each line comes after 10 s
		broken bool     // the first one, at its end
		change func(*transport)
		stop   awsretry.Stop
		took   time.Duration // and less than a second for what is left of a response
		cut    bool          // the last body breaks off too
	}{
		{name: "a success", bodies: []string{"ok\nmore\n"}, took: slow},
		{name: "a failure", bodies: []string{"busy\nmore\n", "ok\n"}, stop: awsretry.StopSuccess, took: 2 * slow},
		{name: "the last failure", bodies: []string{"busy\n", "busy\n", "busy\n1\n"},
			stop: awsretry.StopMaxAttempts, took: 3 * slow},
		{name: "broken in a line", bodies: []string{"bu", "ok\n"}, broken: true, stop: awsretry.StopSuccess, took: 3 * slow},
		{name: "ended in a line", bodies: []string{"bu"}, took: 2 * slow},
		{name: "broken after a line", bodies: []string{"ok\n"}, broken: true, took: slow, cut: true},
		{name: "no line", bodies: []string{long}, took: anyTime},
		{name: "an attempt that takes too long", bodies: []string{"bu", "ok\n"}, stop: awsretry.StopSuccess,
			took: 5 * slow / 2, cut: true, change: func(tr *transport) { tr.AttemptTimeout = 3 * slow / 2 }},
		{name: "nothing is asked for", bodies: []string{"busy\n"},
			change: func(tr *transport) { tr.Peek = func(*http.Response, []byte) bool { return false } }},
		{name: "no retry", bodies: []string{"busy\n"}, change: func(tr *transport) { tr.MaxAttempts = 1 }},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var bodies []*httpfake.Body
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				r := lineReader(tt.bodies[len(bodies)])
				if tt.broken && len(bodies) == 0 {
					r = io.MultiReader(r, iotest.ErrReader(errReset))
				}
				body := httpfake.NewBody(httpfake.SlowReader(req.Context(), slow, r))
				bodies = append(bodies, body)
				return ok(req, body)
			})
			tr.Peek, tr.Policy = peekLine, errorLine
			if tt.change != nil {
				tt.change(tr)
			}
			r := sendGet(t, tr)
			resp := r.response(t)
			if len(bodies) != len(tt.bodies) || r.stop != tt.stop ||
				tt.took != anyTime && r.took.Truncate(time.Second) != tt.took {
				t.Errorf("%v after %d attempts and %v, want %q after %v", r, len(bodies), r.took, tt.stop, tt.took)
			}
			got, err := io.ReadAll(resp.Body)
			if want := tt.bodies[len(tt.bodies)-1]; string(got) != want || (err != nil) != tt.cut {
				t.Errorf("read %.20q, %v; want %.20q", got, err, want)
			}
			resp.Body.Close()
			for _, b := range bodies {
				wantClosed(t, b)
			}
		})
	}
}

// lineReader returns one line with each Read.
func lineReader(text string) io.Reader {
	var lines []io.Reader
	for line := range strings.Lines(text) {
		lines = append(lines, strings.NewReader(line))
	}
	return io.MultiReader(lines...)
}

// A call whose context ends while its body is peeked at ends at once.
func TestPeekUntilTheCallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, 200, httpfake.NewBody(httpfake.UntilDone(req.Context()))), nil
		})
		tr.Peek = peekLine
		r := send(tr, httpfake.Request(t, within(t, time.Second), "GET", nil))
		r.want(t, 0, awsretry.StopDeadline, time.Second)
		r.wantIs(t, context.DeadlineExceeded)
	})
}

// Observers see the body that Policy saw, also that of an error, and Outcome does
// not keep it.
func TestBodyOfARecord(t *testing.T) {
	for _, tt := range []struct {
		peek func(*http.Response, []byte) bool
		want []string
	}{
		{peekLine, []string{"no quota", "busy\n"}}, {nil, []string{"", ""}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen []string
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				if len(seen) == 0 {
					return busy(req, httpfake.NewBody(strings.NewReader("no quota")))
				}
				return ok(req, httpfake.NewBody(strings.NewReader("busy\n")))
			})
			tr.Peek, tr.Policy, tr.MaxAttempts = tt.peek, errorLine, 2
			tr.Observe = func(a awsretry.Attempt) { seen = append(seen, string(a.Body)) }
			resp := sendGet(t, tr).response(t)
			if record, ok := awsretry.Outcome(resp); !ok || record.Body != nil || !slices.Equal(seen, tt.want) {
				t.Errorf("%v, with the body %q; observed %q, want %q", ok, record.Body, seen, tt.want)
			}
		})
	}
}

// A Peek that panics does so in RoundTrip, and leaves nothing open.
func TestPeekPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) { return copy(p, "x"), nil }))
		tr := retrying(respondsWith(200, body))
		tr.Peek = func(_ *http.Response, body []byte) bool {
			if body != nil {
				panic("peek")
			}
			return true
		}
		if value := httpfake.Recovered(func() { get(t, tr) }); value != "peek" {
			t.Errorf("panicked with %v", value)
		}
		wantClosed(t, body)
		wantTokens(t, tr, 500)
	})
}
