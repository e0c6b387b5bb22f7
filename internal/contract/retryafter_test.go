package contract_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := make(map[time.Duration]bool)
				for range 20 {
					tr := retrying(firstThen(func(req *http.Request) *http.Response {
						return httpfake.Response(req, 429, http.NoBody, "Retry-After", tt.asked)
					}))
					tr.Mode, tr.RetryAfterSpread = tt.mode, tt.spread
					start := time.Now()
					if _, err := get(t, tr); err != nil {
						t.Fatal(err)
					}
					took := time.Since(start)
					if took < tt.from || took > tt.to {
						t.Errorf("retried after %v, want %v to %v", took, tt.from, tt.to)
					}
					seen[took] = true
				}
				if (len(seen) > 1) != (tt.from < tt.to) {
					t.Errorf("%d different delays", len(seen))
				}
			})
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
		want  time.Duration // of the header's 3 s and the backoff's 1 s
		stop  awsretry.Stop
	}{
		{"asks", asks(7 * time.Second), 0, 7 * time.Second, awsretry.StopSuccess},
		{"reads the body", reads, 0, 7 * time.Second, awsretry.StopSuccess},
		{"leaves it to the header", leavesIt, 0, 3 * time.Second, awsretry.StopSuccess},
		{"asks for none", asks(0), 0, time.Second, awsretry.StopSuccess},
		{"asks for less than none", asks(-time.Hour), 0, time.Second, awsretry.StopSuccess},
		{"asks for too much", asks(time.Hour), 0, 0, awsretry.StopRetryAfter},
		{"ignored", asks(time.Hour), -1, time.Second, awsretry.StopSuccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &transport{
					RetryAfter: tt.hook, RetryAfterSpread: -1, MaxRetryAfter: tt.limit,
					Backoff: contract.Delay(time.Second),
				}
				tr.Base = firstThen(func(req *http.Request) *http.Response {
					// The hook sees the body even if its code is in the header,
					// or its type has none.
					return httpfake.Response(req, 429, httpfake.NewBody(strings.NewReader(body)),
						"Retry-After", "3", "X-Amzn-ErrorType", "SlowDown", "Content-Type", "image/png")
				})
				start := time.Now()
				resp, err := get(t, tr)
				if err != nil {
					t.Fatal(err)
				}
				if stop, took := contract.StopOf(resp, nil), time.Since(start); stop != tt.stop || took != tt.want {
					t.Errorf("stopped by %q after %v, want %q after %v", stop, took, tt.stop, tt.want)
				}
				if got := httpfake.ReadAll(t, resp); tt.stop == awsretry.StopRetryAfter && got != body {
					t.Errorf("%d of %d bytes", len(got), len(body))
				}
			})
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
	if _, err := get(t, tr); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []int{503, 429}) {
		t.Errorf("asked about %v", asked)
	}
}
