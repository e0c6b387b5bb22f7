package contract_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/google/go-cmp/cmp"
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

// The RetryAfter hook finds a delay in a service's own way. It sees each
// retryable response once, and no other.
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
		{"asks for less than none", asks(-time.Hour), 0, time.Second},
		{"asks for too much", asks(time.Hour), 0, 0},
		{"ignored", asks(time.Hour), -1, time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := &transport{RetryAfterSpread: -1, MaxRetryAfter: tt.limit, Backoff: delayed(time.Second)}
			calls := 0
			tr.RetryAfter = func(resp *http.Response, body []byte) (time.Duration, bool) {
				calls++
				return tt.hook(resp, body)
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
			if ignored := tt.limit < 0; calls > 1 || calls == 0 != ignored {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// While a shared Retry-After is in force nothing is sent, apart from what was
// under way. Then the callers go on one after another.
func TestShareRetryAfter(t *testing.T) {
	const callers, spread = 200, 5
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent []time.Duration
		start := time.Now()
		tr := &transport{
			ShareRetryAfter: true, MaxAttempts: 5, RetryAfterSpread: spread * time.Second,
			Quota: awsretry.QuotaConfig{Capacity: -1},
		}
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			since := time.Since(start)
			mu.Lock()
			sent = append(sent, since)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			if since < 5*time.Second {
				return httpfake.Response(req, 429, http.NoBody, "Retry-After", "5"), nil
			}
			return ok(req, http.NoBody)
		})
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				if i >= callers/2 { // whose first attempts wait too
					time.Sleep(time.Duration(rand.N(4000)+100) * time.Millisecond)
				}
				if r := sendGet(t, tr); r.err != nil || r.StatusCode != 200 {
					t.Errorf("%v", r)
				}
			})
		}
		all.Wait()
		perSecond := make(map[time.Duration]int)
		for _, at := range sent[callers/2:] {
			if at < 5*time.Second {
				t.Errorf("sent after %v", at)
			}
			perSecond[at/time.Second]++
		}
		for second, n := range perSecond {
			if mean := callers / spread; n > 2*mean {
				t.Errorf("%d sent in second %d, %d on average", n, second, mean)
			}
		}
	})
}

// A shared Retry-After delays no other partition, and no caller longer than
// the context, the deadline and MaxRetryAfter allow.
func TestSharedRetryAfterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := once(inTurn(responds(503, "Retry-After", "30"), busy, responds(503, "Retry-After", "3600"), busy))
		tr.ShareRetryAfter, tr.RetryAfterSpread = true, -1
		start := time.Now()
		sendGet(t, tr).response(t)

		r := send(tr, httpfake.Request(t, within(t, 20*time.Second), "GET", nil))
		r.want(t, 0, awsretry.StopRateLimit, 0)
		wantNotSent(t, r.err, awsretry.StopRateLimit, awsretry.ErrRateLimited)

		gone, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(errGone) })
		r = send(tr, httpfake.Request(t, gone, "GET", nil))
		r.want(t, 0, awsretry.StopCanceled, time.Second)
		wantNotSent(t, r.err, awsretry.StopCanceled, errGone)

		another := httpfake.Request(t, awsretry.WithPartition(t.Context(), "another"), "GET", nil)
		send(tr, another).want(t, 503, awsretry.StopMaxAttempts, 0)

		left := 30*time.Second - time.Since(start)
		sendGet(t, tr).want(t, 503, awsretry.StopMaxAttempts, left)
		sendGet(t, tr).want(t, 503, awsretry.StopMaxAttempts, 0) // an hour is more than MaxRetryAfter: not shared
	})
}

// A retry that another request's Retry-After would delay beyond its deadline
// returns the response that it has, as soon as that is known.
func TestSharedRetryAfterAndADeadline(t *testing.T) {
	for _, tt := range []struct {
		name    string
		other   time.Duration // when the other request is sent
		latency time.Duration
		want    time.Duration
	}{
		{"during the delay", time.Second, 0, 2 * time.Second},
		{"before the delay", time.Second / 2, time.Second, time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := &transport{ShareRetryAfter: true, Backoff: delayed(2 * time.Second)}
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				if req.Method == "POST" {
					return httpfake.Response(req, 503, http.NoBody, "Retry-After", "30"), nil
				}
				time.Sleep(tt.latency)
				return httpfake.Response(req, 503, httpfake.NewBody(strings.NewReader("busy"))), nil
			})
			time.AfterFunc(tt.other, func() {
				tr.RoundTrip(httpfake.Request(t, awsretry.WithoutRetry(t.Context()), "POST", nil))
			})
			ctx := within(t, 10*time.Second)
			r := send(tr, httpfake.Request(t, ctx, "GET", nil))
			r.want(t, 503, awsretry.StopDeadline, tt.want)
			r.wantBody(t, "busy")
		})
	}
}

// Callers in the rate limiter's line wait for a shared Retry-After too. A send
// token that comes while it is in force is put back, so that the caller has it at
// once afterwards.
func TestSharedRetryAfterCostsNoSendToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var sent []time.Duration
		tr := once(func(req *http.Request) (*http.Response, error) {
			sent = append(sent, time.Since(start))
			switch len(sent) {
			case 1:
				time.Sleep(9500 * time.Millisecond)
				return httpfake.Response(req, 503, http.NoBody, "Retry-After", "1"), nil
			case 2:
				return httpfake.Response(req, 429, http.NoBody), nil // the limiter limits from here on
			}
			return httpfake.Response(req, 200, http.NoBody), nil
		})
		tr.Mode, tr.ShareRetryAfter, tr.RetryAfterSpread = awsretry.Adaptive, true, -1
		tr.RateLimit.MinFillRate = 0.1
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { sendGet(t, tr).wantBody(t, "") })
			synctest.Wait() // the last one is in line, for up to 10 s
		}
		all.Wait()
		if want := []time.Duration{0, 0, 10500 * time.Millisecond}; !slices.Equal(sent, want) {
			t.Errorf("sent after %v, want %v", sent, want)
		}
	})
}

// State shows whom a shared Retry-After holds back, and for how long.
func TestSharedRetryAfterInState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := once(respondsWith(503, http.NoBody, "Retry-After", "30"))
		tr.ShareRetryAfter, tr.RetryAfterSpread, tr.Quota.Capacity = true, -1, 40
		send(tr, httpfake.Request(t, t.Context(), "GET", nil)).response(t)
		want := awsretry.State{Tokens: 40, Capacity: 40, ExpectedWait: 30 * time.Second, RetryAfter: 30 * time.Second}
		check := func(waiting int, left time.Duration) {
			t.Helper()
			want.Waiting, want.ExpectedWait, want.RetryAfter = waiting, left, left
			got, _ := tr.State("service.example")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		check(0, 30*time.Second)
		ctx, leave := context.WithCancel(t.Context())
		for range 3 {
			go send(tr, httpfake.Request(t, ctx, "GET", nil))
		}
		time.Sleep(10 * time.Second)
		check(3, 20*time.Second)
		leave()
		synctest.Wait()
		check(0, 20*time.Second)
		time.Sleep(20 * time.Second)
		check(0, 0)
	})
}
