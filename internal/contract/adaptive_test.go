package contract_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A throttlingService admits so many requests per second, at first one, and
// throttles the others. A request takes serviceLatency.
type throttlingService struct {
	rate float64

	mu                  sync.Mutex
	tokens              float64
	at                  time.Time
	admitted, throttled int
}

const serviceLatency = 10 * time.Millisecond

func newThrottlingService(rate float64) *throttlingService {
	return &throttlingService{rate: rate, tokens: max(rate/10, 1), at: time.Now()}
}

func (s *throttlingService) RoundTrip(req *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if !s.admit() {
		status = http.StatusTooManyRequests
	}
	time.Sleep(serviceLatency)
	return httpfake.Response(req, status, http.NoBody), nil
}

func (s *throttlingService) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = min(s.tokens+time.Since(s.at).Seconds()*s.rate, max(s.rate/10, 1))
	s.at = time.Now()
	if s.tokens < 1-1e-9 {
		s.throttled++
		return false
	}
	s.tokens--
	s.admitted++
	return true
}

// After a throttled response the limiter delays first attempts too.
func TestAdaptiveDelaysFirstAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(httpfake.Statuses(429, 429, 429, 200))
		tr.Mode = awsretry.Adaptive
		var waited time.Duration
		tr.Observe = func(a awsretry.Attempt) { waited += a.Waited }
		sendGet(t, tr).response(t)
		if state, _ := tr.State("service.example"); !state.Limited || state.SendRate != 0.5 || state.Tokens != 480 {
			t.Errorf("%+v", state)
		}
		sendGet(t, tr).want(t, 200, "", 2*time.Second)
		if waited != 6*time.Second {
			t.Errorf("observed waits add up to %v, want 6s", waited)
		}
		wantTokens(t, tr, 481) // a success gives one back in adaptive mode too
	})
}

// Standard mode never delays a first attempt, however often the service throttles.
func TestStandardModeDelaysNoFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []awsretry.Mode{"", awsretry.Standard, awsretry.Legacy} {
			tr := once(httpfake.Statuses(429))
			tr.Mode, tr.Observe = mode, func(awsretry.Attempt) {} // not the fast path, which asks no rate limiter
			for range 200 {
				sendGet(t, tr).want(t, 429, awsretry.StopMaxAttempts, 0)
			}
		}
	})
}

// Every outcome counts in the measured rate, that of a retry and of a broken
// connection too.
func TestOutcomesUpdateTheRate(t *testing.T) {
	for _, tt := range []struct {
		name     string
		outcome  outcome
		attempts int
	}{
		{"a success", ok, 1},
		{"a permanent failure", invalid, 1},
		{"transient failures", busy, 3},
		{"broken connections", fails(errReset), 3},
	} {
		for way, with := range ways {
			inBubble(t, tt.name+", "+way, func(t *testing.T) {
				ctx, cancel := with(t.Context())
				defer cancel()
				tr := &transport{
					Mode: awsretry.Adaptive, Base: always(tt.outcome), Backoff: contract.Delay(0),
					RateLimit: awsretry.RateLimitConfig{Smoothing: 1},
				}
				tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				time.Sleep(10 * time.Second)
				tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)) // its first outcome ends the interval
				want := float64(tt.attempts+1) / 10
				if state, _ := tr.State("service.example"); state.MeasuredRate != want {
					t.Errorf("the measured rate is %v, want %v", state.MeasuredRate, want)
				}
			})
		}
	}
}

// With FailFast, an attempt that would have to wait for a send token is not
// made.
func TestFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(httpfake.Statuses(429, 200))
		failFast(tr)
		var seen []awsretry.Attempt
		tr.Observe = func(a awsretry.Attempt) { seen = append(seen, a) }
		sendGet(t, tr).want(t, 429, awsretry.StopRateLimit, 0)
		if len(seen) != 1 || seen[0].Stop != awsretry.StopRateLimit {
			t.Errorf("observed %+v", seen)
		}
		wantTokens(t, tr, 500)
		wantNotSent(t, sendGet(t, tr).err, awsretry.StopRateLimit, awsretry.ErrRateLimited)
		time.Sleep(5 * time.Second)
		sendGet(t, tr).want(t, 200, "", 0)
	})
}

