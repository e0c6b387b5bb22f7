package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/sdkloop"
)

// says is an outcome that announces what remains of 100 requests for 10 s.
func says(status, remaining int) outcome {
	return responds(status, "RateLimit-Limit", "100", "RateLimit-Remaining", fmt.Sprint(remaining), "RateLimit-Reset", "10")
}

// reading returns a Transport that reads the limits and does not retry.
func reading(outcomes ...outcome) *transport {
	limits := rateLimit{Limits: awsretry.ReadLimits}
	return &transport{Base: inTurn(outcomes...), Mode: awsretry.Adaptive, MaxAttempts: 1, RateLimit: limits}
}

func wantLeft(t *testing.T, tr *transport, want float64) {
	t.Helper()
	state, _ := tr.State("service.example")
	if l := state.Limits; len(l) != 1 || l[0].Remaining != want || l[0].Quota != 100 {
		t.Errorf("left %+v, want %v", l, want)
	}
}

// A request waits for the end of a window in which nothing is left, unless that
// is too long for it.
func TestWaitForAnAnnouncedLimit(t *testing.T) {
	const end = 11 * time.Second // the reset may have been rounded
	for _, tt := range []struct {
		name                      string
		limits                    rateLimit
		deadline, cancel, refused time.Duration // 0: none; refused is the wait before the error
		want                      error
		stop                      awsretry.Stop
	}{
		{name: "it waits"},
		{name: "MaxWait is enough", limits: rateLimit{MaxWait: end}},
		{name: "MaxWait", limits: rateLimit{MaxWait: end - 1}, want: awsretry.ErrRateLimited, stop: awsretry.StopRateLimit},
		{name: "FailFast", limits: rateLimit{FailFast: true}, want: awsretry.ErrRateLimited, stop: awsretry.StopRateLimit},
		{name: "the deadline is late enough", deadline: end + 1},
		{name: "deadline", deadline: end, want: awsretry.ErrRateLimited, stop: awsretry.StopRateLimit},
		{name: "canceled", cancel: time.Second, refused: time.Second, want: errGone, stop: awsretry.StopCanceled},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := reading(says(200, 0), says(200, 90))
			tt.limits.Limits = awsretry.ReadLimits
			var record awsretry.Attempt
			tr.RateLimit, tr.Observe = tt.limits, func(a awsretry.Attempt) { record = a }
			sendGet(t, tr)
			ctx := t.Context()
			if tt.deadline > 0 {
				deadline, cancel := context.WithTimeout(ctx, tt.deadline)
				defer cancel()
				ctx = deadline
			}
			if tt.cancel > 0 {
				canceled, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(tt.cancel, func() { cancel(errGone) })
				ctx = canceled
			}
			start := time.Now()
			_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
			took := time.Since(start)
			if tt.want == nil {
				if err != nil || took != end || record.Waited != end {
					t.Errorf("%v after %v, Waited %v", err, took, record.Waited)
				}
				wantLeft(t, tr, 90)
				return
			}
			var e *awsretry.Error
			if !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Stop != tt.stop || e.Attempts != 0 || took != tt.refused {
				t.Errorf("%v after %v", err, took)
			}
			wantLeft(t, tr, 0)
		})
	}
}

// A retry that would wait too long is not made, and its response is returned.
func TestRetryOfAnAnnouncedLimit(t *testing.T) {
	for maxWait, want := range map[time.Duration]awsretry.Stop{
		5 * time.Second: awsretry.StopRateLimit, time.Minute: awsretry.StopSuccess,
	} {
		inBubble(t, maxWait.String(), func(t *testing.T) {
			tr := reading(says(429, 0), says(200, 90))
			tr.MaxAttempts, tr.RateLimit.MaxWait, tr.Backoff = 2, maxWait, contract.Delay(0)
			resp, err := get(t, tr)
			if err != nil {
				t.Fatal(err)
			}
			if record, ok := awsretry.Outcome(resp); !ok || record.Stop != want {
				t.Errorf("%+v", record)
			}
		})
	}
}

