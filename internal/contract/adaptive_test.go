package contract_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

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
					Mode: awsretry.Adaptive, Base: always(tt.outcome), Backoff: delayed(0),
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

// A lineLimit limits how long a request may wait in line.
type lineLimit struct {
	name              string
	maxWait, deadline time.Duration // 0: none
	stop              awsretry.Stop
}

// A caller who would wait in line for too long is refused at once and takes no
// place in it.
func TestLineThatIsTooLong(t *testing.T) {
	for _, limit := range []lineLimit{
		{name: "deadline", deadline: 8 * time.Second}, {name: "MaxWait", maxWait: 7 * time.Second},
	} {
		inBubble(t, limit.name, func(t *testing.T) {
			tr := &transport{Mode: awsretry.Adaptive, MaxAttempts: 1, Base: httpfake.Statuses(429, 200)}
			tr.RateLimit.MaxWait = limit.maxWait
			sendGet(t, tr).response(t) // from now on a token every 2 s
			var line sync.WaitGroup
			for range 3 {
				line.Go(func() { sendGet(t, tr).wantBody(t, "") })
			}
			synctest.Wait()
			r := send(tr, httpfake.Request(t, within(t, limit.deadline), "GET", nil))
			wantNotSent(t, r.err, awsretry.StopRateLimit, awsretry.ErrRateLimited)
			if !strings.Contains(r.String(), limit.name) || r.took != 0 {
				t.Errorf("%v, want it refused at once because of the %s", r, limit.name)
			}
			if state, _ := tr.State("service.example"); state.Waiting != 3 || state.ExpectedWait != 8*time.Second {
				t.Errorf("%+v, want 3 in line and 8 s", state)
			}
			line.Wait()
		})
	}
}

// A retry that would wait in line for too long is refused before its delay, and
// pays nothing: its caller gets the response and is not lost to the deadline,
// and turns nobody away who can wait.
func TestRetryInALineThatIsTooLong(t *testing.T) {
	for _, limit := range []lineLimit{
		{name: "deadline", deadline: 7 * time.Second, stop: awsretry.StopDeadline},
		{name: "MaxWait", maxWait: 7 * time.Second, stop: awsretry.StopRateLimit},
	} {
		inBubble(t, limit.name, func(t *testing.T) {
			tr := &transport{Mode: awsretry.Adaptive, Backoff: delayed(500 * time.Millisecond)}
			tr.Base, tr.RateLimit.MaxWait = httpfake.Statuses(429, 429, 200), limit.maxWait
			unrepeated := httpfake.Request(t, awsretry.WithoutRetry(t.Context()), "GET", nil)
			send(tr, unrepeated).response(t) // from now on a token every 2 s
			var line sync.WaitGroup
			for _, later := range []time.Duration{1, 2, 1500 * time.Millisecond} {
				line.Go(func() {
					time.Sleep(later)
					sendGet(t, tr).wantBody(t, "")
				})
			}
			r := send(tr, httpfake.Request(t, within(t, limit.deadline), "GET", nil))
			if wantTokens(t, tr, 500); r.stop != limit.stop || r.took > 2*time.Second {
				t.Errorf("%v", r)
			}
			line.Wait()
		})
	}
}