// FailFast decides after the delay, which ends with the context.
func TestFailFastAndACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Base: httpfake.Statuses(503), Backoff: noJitter}
		failFast(tr)
		ctx, cancel := canceledAfter(time.Millisecond)(t.Context())
		defer cancel()
		r := send(tr, httpfake.Request(t, ctx, "GET", nil))
		r.want(t, 0, awsretry.StopCanceled, time.Millisecond)
		if r.wantIs(t, context.Canceled); !strings.Contains(r.String(), "503") {
			t.Errorf("%v does not name the failure before", r)
		}
	})
}

// The send token of an attempt that is not sent is given back.
func TestSendTokenIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken error
		tr := once(httpfake.Statuses(429, 200))
		tr.Prepare = func(*http.Request, int) error { return broken }
		failFast(tr)
		sendGet(t, tr).response(t)
		time.Sleep(3 * time.Second) // for one token
		broken = errors.New("no credentials")
		sendGet(t, tr).wantIs(t, broken)
		broken = nil
		sendGet(t, tr).want(t, 200, "", 0)
	})
}

// While callers of one table wait in line for its send tokens, those of another
// pass at full speed.
func TestLineOfAnotherPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 20 * time.Second
		services := map[string]*throttlingService{"hot": newThrottlingService(5), "cold": newThrottlingService(1000)}
		table := func(req *http.Request) string { return req.Header.Get("Table") }
		tr := &transport{
			Mode: awsretry.Adaptive, Partition: table,
			Base: httpfake.Base(
				func(req *http.Request) (*http.Response, error) { return services[table(req)].RoundTrip(req) }),
		}
		start := time.Now()
		var all sync.WaitGroup
		callers := func(table string, n int, check func(result)) {
			for range n {
				all.Go(func() {
					for time.Since(start) < length {
						req := httpfake.Request(t, t.Context(), "GET", nil)
						req.Header.Set("Table", table)
						check(send(tr, req))
					}
				})
			}
		}
		callers("hot", 64, func(r result) {
			if r.err != nil {
				t.Error(r)
			}
		})
		callers("cold", 4, func(r result) { r.want(t, 200, "", serviceLatency) })
		all.Wait()
		if state, _ := tr.State("hot"); !state.Limited || services["hot"].throttled == 0 {
			t.Errorf("the hot table: %+v, %d attempts throttled", state, services["hot"].throttled)
		}
		admitted := services["cold"].admitted
		if state, _ := tr.State("cold"); state.Limited || state.Tokens != 500 ||
			admitted != 4*int(length/serviceLatency) {
			t.Errorf("the cold table: %+v, %d calls", state, admitted)
		}
	})
}

// A caller who would wait in line for too long is refused at once and takes no
// place in it.
func TestLineThatIsTooLong(t *testing.T) {
	for _, limit := range []string{"deadline", "MaxWait"} {
		synctest.Test(t, func(t *testing.T) {
			tr := &transport{Mode: awsretry.Adaptive, MaxAttempts: 1, Base: httpfake.Statuses(429, 200)}
			ctx := t.Context()
			if limit == "MaxWait" {
				tr.RateLimit.MaxWait = 7 * time.Second
			} else {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 8*time.Second)
				defer cancel()
			}
			sendGet(t, tr).response(t) // from now on a token every 2 s
			var line sync.WaitGroup
			for range 3 {
				line.Go(func() { sendGet(t, tr).wantBody(t, "") })
			}
			synctest.Wait()
			r := send(tr, httpfake.Request(t, ctx, "GET", nil))
			wantNotSent(t, r.err, awsretry.StopRateLimit, awsretry.ErrRateLimited)
			if !strings.Contains(r.String(), limit) || r.took != 0 {
				t.Errorf("%v, want it refused at once because of the %s", r, limit)
			}
			if state, _ := tr.State("service.example"); state.Waiting != 3 || state.ExpectedWait != 8*time.Second {
				t.Errorf("%s: %+v, want 3 in line and 8 s", limit, state)
			}
			line.Wait()
		})
	}
}