// Callers are served first come, first served, and one who leaves does not stop
// the others.
func TestLineForAnAnnouncedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var served []string
		tr := reading(says(200, 0), says(200, 5))
		base := tr.Base
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			served = append(served, req.Header.Get("Caller"))
			return base.RoundTrip(req)
		})
		sendGet(t, tr)
		leaving, leave := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for i := range 5 {
			ctx := t.Context()
			if i%2 == 0 {
				ctx = leaving
			}
			req := httpfake.Request(t, ctx, "GET", nil)
			req.Header.Set("Caller", fmt.Sprint(i))
			calls.Go(func() {
				if resp, err := tr.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			})
			synctest.Wait()
		}
		if s, _ := tr.State("service.example"); s.Waiting != 5 || s.ExpectedWait < 11*time.Second {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		leave()
		synctest.Wait()
		if s, _ := tr.State("service.example"); s.Waiting != 2 || s.ExpectedWait < 10*time.Second {
			t.Errorf("%+v", s)
		}
		calls.Wait()
		if want := []string{"", "1", "3"}; !slices.Equal(served, want) {
			t.Errorf("served %q, want %q", served, want)
		}
	})
}

// However a call ends, its requests are not in flight any more.
func TestNothingStaysInFlight(t *testing.T) {
	bad := func(req *http.Request) bool { return req.Header.Get("Bad") != "" }
	panicIf := func(bad bool) {
		if bad {
			panic("hook")
		}
	}
	for _, tt := range []struct {
		name   string
		base   outcome // of the bad request; nil: one that announces nothing
		change func(tr *transport)
		used   float64
	}{
		{"nothing is announced", nil, nil, 1},
		{"Base fails", fails(errReset), nil, 1},
		{"Base panics", panics, nil, 1},
		{"retries", busy, func(tr *transport) { tr.MaxAttempts = 3 }, 3},
		{"timeout", hangs, func(tr *transport) { tr.AttemptTimeout = time.Second }, 1},
		{"canceled", hangs, func(tr *transport) { tr.AttemptTimeout = 0 }, 1},
		{"Prepare fails", nil, func(tr *transport) {
			tr.Prepare = func(req *http.Request, _ int) error {
				if bad(req) {
					return errReset
				}
				return nil
			}
		}, 0},
		{"Prepare panics", nil, func(tr *transport) {
			tr.Prepare = func(req *http.Request, _ int) error { panicIf(bad(req)); return nil }
		}, 0},
		{"Cost panics", nil, func(tr *transport) {
			tr.RateLimit.Cost = func(req *http.Request, _ string) float64 { panicIf(bad(req)); return 1 }
		}, 0},
		{"Policy panics", busy, func(tr *transport) {
			tr.Policy = func(a *awsretry.Attempt) awsretry.Class { panicIf(bad(a.Request)); return awsretry.Success }
		}, 1},
		{"Limits panics", nil, func(tr *transport) {
			tr.RateLimit.Limits = func(resp *http.Response) []awsretry.Limit {
				panicIf(bad(resp.Request))
				return awsretry.ReadLimits(resp)
			}
		}, 1},
		{"Observe panics", nil, func(tr *transport) { tr.Observe = func(a awsretry.Attempt) { panicIf(bad(a.Request)) } }, 1},
		{"no retry tokens", busy, func(tr *transport) { tr.MaxAttempts, tr.Quota.Capacity = 3, 1 }, 1},
		{"no Backoff", busy, func(tr *transport) { tr.MaxAttempts = 3; backoffPanics(tr) }, 1},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			left := 100
			tr := reading()
			tr.Backoff = contract.Delay(0)
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				switch {
				case !bad(req):
					left--
					return always(says(200, left))(req)
				case tt.base == nil:
					return always(ok)(req)
				}
				return always(tt.base)(req)
			})
			if tt.change != nil {
				tt.change(tr)
			}
			sendGet(t, tr)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			req := httpfake.Request(t, ctx, "GET", nil)
			req.Header.Set("Bad", "yes")
			httpfake.Recovered(func() {
				if resp, err := tr.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			})
			wantLeft(t, tr, 99-tt.used)
			left -= int(tt.used)
			sendGet(t, tr)
			wantLeft(t, tr, float64(left))
		})
	}
}

// A Retry-After that comes while a request is in line gives back what the request
// took.
func TestRetryAfterDuringAnAnnouncedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := reading(says(200, 1), responds(503, "Retry-After", "30"), says(200, 90))
		tr.ShareRetryAfter, tr.RetryAfterSpread = true, -1
		base := tr.Base
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Second)
			return base.RoundTrip(req)
		})
		start := time.Now()
		sendGet(t, tr)
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() { sendGet(t, tr) })
			synctest.Wait()
		}
		calls.Wait()
		if took := time.Since(start); took < 40*time.Second || took > 60*time.Second {
			t.Errorf("it took %v", took)
		}
		wantLeft(t, tr, 90)
	})
}

