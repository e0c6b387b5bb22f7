package contract_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/retrier"
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
		name             string
		limits           rateLimit
		deadline, cancel time.Duration // 0: none
		refused          time.Duration // the wait before the error
		want             error
		stop             awsretry.Stop
	}{
		{name: "MaxWait is enough", limits: rateLimit{MaxWait: end}},
		{name: "MaxWait", limits: rateLimit{MaxWait: end - 1}, want: awsretry.ErrRateLimited, stop: awsretry.StopRateLimit},
		{name: "FailFast", limits: rateLimit{FailFast: true}, want: awsretry.ErrRateLimited, stop: awsretry.StopRateLimit},
		{name: "the deadline is late enough", deadline: end + 1},
		{name: "deadline", deadline: end, want: awsretry.ErrRateLimited, stop: awsretry.StopRateLimit},
		{name: "canceled", cancel: time.Second, refused: time.Second, want: context.Canceled, stop: awsretry.StopCanceled},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := reading(says(200, 0), says(200, 90))
			tt.limits.Limits = awsretry.ReadLimits
			var record awsretry.Attempt
			tr.RateLimit, tr.Observe = tt.limits, func(a awsretry.Attempt) { record = a }
			sendGet(t, tr)
			ctx := within(t, tt.deadline)
			if tt.cancel > 0 {
				ctx, _ = canceledAfter(tt.cancel)(ctx)
			}
			r := send(tr, httpfake.Request(t, ctx, "GET", nil))
			if tt.want == nil {
				if r.want(t, 200, "", end); record.Waited != end {
					t.Errorf("Waited %v", record.Waited)
				}
				wantLeft(t, tr, 90)
				return
			}
			r.want(t, 0, tt.stop, tt.refused)
			wantNotSent(t, r.err, tt.stop, tt.want)
			wantLeft(t, tr, 0)
		})
	}
}

// A retry that would wait too long is not made, and its response is returned.
func TestRetryOfAnAnnouncedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := reading(says(429, 0))
		tr.MaxAttempts, tr.RateLimit.MaxWait = 2, 10*time.Second
		sendGet(t, tr).want(t, 429, awsretry.StopRateLimit, 0)
	})
}

// Callers are served first come, first served, and one who leaves does not stop
// the others.
func TestLineForAnAnnouncedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := make(chan string, 5)
		tr := reading(says(200, 0), says(200, 5))
		tr.Observe = func(a awsretry.Attempt) {
			if a.Response != nil {
				served <- a.Request.Header.Get("Caller")
			}
		}
		wantLine := func(waiting int, least time.Duration) {
			t.Helper()
			if s, _ := tr.State("service.example"); s.Waiting != waiting || s.ExpectedWait < least {
				t.Errorf("%+v, want %d in line for %v", s, waiting, least)
			}
		}
		sendGet(t, tr)
		leaving, leave := context.WithCancel(t.Context())
		for i, caller := range []string{"A", "B", "C", "D", "E"} {
			ctx := t.Context()
			if i%2 == 0 {
				ctx = leaving
			}
			req := httpfake.Request(t, ctx, "GET", nil)
			req.Header.Set("Caller", caller)
			go tr.RoundTrip(req)
			synctest.Wait()
		}
		wantLine(5, 11*time.Second)
		time.Sleep(time.Second)
		leave()
		synctest.Wait()
		wantLine(2, 10*time.Second)
		if got := <-served + <-served + <-served; got != "BD" {
			t.Errorf("served %q", got)
		}
	})
}

// A limit of one route does not delay another one, whose retry is not refused for
// it. ExpectedWait is that of the route that waits longest.
func TestRoutesWaitForTheirOwnLimits(t *testing.T) {
	names := func(status int, name string, left int) outcome {
		return responds(status, "RateLimit", fmt.Sprintf("%q;r=%d;t=10", name, left), "RateLimit-Policy", fmt.Sprintf("%q;q=100;w=10", name))
	}
	for _, maxWait := range []time.Duration{0, 5 * time.Second} {
		inBubble(t, fmt.Sprint(maxWait), func(t *testing.T) {
			tr := reading(names(200, "b", 90), names(200, "a", 0), names(503, "b", 90), names(200, "b", 90), names(200, "a", 99))
			tr.MaxAttempts, tr.Backoff, tr.RateLimit.MaxWait = 2, delayed(0), maxWait
			get := func(path string) result {
				req := httpfake.Request(t, t.Context(), "GET", nil)
				req.URL.Path = path
				return send(tr, req)
			}
			waiting := 0
			check := func() {
				t.Helper()
				synctest.Wait()
				s, _ := tr.State("service.example")
				if wait := s.ExpectedWait.Round(time.Second); s.Waiting != waiting || wait != 11*time.Second {
					t.Errorf("%d wait, and one more would wait %v; want %d and 11 s", s.Waiting, wait, waiting)
				}
			}
			get("/b").want(t, 200, "", 0)
			get("/a").want(t, 200, "", 0)
			check()
			for range 5 {
				go get("/a")
				if maxWait == 0 {
					waiting++
				}
				check()
			}
			get("/b").want(t, 200, awsretry.StopSuccess, 0)
			check()
		})
	}
}

