package contract_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
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
	const slow = 10 * time.Second // between two Reads
	long := strings.Repeat("x", 3<<20)
	for _, tt := range []struct {
		name   string
		bodies []string // of one attempt after the other; each line comes after 10 s
		broken string   // of the first: what its Read returns at the end
		change func(*transport)
		sends  int
		stop   awsretry.Stop
		took   time.Duration
		want   string
		cut    bool // the last body breaks off too
	}{
		{name: "a success", bodies: []string{"ok\nmore\n"}, sends: 1, took: slow, want: "ok\nmore\n"},
		{name: "a failure", bodies: []string{"busy\nmore\n", "ok\n"}, sends: 2, stop: awsretry.StopSuccess, took: 2 * slow,
			want: "ok\n"},
		{name: "the last failure", bodies: []string{"busy\n", "busy\n", "busy\n1\n"}, sends: 3,
			stop: awsretry.StopMaxAttempts, took: 3 * slow, want: "busy\n1\n"},
		{name: "broken before a line", bodies: []string{"", "ok\n"}, broken: "cut", sends: 2, stop: awsretry.StopSuccess,
			took: 2 * slow, want: "ok\n"},
		{name: "broken in a line", bodies: []string{"bu", "ok\n"}, broken: "cut", sends: 2, stop: awsretry.StopSuccess,
			took: 3 * slow, want: "ok\n"},
		{name: "ended in a line", bodies: []string{"bu"}, sends: 1, took: 2 * slow, want: "bu"},
		{name: "broken after a line", bodies: []string{"ok\n"}, broken: "cut", sends: 1, took: slow, want: "ok\n", cut: true},
		{name: "no line", bodies: []string{long}, sends: 1, took: slow, want: long},
		{name: "an attempt that takes too long", bodies: []string{"bu", "ok\n"}, sends: 2, stop: awsretry.StopSuccess,
			took: 5 * slow / 2, want: "ok\n", cut: true,
			change: func(tr *transport) { tr.AttemptTimeout = 3 * slow / 2 }},
		{name: "nothing is asked for", bodies: []string{"busy\n"}, sends: 1, want: "busy\n",
			change: func(tr *transport) { tr.Peek = func(*http.Response, []byte) bool { return false } }},
		{name: "no retry", bodies: []string{"busy\n"}, sends: 1, want: "busy\n",
			change: func(tr *transport) { tr.MaxAttempts = 1 }},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			sends := 0
			var bodies []*httpfake.Body
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				var r io.Reader = strings.NewReader(tt.bodies[sends])
				if len(tt.bodies[sends]) < 100 {
					r = lineReader(tt.bodies[sends])
				}
				if sends++; sends == 1 && tt.broken != "" {
					r = io.MultiReader(r, iotest.ErrReader(errors.New(tt.broken)))
				}
				bodies = append(bodies, httpfake.NewBody(httpfake.SlowReader(req.Context(), slow, r)))
				return httpfake.Response(req, 200, bodies[sends-1]), nil
			})
			tr.Peek, tr.Policy = peekLine, errorLine
			if tt.change != nil {
				tt.change(tr)
			}
			r := sendGet(t, tr)
			resp := r.response(t)
			if sends != tt.sends || r.stop != tt.stop || r.took.Truncate(time.Second) != tt.took && len(tt.want) < 100 {
				t.Errorf("%v after %d attempts and %v, want %q after %d and %v", r, sends, r.took, tt.stop, tt.sends, tt.took)
			}
			got, err := io.ReadAll(resp.Body)
			if string(got) != tt.want || (err != nil) != tt.cut {
				t.Errorf("read %.20q, %v; want %.20q", got, err, tt.want)
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
	lines := strings.SplitAfter(text, "\n")
	return httpfake.ReadFunc(func(p []byte) (int, error) {
		for len(lines) > 0 && lines[0] == "" {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return 0, io.EOF
		}
		n := copy(p, lines[0])
		lines = lines[1:]
		return n, nil
	})
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
	for name, tt := range map[string]struct {
		peek func(*http.Response, []byte) bool
		want []string
	}{
		"with Peek":    {peekLine, []string{"no quota", "busy\n"}},
		"without Peek": {nil, []string{"", ""}},
	} {
		inBubble(t, name, func(t *testing.T) {
			var seen []string
			bodies := []string{"no quota", "busy\n"}
			tr := &transport{Peek: tt.peek, MaxAttempts: 2, Backoff: contract.Delay(0)}
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				status := 200
				if len(seen) == 0 {
					status = 503
				}
				return httpfake.Response(req, status, httpfake.NewBody(strings.NewReader(bodies[len(seen)]))), nil
			})
			tr.Observe = func(a awsretry.Attempt) { seen = append(seen, string(a.Body)) }
			tr.Policy = errorLine
			resp := sendGet(t, tr).response(t)
			if strings.Join(seen, "|") != strings.Join(tt.want, "|") {
				t.Errorf("%q", seen)
			}
			if record, ok := awsretry.Outcome(resp); !ok || record.Body != nil {
				t.Errorf("%v, with the body %q", ok, record.Body)
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