// A request of a loop for one attempt alone is in flight until Settle.
func TestLoopAloneIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := reading(says(200, 99))
		sendGet(t, tr)
		var loops [2]decider
		for i := range loops {
			loop, err := sdkloop.New(tr, httpfake.Request(t, t.Context(), "GET", nil), true)
			if err != nil {
				t.Fatal(err)
			}
			loops[i] = loop.(decider)
			if err := loops[i].Wait(); err != nil {
				t.Fatal(err)
			}
			loops[i].End()
			wantLeft(t, tr, 98-float64(i))
		}
		for i, loop := range loops {
			resp, _ := says(200, 98-i)(httpfake.Request(t, t.Context(), "GET", nil), http.NoBody)
			loop.Classify(resp, "", nil)
			loop.Settle()
			wantLeft(t, tr, 97)
		}
	})
}

// The request for the rest of a body is in flight until its response has come,
// however the body ends.
func TestRestOfABodyIsInFlight(t *testing.T) {
	breaks := func(text string) io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(errReset)))
	}
	announced := []string{"ETag", `"1"`, "RateLimit-Limit", "100", "RateLimit-Reset", "10"}
	rest := func(req *http.Request, body io.ReadCloser) *http.Response {
		resp := httpfake.Response(req, 206, body, append(announced, "RateLimit-Remaining", "98", "Content-Range", "bytes 2-3/4")...)
		resp.ContentLength = 2
		return resp
	}
	for name, tt := range map[string]struct {
		second func(*http.Request) (*http.Response, error)
		left   float64
	}{
		"comes": {func(req *http.Request) (*http.Response, error) {
			return rest(req, io.NopCloser(strings.NewReader("cd"))), nil
		}, 98},
		"breaks off": {func(req *http.Request) (*http.Response, error) { return rest(req, breaks("")), nil }, 98},
		"fails":      {func(*http.Request) (*http.Response, error) { return nil, errReset }, 97},
		"is refused": {func(req *http.Request) (*http.Response, error) { return httpfake.Empty(403, req), nil }, 98},
		"panics":     {func(req *http.Request) (*http.Response, error) { panic("base") }, 98},
	} {
		inBubble(t, name, func(t *testing.T) {
			sends := 0
			tr := reading()
			tr.Resume, tr.MaxAttempts, tr.Backoff = true, 3, contract.Delay(0)
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				if sends++; sends > 1 {
					return tt.second(req)
				}
				resp := httpfake.Response(req, 200, breaks("ab"), append(announced, "RateLimit-Remaining", "99")...)
				resp.ContentLength = 4
				return resp, nil
			})
			resp := sendGet(t, tr).response(t)
			httpfake.Recovered(func() { io.ReadAll(resp.Body) })
			resp.Body.Close()
			wantLeft(t, tr, tt.left)
		})
	}
}

// State and Partitions may be read, and a RateLimiter used, beside requests.
func TestAnnouncedLimitsConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sends atomic.Int64
		tr := reading()
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			if n := int(sends.Add(1)); n%20 != 0 {
				return says(200, 100-n%20)(req, http.NoBody)
			}
			return says(429, 0)(req, http.NoBody)
		})
		limiter := awsretry.NewRateLimiter(awsretry.RateLimitConfig{Reserve: .1})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 50 {
					get(t, tr)
					tr.State("service.example")
					for _, state := range tr.Partitions() {
						_ = state.Limits
					}
				}
			})
			all.Go(func() {
				for i := range 50 {
					limiter.Wait(t.Context())
					limiter.Announce(time.Now(), []awsretry.Limit{{Quota: 100, Remaining: float64(100 - i), Reset: time.Minute}})
					limiter.UpdateSent(time.Now(), i%20 == 0)
					limiter.Rates()
				}
			})
		}
		all.Wait()
	})
}

// Throttling that an announced limit explains does not lower the send rate.
func TestExplainedThrottling(t *testing.T) {
	for name, tt := range map[string]struct {
		refusal outcome
		limited bool
	}{
		"explained": {says(429, 0), false},
		"not said":  {throttled, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			var sends atomic.Int64
			tr := reading()
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				if sends.Add(1) == 4 {
					return tt.refusal(req, http.NoBody)
				}
				return says(200, 0)(req, http.NoBody)
			})
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { get(t, tr) })
			}
			all.Wait()
			if state, _ := tr.State("service.example"); state.Limited != tt.limited {
				t.Errorf("limited %v", state.Limited)
			}
		})
	}
}
