package contract_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// When the attempts run out, RoundTrip returns the last transport error.
func TestTransportError(t *testing.T) {
	tr := retrying(failsWith(errReset))
	r := sendGet(t, tr)
	r.want(t, 0, awsretry.StopMaxAttempts, r.took)
	r.wantIs(t, errReset)
	wantTokens(t, tr, 490)
}

// The retries of an outer loop are left to it, unless it makes none.
func TestOuterLoop(t *testing.T) {
	for _, tt := range []struct {
		header string // of an AWS SDK
		nested bool
		want   awsretry.Stop
	}{
		{"attempt=1; max=3", false, awsretry.StopOuterRetry},
		{"attempt=1; max=3", true, awsretry.StopSuccess},
		{"attempt=1", false, awsretry.StopOuterRetry}, // without a limit
		{"attempt=1; max=1", false, awsretry.StopSuccess},
	} {
		tr := retrying(inTurn(busy, ok))
		tr.NestedRetries = tt.nested
		req := httpfake.Request(t, t.Context(), "GET", nil)
		req.Header.Set("Amz-Sdk-Request", tt.header)
		if r := send(tr, req); r.stop != tt.want {
			t.Errorf("%+v: %v", tt, r)
		}
	}
}

// When the quota refuses the retry of a long poll, the delay comes before the
// response, so that the caller's own loop does not spin. LongPoll delays nothing
// else.
func TestLongPoll(t *testing.T) {
	every := func(*http.Request) bool { return true }
	const query, other = "Action=ReceiveMessage&Version=2012-11-05", "Action=SendMessage"
	for _, tt := range []struct {
		name    string
		tr      *transport
		outcome outcome
		query   string
		timeout time.Duration
		stop    awsretry.Stop
		delay   time.Duration
	}{
		{"2026", &transport{Revision: awsretry.Revision2026}, busy, query, 0, awsretry.StopQuota, 50 * time.Millisecond},
		{"2026, another operation", &transport{Revision: awsretry.Revision2026}, busy, other, 0, awsretry.StopQuota, 0},
		{"classic", &transport{}, busy, query, 0, awsretry.StopQuota, 0},
		{"classic, by function", &transport{LongPoll: every}, busy, other, 0, awsretry.StopQuota, time.Second},
		{"an error", &transport{LongPoll: every}, fails(io.EOF), other, 0, awsretry.StopQuota, time.Second},
		{"Retry-After", &transport{LongPoll: every}, responds(503, "Retry-After", "7"), other, 0, awsretry.StopQuota,
			7 * time.Second},
		{"adaptive mode", &transport{LongPoll: every, Mode: awsretry.Adaptive}, throttled, other, 0, awsretry.StopQuota,
			time.Second},
		{"a deadline before the end of the delay", &transport{LongPoll: every}, busy, other, time.Second / 2,
			awsretry.StopDeadline, 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var last awsretry.Attempt
			tt.tr.Base, tt.tr.Observe = always(tt.outcome), func(a awsretry.Attempt) { last = a }
			tt.tr.Quota, tt.tr.Backoff, tt.tr.RetryAfterSpread = quota{Capacity: 1}, noJitter, -1
			req := httpfake.Request(t, within(t, tt.timeout), "POST", nil)
			req.URL.RawQuery = tt.query
			r := send(tt.tr, req)
			if r.stop != tt.stop || r.took != tt.delay || last.Number != 1 || last.Delay != tt.delay {
				t.Errorf("%v, %+v; want %q after %v", r, last, tt.stop, tt.delay)
			}
		})
	}
}

// A long poll is known by the form in its body, which each attempt sends whole. A
// body that the attempts do not read is not read for it either.
func TestLongPollInABody(t *testing.T) {
	const receive = "Action=ReceiveMessage&Version=2012-11-05"
	streamed := func(form string) io.Reader { return io.MultiReader(strings.NewReader(form)) }
	inPlace := func(form string) io.Reader { return io.NewSectionReader(strings.NewReader(form), 0, int64(len(form))) }
	inMemory := func(form string) io.Reader { return strings.NewReader(form) }
	for _, tt := range []struct {
		name   string
		body   func(form string) io.Reader
		form   string
		unread bool
		want   bool
	}{
		{"in memory", inMemory, receive, false, true},
		{"streamed", streamed, receive, false, true},
		{"read in place", inPlace, receive, false, true},
		{"another operation", inMemory, "Action=SendMessage", false, false},
		{"streamed, another operation", streamed, "Action=SendMessage", false, false},
		{"streamed, unread", streamed, receive, true, false},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			body := httpfake.NewBody(tt.body(tt.form))
			var sent []string
			tr := &transport{Revision: awsretry.Revision2026, Quota: quota{Capacity: 14}, Backoff: noJitter}
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				form := tt.form
				if !tt.unread {
					form, _ = httpfake.Receive(req)
				}
				sent = append(sent, form)
				return httpfake.Response(req, 503, http.NoBody), nil
			})
			req := httpfake.Request(t, t.Context(), "POST", tt.body(tt.form))
			if tt.unread {
				req.Body = body
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			want := 50 * time.Millisecond
			if tt.want {
				want += 100 * time.Millisecond
			}
			if r := send(tr, req); r.stop != awsretry.StopQuota || r.took != want || body.Reads() > 0 {
				t.Errorf("%v, %d Reads of an unread body; want %q after %v", r, body.Reads(), awsretry.StopQuota, want)
			}
			if !slices.Equal(sent, []string{tt.form, tt.form}) {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

// Legacy mode has four attempts, and its own delays.
func TestLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sentAt []time.Time
		base := inTurn(busy, responds(429, "Retry-After", "10"), busy)
		tr := &transport{Mode: awsretry.Legacy, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			sentAt = append(sentAt, time.Now())
			return base(req)
		})}
		if r := sendGet(t, tr); r.err != nil || r.StatusCode != 503 || len(sentAt) != 4 {
			t.Fatal(r, len(sentAt))
		}
		for i, want := range [][2]time.Duration{
			{30 * time.Millisecond, 60 * time.Millisecond},
			{11 * time.Second, 12 * time.Second}, // (rand[0, 500 ms) + 500 ms) * 2, and Retry-After
			{120 * time.Millisecond, 240 * time.Millisecond},
		} {
			if delay := sentAt[i+1].Sub(sentAt[i]); delay < want[0] || delay > want[1] {
				t.Errorf("delay %d is %v, want %v", i+1, delay, want)
			}
		}
	})
}

// Backoff learns the number of the retry, the class of the failure and the
// delay before. A negative delay is none.
func TestBackoffArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &transport{MaxAttempts: 4, RetryAfterSpread: -1}
		tr.Base = inTurn(busy, responds(429, "Retry-After", "5"), busy)
		tr.Backoff = awsretry.BackoffFunc(func(n int, class awsretry.Class, last time.Duration) time.Duration {
			got = append(got, fmt.Sprint(n, " ", class, " ", last))
			return time.Duration(n-1) * time.Second
		})
		sendGet(t, tr).want(t, 503, awsretry.StopMaxAttempts, 6*time.Second)
		if want := []string{"0 transient 0s", "1 throttled 0s", "2 transient 5s"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
