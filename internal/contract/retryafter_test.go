package contract_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// No caller retries before Retry-After is over, and they do not all retry in
// the same second.
func TestRetryAfterSpread(t *testing.T) {
	for _, tt := range []struct {
		name     string
		mode     awsretry.Mode
		spread   time.Duration // RetryAfterSpread
		asked    string
		from, to time.Duration
	}{
		{name: "a quarter", asked: "4", from: 4 * time.Second, to: 5 * time.Second},
		{name: "five seconds at most", asked: "60", from: time.Minute, to: 65 * time.Second},
		{name: "its own", spread: 10 * time.Second, asked: "4", from: 4 * time.Second, to: 14 * time.Second},
		{name: "none", spread: -1, asked: "4", from: 4 * time.Second, to: 4 * time.Second},
		{name: "legacy", mode: awsretry.Legacy, asked: "4", from: 4 * time.Second, to: 4 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			seen := make(map[time.Duration]bool)
			for range 20 {
				tr := retrying(inTurn(responds(429, "Retry-After", tt.asked), ok))
				tr.Mode, tr.RetryAfterSpread = tt.mode, tt.spread
				r := sendGet(t, tr)
				if r.wantBody(t, ""); r.took < tt.from || r.took > tt.to {
					t.Errorf("retried after %v, want %v to %v", r.took, tt.from, tt.to)
				}
				seen[r.took] = true
			}
			if (len(seen) > 1) != (tt.from < tt.to) {
				t.Errorf("%d different delays", len(seen))
			}
		})
	}
}

// The RetryAfter hook finds a delay in a service's own way.
func TestRetryAfterHook(t *testing.T) {
	body := strings.Repeat(" ", 100) + `{"retry": 7}` + strings.Repeat(" ", 100_000)
	asks := func(d time.Duration) func(*http.Response, []byte) (time.Duration, bool) {
		return func(*http.Response, []byte) (time.Duration, bool) { return d, true }
	}
	leavesIt := func(*http.Response, []byte) (time.Duration, bool) { return time.Hour, false }
	reads := func(resp *http.Response, body []byte) (time.Duration, bool) {
		if len(body) != peekLimit || resp.StatusCode != 429 {
			t.Errorf("the hook sees %d bytes of a %d", len(body), resp.StatusCode)
		}
		return 7 * time.Second, strings.Contains(string(body), `"retry": 7`)
	}
	for _, tt := range []struct {
		name  string
		hook  func(*http.Response, []byte) (time.Duration, bool)
		limit time.Duration // MaxRetryAfter
		want  time.Duration // of the header's 3 s and the backoff's 1 s; 0: no retry
	}{
		{"asks", asks(7 * time.Second), 0, 7 * time.Second},
		{"reads the body", reads, 0, 7 * time.Second},
		{"leaves it to the header", leavesIt, 0, 3 * time.Second},
		{"asks for none", asks(0), 0, time.Second},
		{"asks for less than none", asks(-time.Hour), 0, time.Second},
		{"asks for too much", asks(time.Hour), 0, 0},
		{"ignored", asks(time.Hour), -1, time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := &transport{
				RetryAfter: tt.hook, RetryAfterSpread: -1, MaxRetryAfter: tt.limit, Backoff: contract.Delay(time.Second),
			}
			tr.Base = firstThen(func(req *http.Request) *http.Response {
				// The hook sees the body even if its code is in the header,
				// or its type has none.
				return httpfake.Response(req, 429, httpfake.NewBody(strings.NewReader(body)),
					"Retry-After", "3", "X-Amzn-ErrorType", "SlowDown", "Content-Type", "image/png")
			})
			r := sendGet(t, tr)
			if tt.want > 0 {
				r.want(t, 200, awsretry.StopSuccess, tt.want)
			} else {
				r.want(t, 429, awsretry.StopRetryAfter, 0)
				r.wantBody(t, body)
			}
		})
	}
}

// The RetryAfter hook sees each retryable response once, and no other.
func TestRetryAfterHookIsCalledOnce(t *testing.T) {
	var asked []int
	tr := retrying(httpfake.Statuses(503, 429, 404))
	tr.RetryAfter = func(resp *http.Response, _ []byte) (time.Duration, bool) {
		asked = append(asked, resp.StatusCode)
		return 0, true
	}
	sendGet(t, tr).wantBody(t, "")
	if !slices.Equal(asked, []int{503, 429}) {
		t.Errorf("asked about %v", asked)
	}
}