// However a call ends, its requests are not in flight any more.
func TestNothingStaysInFlight(t *testing.T) {
	panicIfBad := func(req *http.Request) {
		if req.Method == "BAD" {
			panic("hook")
		}
	}
	for _, tt := range []struct {
		name   string
		base   outcome // of the bad request
		change func(tr *transport)
		used   float64
	}{
		{"nothing is announced", ok, nil, 1},
		{"Base fails", fails(errReset), nil, 1},
		{"Base panics", panics, nil, 1},
		{"retries", busy, func(tr *transport) { tr.MaxAttempts = 3 }, 3},
		{"timeout", hangs, func(tr *transport) { tr.AttemptTimeout = time.Second }, 1},
		{"canceled", hangs, nil, 1},
		{"Prepare fails", ok, func(tr *transport) {
			tr.Prepare = func(req *http.Request, _ int) error {
				if req.Method == "BAD" {
					return errReset
				}
				return nil
			}
		}, 0},
		{"Prepare panics", ok, func(tr *transport) {
			tr.Prepare = func(req *http.Request, _ int) error { panicIfBad(req); return nil }
		}, 0},
		{"Cost panics", ok, func(tr *transport) {
			tr.RateLimit.Cost = func(req *http.Request, _ string) float64 { panicIfBad(req); return 1 }
		}, 0},
		{"Cost panics for a retry", busy, func(tr *transport) {
			calls := 0
			tr.RateLimit.Cost = func(req *http.Request, _ string) float64 {
				if req.Method == "BAD" {
					calls++
				}
				if calls > 1 {
					panicIfBad(req)
				}
				return 1
			}
		}, 1},
		{"Observe panics", ok, func(tr *transport) { tr.Observe = func(a awsretry.Attempt) { panicIfBad(a.Request) } }, 1},
		{"no retry tokens", busy, func(tr *transport) { tr.MaxAttempts, tr.Quota.Capacity = 3, 1 }, 1},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			left := 100
			tr := reading()
			tr.Backoff = delayed(0)
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				if req.Method == "BAD" {
					return tt.base(req, http.NoBody)
				}
				left--
				return says(200, left)(req, http.NoBody)
			})
			if tt.change != nil {
				tt.change(tr)
			}
			for _, path := range []string{"/", "/other"} { // or a new route would have no limits
				req := httpfake.Request(t, t.Context(), "GET", nil)
				req.URL.Path = path
				tryRoundTrip(tr, req)
			}
			tryRoundTrip(tr, httpfake.Request(t, within(t, 2*time.Second), "BAD", nil))
			wantLeft(t, tr, 98-tt.used)
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
			time.Sleep(2 * time.Second)
			return base.RoundTrip(req)
		})
		sendGet(t, tr)
		go sendGet(t, tr)
		synctest.Wait()
		if r := sendGet(t, tr); r.took < 32*time.Second || r.took > 52*time.Second {
			t.Error(r)
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
			loop, err := tr.Loop(retrier.Seal{}, httpfake.Request(t, t.Context(), "GET", nil), true)
			if err != nil {
				t.Fatal(err)
			}
			loops[i] = loop
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
	announced := []string{"ETag", `"1"`, "RateLimit-Limit", "100", "RateLimit-Reset", "10", "RateLimit-Remaining"}
	breaksOff := responds(206, append(announced, "98", "Content-Range", "bytes 2-3/4")...)
	for name, tt := range map[string]struct {
		second outcome
		left   float64
	}{
		"breaks off": {breaksOff, 98}, "fails": {fails(errReset), 97}, "is refused": {responds(403), 98}, "panics": {panics, 98},
	} {
		inBubble(t, name, func(t *testing.T) {
			sends := 0
			tr := reading()
			tr.Resume, tr.MaxAttempts, tr.Backoff = true, 3, delayed(0)
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				broken := iotest.ErrReader(errReset)
				if sends++; sends > 1 {
					return tt.second(req, io.NopCloser(broken))
				}
				body := io.NopCloser(io.MultiReader(strings.NewReader("ab"), broken))
				resp := httpfake.Response(req, 200, body, append(announced, "99")...)
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
