package awsretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/bucket"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/waittest"
)

func TestSendRateVectors(t *testing.T) {
	var vectors []struct {
		MS             int
		Throttled      bool
		Measured, Send float64
	}
	readVectors(t, "sendrate.json", &vectors)
	synctest.Test(t, func(t *testing.T) { // the bubble begins with a whole second
		l := NewRateLimiter(RateLimitConfig{})
		start, throttled := time.Now(), false
		for _, v := range vectors {
			time.Sleep(time.Until(start.Add(time.Duration(v.MS) * time.Millisecond)))
			l.Update(v.Throttled)
			throttled = throttled || v.Throttled
			measured, send, limited := l.Rates()
			if !near(measured, v.Measured, 1e-9) || !near(send, v.Send, 1e-9) || limited != throttled {
				t.Errorf("at %d ms: %v, %v, %v; want %v, %v, %v",
					v.MS, measured, send, limited, v.Measured, v.Send, throttled)
			}
		}
	})
}

func TestNoLimitBeforeTheFirstThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{})
		if measured, send, limited := l.Rates(); measured != 0 || send != 0 || limited {
			t.Errorf("at first: %v, %v, %v", measured, send, limited)
		}
		start := time.Now()
		for range 1000 {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.Update(false)
		}
		if _, send, limited := l.Rates(); send != 0.5 || limited {
			t.Errorf("after 1000 outcomes at once: send rate %v, limited %v; want 0.5, false", send, limited)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("waited %v", took)
		}
		time.Sleep(time.Second)
		if got := l.bucket.Tokens(); !near(got, 0.5, 1e-8) {
			t.Errorf("%v tokens after a second, want 0.5: none taken", got)
		}
		l.Update(true)
		if _, _, limited := l.Rates(); !limited {
			t.Error("does not limit after throttling")
		}
		l.Update(false)
		if _, _, limited := l.Rates(); !limited {
			t.Error("does not limit after throttling and a success")
		}
	})
}

// The capacity follows the rate also below MinFillRate.
func TestCapacityBelowTheLowestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{MinFillRate: 100, ScaleConstant: 1e9})
		l.Update(false) // sets the lowest rate and capacity
		time.Sleep(time.Second)
		for range 9 {
			l.Update(false) // the first measures: 2 outcomes in 1 s
		}
		time.Sleep(time.Second)
		_, send, _ := l.Rates()
		if got := l.bucket.Tokens(); send != 100 || !near(got, 3.2, 1e-8) {
			t.Errorf("%v tokens at the rate %v, want 3.2 at 100", got, send)
		}
	})
}

func TestUpdateWakesTheFirstEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{})
		q := waittest.NewQueue()
		l.Update(true)
		for i := range 3 {
			q.Join(i, func() error { return l.Wait(t.Context()) })
		}
		time.Sleep(time.Second) // half a token
		// 200 outcomes are measured half a second later. The measured rate
		// jumps, and with it the limit on the send rate.
		for range 200 {
			l.Update(false)
		}
		time.Sleep(time.Second / 2) // 3/4 of a token at the old rate
		l.Update(false)
		_, send, _ := l.Rates()
		if send <= defaultMinFillRate {
			t.Fatalf("the send rate stayed at %v", send)
		}
		want := 1500*time.Millisecond + time.Duration(math.Ceil(0.25/send*1e9))
		if got := q.Wait(); got[0].ID != 0 || (got[0].At-want).Abs() > time.Nanosecond {
			t.Errorf("first: %v, want caller 0 at %v (at the old rate: 2s)", got[0], want)
		}
	})
}

func TestRateLimitConfigValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	const (
		aFraction = "; it must be in (0, 1], or 0 for "
		aConstant = "; it must be a finite number above 0, or 0 for 0.4"
		aRate     = "; it must be a finite number, 2.2e-10 (one in 146 years) or more, or 0 for 0.5"
		aCapacity = "; it must be a finite number of tokens, 1 or more, or 0 for 1"
	)
	tests := []struct {
		config RateLimitConfig
		want   string // the error; "" for none
	}{
		{RateLimitConfig{}, ""},
		{RateLimitConfig{Beta: 1, Smoothing: 1, ScaleConstant: 1e-9, MinFillRate: 1e9}, ""},
		{RateLimitConfig{MinCapacity: 1, MeasureInterval: 1, MaxWait: 1}, ""},
		{RateLimitConfig{MinFillRate: bucket.MinRate}, ""},
		{RateLimitConfig{Beta: 2}, "RateLimit.Beta is 2" + aFraction + "0.7"},
		{RateLimitConfig{Beta: 2, Pacing: ScaledPacing}, "RateLimit.Beta is 2" + aFraction + "0.9"},
		{RateLimitConfig{Beta: 1, Pacing: ScaledPacing},
			"RateLimit.Beta is 1; with ScaledPacing it must be in (0, 1), or 0 for 0.9"},
		{RateLimitConfig{Pacing: 2}, "RateLimit.Pacing is 2; it must be CubicPacing (0) or ScaledPacing (1)"},
		{RateLimitConfig{Pacing: -1}, "RateLimit.Pacing is -1; it must be CubicPacing (0) or ScaledPacing (1)"},
		{RateLimitConfig{Pacing: ScaledPacing, ScaleConstant: 1},
			"RateLimit.ScaleConstant is 1; it must be 0 with ScaledPacing, which does not use it"},
		{RateLimitConfig{Beta: -0.1}, "RateLimit.Beta is -0.1" + aFraction + "0.7"},
		{RateLimitConfig{Beta: nan}, "RateLimit.Beta is NaN" + aFraction + "0.7"},
		{RateLimitConfig{Smoothing: 1.01}, "RateLimit.Smoothing is 1.01" + aFraction + "0.8"},
		{RateLimitConfig{Smoothing: nan}, "RateLimit.Smoothing is NaN" + aFraction + "0.8"},
		{RateLimitConfig{ScaleConstant: -1}, "RateLimit.ScaleConstant is -1" + aConstant},
		{RateLimitConfig{ScaleConstant: inf}, "RateLimit.ScaleConstant is +Inf" + aConstant},
		{RateLimitConfig{MinFillRate: nan}, "RateLimit.MinFillRate is NaN" + aRate},
		{RateLimitConfig{MinFillRate: -inf}, "RateLimit.MinFillRate is -Inf" + aRate},
		{RateLimitConfig{MinFillRate: inf}, "RateLimit.MinFillRate is +Inf" + aRate},
		{RateLimitConfig{MinFillRate: 1e-300}, "RateLimit.MinFillRate is 1e-300" + aRate},
		{RateLimitConfig{MinCapacity: 0.99}, "RateLimit.MinCapacity is 0.99" + aCapacity},
		{RateLimitConfig{MinCapacity: -1}, "RateLimit.MinCapacity is -1" + aCapacity},
		{RateLimitConfig{MinCapacity: inf}, "RateLimit.MinCapacity is +Inf" + aCapacity},
		{RateLimitConfig{MeasureInterval: -1}, "RateLimit.MeasureInterval is -1ns; it must be above 0, or 0 for 500ms"},
		{RateLimitConfig{MaxWait: -1},
			"RateLimit.MaxWait is -1ns; it must be above 0, or 0 for as long as the context lasts"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%+v", test.config), func(t *testing.T) {
			got := ""
			if err := test.config.validate(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			l := NewRateLimiter(test.config)
			for range 2 {
				l.Update(true)
				if test.want != "" {
					if err := l.Wait(t.Context()); err == nil || err.Error() != "awsretry: "+test.want {
						t.Errorf("Wait returned %v", err)
					}
				}
			}
			if _, _, limited := l.Rates(); limited != (test.want == "") {
				t.Errorf("limited is %v", limited)
			}
		})
	}
}

func TestLimiterConcurrently(t *testing.T) {
	l := NewRateLimiter(RateLimitConfig{MinFillRate: 1e5, MinCapacity: 10})
	var sent, left atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 50 {
				ctx, cancel := t.Context(), func() {}
				if (i+j)%5 == 0 {
					ctx, cancel = waittest.CancelAfter(ctx, 50*time.Microsecond, context.DeadlineExceeded)
				}
				switch err := l.Wait(ctx); {
				case err == nil:
					sent.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					left.Add(1)
				default:
					t.Error(err)
				}
				cancel()
				l.Update(j%10 == 0)
				l.Rates()
			}
		})
	}
	wg.Wait()
	if sent.Load()+left.Load() != 64*50 {
		t.Errorf("%d sent, %d left", sent.Load(), left.Load())
	}
	wantNoLine(t, l.bucket)
}