// A retry that would wait in line for too long is refused before its delay, and
// pays nothing.
func TestRetryInALineThatIsTooLong(t *testing.T) {
	for _, limit := range []string{"deadline", "MaxWait"} {
		inBubble(t, limit, func(t *testing.T) {
			tr := &transport{Mode: awsretry.Adaptive, Backoff: contract.Delay(500 * time.Millisecond)}
			tr.Base = httpfake.Statuses(429, 429, 200)
			ctx, want := t.Context(), awsretry.StopRateLimit
			if limit == "MaxWait" {
				tr.RateLimit.MaxWait = 7 * time.Second
			} else {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 7*time.Second)
				defer cancel()
				want = awsretry.StopDeadline
			}
			unrepeated := httpfake.Request(t, awsretry.WithoutRetry(t.Context()), "GET", nil)
			send(tr, unrepeated).response(t) // from now on a token every 2 s
			var line sync.WaitGroup
			for _, later := range []time.Duration{1, 2, 1500 * time.Millisecond} {
				line.Go(func() {
					time.Sleep(later)
					sendGet(t, tr).wantBody(t, "")
				})
			}
			r := send(tr, httpfake.Request(t, ctx, "GET", nil))
			if wantTokens(t, tr, 500); r.stop != want || r.took > 2*time.Second {
				t.Errorf("%v", r)
			}
			line.Wait()
		})
	}
}

// Retries that cannot be served before their deadline do not stand in line, so
// that they turn nobody away who can wait.
func TestThrottledCallersTurnNobodyAway(t *testing.T) {
	for _, pacing := range []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing} {
		inBubble(t, pacing.String(), func(t *testing.T) {
			// At a token every 2 s, 60 s are time for 30 calls.
			const patient, hasty = 20, 100
			tr := &transport{Mode: awsretry.Adaptive, Base: newThrottlingService(0)}
			tr.RateLimit.Pacing, tr.Quota.Capacity = pacing, -1
			call := func(timeout time.Duration) result {
				ctx := within(t, timeout)
				return send(tr, httpfake.Request(t, ctx, "GET", nil))
			}
			var all sync.WaitGroup
			var atOnce atomic.Int32
			for range hasty {
				all.Go(func() {
					if r := call(10 * time.Second); r.stop == awsretry.StopDeadline && r.took <= 2*time.Second {
						atOnce.Add(1)
					}
				})
			}
			time.Sleep(2 * time.Second) // longer than their delays
			synctest.Wait()
			if state, _ := tr.State("service.example"); state.ExpectedWait > 12*time.Second {
				t.Errorf("the line of those with 10 s is longer than that: %+v", state)
			}
			for range patient {
				all.Go(func() {
					if r := call(time.Minute); errors.Is(r.err, awsretry.ErrRateLimited) {
						t.Error(r)
					}
				})
			}
			all.Wait()
			if atOnce.Load() < 90 {
				t.Errorf("%d of %d responses were returned at once", atOnce.Load(), hasty)
			}
		})
	}
}

// A retry that would come too late in the line returns the response before it,
// so that no call is lost to its deadline.
func TestDeadlinesOfAdaptiveCallers(t *testing.T) {
	for _, tt := range []struct {
		name        string
		rate        float64 // of the service; 0: it throttles all but one
		callers     int
		calls       int // of each caller
		leastOK     int
		mostRefused int // before the first attempt
	}{
		{"all throttled but one", 0, 100, 1, 0, 0},
		{"20/s", 20, 16, 1, 6, 0},
		{"100/s", 100, 100, 1, 14, 0},
		{"100/s, five calls each", 100, 100, 5, 30, 380},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := &transport{Mode: awsretry.Adaptive, Base: newThrottlingService(tt.rate)}
			var mu sync.Mutex
			results := map[string]int{}
			var all sync.WaitGroup
			for range tt.callers {
				all.Go(func() {
					for range tt.calls {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
						cancel()
						mu.Lock()
						switch {
						case err == nil && resp.StatusCode == 200:
							results["ok"]++
						case err == nil:
							results["throttled"]++
						case errors.Is(err, awsretry.ErrRateLimited):
							results["refused"]++
						default:
							results["lost to the deadline"]++
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if results["lost to the deadline"] > 0 || results["ok"] < tt.leastOK ||
				results["refused"] > tt.mostRefused {
				t.Error(results)
			}
		})
	}
}