// The Transport says when a request was sent: with ScaledPacing a burst of
// requests that are all throttled cuts the rate once.
func TestScaledPacingCutsOnceForABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusTooManyRequests
		tr := &Transport{
			Mode: Adaptive, MaxAttempts: 1,
			RateLimit: RateLimitConfig{Pacing: ScaledPacing, MinFillRate: 1, MinCapacity: 100},
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				now := status
				time.Sleep(50 * time.Millisecond)
				return httpfake.Response(req, now, http.NoBody), nil
			}),
		}
		get := func() {
			if _, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)); err != nil {
				t.Error(err)
			}
		}
		get()
		status = http.StatusOK
		for range 100 {
			get()
		}
		time.Sleep(10 * time.Second) // tokens for the burst
		before, _ := tr.State("service.example")
		status = http.StatusTooManyRequests
		var burst sync.WaitGroup
		for range 20 {
			burst.Go(get)
			time.Sleep(time.Millisecond)
		}
		burst.Wait()
		after, _ := tr.State("service.example")
		if left := after.SendRate / before.SendRate; left < 0.85 || left > 0.95 {
			t.Errorf("%.2f of the send rate are left, want the 0.9 of one cut", left)
		}
	})
}

func TestUpdateSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{Pacing: ScaledPacing, MinFillRate: 1})
		limit := func() float64 {
			_, send, _ := l.Rates()
			return send
		}
		l.Update(true)
		for range 400 {
			time.Sleep(10 * time.Millisecond)
			l.Update(false)
		}
		sent := time.Now()
		time.Sleep(time.Millisecond)
		for range 5 {
			l.Update(true) // ends the start
		}
		cut := limit()
		for _, old := range []time.Time{sent, {}, sent.Add(-time.Hour)} {
			if l.UpdateSent(old, true); limit() < cut {
				t.Errorf("a throttled request of %v lowered the rate from %v to %v", old, cut, limit())
			}
		}
		time.Sleep(time.Millisecond)
		if l.UpdateSent(time.Now().Add(time.Hour), true); limit() >= cut {
			t.Errorf("a throttled request from now on left the rate at %v", limit())
		}
	})
	var zero RateLimiter
	zero.UpdateSent(time.Now(), true) // and does not panic
	if measured, send, limited := zero.Rates(); measured != 0 || send != 0 || limited {
		t.Errorf("the zero RateLimiter has %v, %v, %v", measured, send, limited)
	}
}

// A limiter that is used without a Transport has nothing in flight once it knows
// all outcomes, in whatever order and with whatever times it learns them.
func TestAnnounceAlone(t *testing.T) {
	limits := []Limit{{Quota: 100, Remaining: 50, Reset: time.Minute}}
	for _, tt := range []struct {
		name string
		use  func(l *RateLimiter)
	}{
		{"in order", func(l *RateLimiter) {
			for range 3 {
				wantNil(t, l.Wait(t.Context()))
				sent := time.Now()
				time.Sleep(time.Millisecond)
				l.Announce(sent, limits)
				l.UpdateSent(sent, false)
			}
		}},
		{"Update", func(l *RateLimiter) {
			wantNil(t, l.Wait(t.Context()))
			l.Announce(time.Now(), limits)
			l.Update(false)
		}},
		{"zero times", func(l *RateLimiter) {
			wantNil(t, l.Wait(t.Context()))
			l.Announce(time.Time{}, limits)
			l.UpdateSent(time.Time{}, false)
		}},
		{"times far ahead", func(l *RateLimiter) {
			wantNil(t, l.Wait(t.Context()))
			l.Announce(time.Now().AddDate(500, 0, 0), limits)
			l.UpdateSent(time.Now().AddDate(500, 0, 0), false)
		}},
		{"outcome before the limits", func(l *RateLimiter) {
			wantNil(t, l.Wait(t.Context()))
			l.UpdateSent(time.Now(), false)
			l.Announce(time.Now(), limits)
		}},
		{"without Wait", func(l *RateLimiter) {
			l.Announce(time.Now(), limits)
			l.UpdateSent(time.Now(), false)
			l.Announce(time.Now(), limits)
		}},
	} {
		for _, known := range []bool{false, true} { // that there may be limits
			t.Run(fmt.Sprint(tt.name, ", from the start ", known), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := RateLimitConfig{}
					if known {
						c.Limits = ReadLimits
					}
					l := NewRateLimiter(c)
					time.Sleep(time.Second)
					tt.use(l)
					got := l.limitsNow()
					if len(got) != 1 || got[0].Remaining != 50 || (got[0].Reset-time.Minute).Abs() > time.Second {
						t.Errorf("%+v", got)
					}
				})
			})
		}
	}
	for _, l := range []*RateLimiter{{}, NewRateLimiter(RateLimitConfig{Reserve: 1})} {
		l.Announce(time.Now(), limits) // does nothing
		l.UpdateSent(time.Now(), false)
		if got := l.limitsNow(); got != nil {
			t.Errorf("%+v", got)
		}
	}
}

func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
