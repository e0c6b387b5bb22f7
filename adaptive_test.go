package awsretry

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCurveVectors(t *testing.T) {
	var vectors []struct {
		Name                 string
		LastMax, ThrottledAt float64
		Steps                []struct{ At, Want float64 }
	}
	readVectors(t, "cubic.json", &vectors)
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, vector := range vectors {
		t.Run(vector.Name, func(t *testing.T) {
			c := curve{beta: defaultBeta, scale: defaultScaleConstant}
			c.cut(0, 99) // an older throttling leaves nothing behind
			if got, want := c.cut(seconds(vector.ThrottledAt), vector.LastMax), 0.7*vector.LastMax; !near(got, want, 1e-9) {
				t.Errorf("throttled: %v, want %v", got, want)
			}
			for _, step := range vector.Steps {
				if got := c.grow(seconds(step.At)); !near(got, step.Want, 1e-9) {
					t.Errorf("at %v s: %v, want %v", step.At, got, step.Want)
				}
			}
		})
	}
}

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
				t.Errorf("at %d ms: %v, %v, %v; want %v, %v, %v", v.MS, measured, send, limited, v.Measured, v.Send, throttled)
			}
		}
	})
}

func TestOffUntilThrottled(t *testing.T) {
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
			t.Errorf("after 1000 answers at once: send rate %v, limited %v; want 0.5, false", send, limited)
		}
		if passed := time.Since(start); passed != 0 {
			t.Errorf("waited %v", passed)
		}
		time.Sleep(time.Second)
		if got := l.bucket.level(l.bucket.now()); got != 0.5 {
			t.Errorf("tokens are %v after a second, want 0.5: none taken", got)
		}
		l.Update(true)
		if _, _, limited := l.Rates(); !limited {
			t.Error("not limited after throttling")
		}
		l.Update(false)
		if _, _, limited := l.Rates(); !limited {
			t.Error("not limited any more after a success")
		}
	})
}

func TestWaitWaitsForTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{})
		l.Update(true) // nothing measured yet: 0.5 a second, no token
		start := time.Now()
		for i := range 3 {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(start), time.Duration(i+1)*2*time.Second; got != want {
				t.Errorf("token %d after %v, want %v", i, got, want)
			}
		}
		wantIdle(t, &l.bucket)
	})
}

func TestFailFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{FailFast: true})
		l.Update(true)
		start := time.Now()
		if err := l.Wait(t.Context()); !errors.Is(err, ErrRateLimited) {
			t.Errorf("without a token: %v", err)
		}
		if passed := time.Since(start); passed != 0 {
			t.Errorf("waited %v", passed)
		}
		for range 20 { // a tenth of a token at a time, with somebody asking each time
			time.Sleep(time.Second / 10)
			if time.Since(start) < 2*time.Second {
				if err := l.Wait(t.Context()); !errors.Is(err, ErrRateLimited) {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			}
		}
		if err := l.Wait(t.Context()); err != nil {
			t.Errorf("with a token: %v", err)
		}
		if err := l.Wait(t.Context()); !errors.Is(err, ErrRateLimited) {
			t.Errorf("with the token gone: %v", err)
		}
	})
}

func TestUpdateWakesTheFirstEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{})
		q := newQueue(&l.bucket)
		l.Update(true)
		for i := range 3 {
			q.join(t.Context(), i, 1)
		}
		time.Sleep(time.Second) // half a token
		// 200 answers within a second and a half that ends now: the measured rate jumps, and with it the limit on the send rate.
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
		if got := q.wait(); got[0].id != 0 || (got[0].at-want).Abs() > time.Nanosecond {
			t.Errorf("first: %v, want waiter 0 at %v (at the old rate: 2s)", got[0], want)
		}
	})
}

func TestWaitersOfLimiterAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{})
		l.Update(true)
		var order, want []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if err := l.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				l.Update(i%7 == 3)
			})
			synctest.Wait()
			want = append(want, i)
		}
		wg.Wait()
		if !slices.Equal(order, want) {
			t.Errorf("served in the order %v", order)
		}
		wantIdle(t, &l.bucket)
	})
}

func TestWaitAndEndedContexts(t *testing.T) {
	cause := errors.New("the user left")
	for _, throttled := range []bool{false, true} {
		for _, failFast := range []bool{false, true} {
			l := NewRateLimiter(RateLimitConfig{FailFast: failFast})
			if throttled {
				l.Update(true)
				l.bucket.tokens = 1
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			if err := l.Wait(ctx); !errors.Is(err, cause) {
				t.Errorf("throttled %v, fail fast %v: %v, want %v", throttled, failFast, err, cause)
			}
			if throttled && l.bucket.tokens < 1 {
				t.Errorf("fail fast %v: a token was taken", failFast)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimiter(RateLimitConfig{})
		l.Update(true)
		ctx, cancel := cancelAfter(t.Context(), time.Second, cause)
		defer cancel()
		start := time.Now()
		if err := l.Wait(ctx); !errors.Is(err, cause) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v, want %v after 1s", time.Since(start), err, cause)
		}
		wantIdle(t, &l.bucket)
	})
}

func TestRateLimitConfigValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	const aRate = "it must be a finite number, 2.2e-10 (one in 146 years) or more, or 0 for 0.5"
	tests := []struct {
		config RateLimitConfig
		want   string // the error's text; "" for none
	}{
		{RateLimitConfig{}, ""},
		{RateLimitConfig{Beta: 1, Smoothing: 1, ScaleConstant: 1e-9, MinFillRate: 1e9, MinCapacity: 1, MeasureInterval: 1, MaxWait: 1}, ""},
		{RateLimitConfig{Beta: 2}, "RateLimit.Beta is 2; it must be in (0, 1], or 0 for 0.7"},
		{RateLimitConfig{Beta: -0.1}, "RateLimit.Beta is -0.1; it must be in (0, 1], or 0 for 0.7"},
		{RateLimitConfig{Beta: nan}, "RateLimit.Beta is NaN; it must be in (0, 1], or 0 for 0.7"},
		{RateLimitConfig{Smoothing: 1.01}, "RateLimit.Smoothing is 1.01; it must be in (0, 1], or 0 for 0.8"},
		{RateLimitConfig{Smoothing: nan}, "RateLimit.Smoothing is NaN; it must be in (0, 1], or 0 for 0.8"},
		{RateLimitConfig{ScaleConstant: -1}, "RateLimit.ScaleConstant is -1; it must be a finite number above 0, or 0 for 0.4"},
		{RateLimitConfig{ScaleConstant: inf}, "RateLimit.ScaleConstant is +Inf; it must be a finite number above 0, or 0 for 0.4"},
		{RateLimitConfig{MinFillRate: minRate}, ""},
		{RateLimitConfig{MinFillRate: nan}, "RateLimit.MinFillRate is NaN; " + aRate},
		{RateLimitConfig{MinFillRate: -inf}, "RateLimit.MinFillRate is -Inf; " + aRate},
		{RateLimitConfig{MinFillRate: inf}, "RateLimit.MinFillRate is +Inf; " + aRate},
		{RateLimitConfig{MinFillRate: 1e-300}, "RateLimit.MinFillRate is 1e-300; " + aRate},
		{RateLimitConfig{MinCapacity: 0.99}, "RateLimit.MinCapacity is 0.99; it must be a finite number of tokens, 1 or more, or 0 for 1"},
		{RateLimitConfig{MinCapacity: -1}, "RateLimit.MinCapacity is -1; it must be a finite number of tokens, 1 or more, or 0 for 1"},
		{RateLimitConfig{MinCapacity: inf}, "RateLimit.MinCapacity is +Inf; it must be a finite number of tokens, 1 or more, or 0 for 1"},
		{RateLimitConfig{MeasureInterval: -1}, "RateLimit.MeasureInterval is -1ns; it must be above 0, or 0 for 500ms"},
		{RateLimitConfig{MaxWait: -1}, "RateLimit.MaxWait is -1ns; it must be above 0, or 0 for as long as the context lasts"},
	}
	for _, test := range tests {
		got := ""
		if err := test.config.validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v:\ngot  %q\nwant %q", test.config, got, test.want)
		}
		l := NewRateLimiter(test.config)
		for range 2 {
			l.Update(true)
			if test.want != "" {
				if err := l.Wait(t.Context()); err == nil || err.Error() != "awsretry: "+test.want {
					t.Errorf("%+v: Wait returned %v", test.config, err)
				}
			}
		}
		if _, _, limited := l.Rates(); limited != (test.want == "") {
			t.Errorf("%+v: limited is %v", test.config, limited)
		}
	}
}

func TestZeroRateLimiterNeverLimits(t *testing.T) {
	var l RateLimiter
	l.Update(true)
	if err := l.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if measured, send, limited := l.Rates(); measured != 0 || send != 0 || limited {
		t.Errorf("%v, %v, %v", measured, send, limited)
	}
}

func TestMeterIsAlignedToTheEpoch(t *testing.T) {
	tests := []struct {
		start    time.Time
		interval time.Duration
		want     []time.Duration // on the clock, when the answers of one every 10 ms are measured
	}{
		{time.Unix(100, 300e6), 500 * time.Millisecond, []time.Duration{200e6, 700e6, 1200e6}},
		{time.Unix(100, 700e6), 500 * time.Millisecond, []time.Duration{0, 300e6, 800e6}}, // a boundary lies behind the whole second
		{time.Unix(100, 0), 300 * time.Millisecond, []time.Duration{200e6, 500e6, 800e6, 1100e6}},
		{time.Unix(-100, 300e6), 500 * time.Millisecond, []time.Duration{200e6, 700e6, 1200e6}},
		{time.Unix(-101, 0), 1200 * time.Millisecond, []time.Duration{200e6}},
	}
	for _, test := range tests {
		m := newMeter(test.start, test.interval, 0.8)
		var got []time.Duration
		for now := time.Duration(0); now <= 1250*time.Millisecond; now += 10 * time.Millisecond {
			m.count(now)
			if m.answers == 0 {
				got = append(got, now)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("start %v, interval %v: measured at %v, want %v", test.start.UTC(), test.interval, got, test.want)
		}
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
					ctx, cancel = cancelAfter(ctx, 50*time.Microsecond, context.DeadlineExceeded)
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
	if l.bucket.first != nil || l.bucket.timer != nil {
		t.Error("somebody is still in line")
	}
}

func TestLimiterAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	off := NewRateLimiter(RateLimitConfig{})
	on := NewRateLimiter(RateLimitConfig{MinFillRate: 1e15, MinCapacity: 1e9})
	on.Update(true)
	fast := NewRateLimiter(RateLimitConfig{FailFast: true})
	fast.Update(true)
	for name, f := range map[string]func(){
		"off":         func() { _ = off.Wait(ctx); off.Update(false) },
		"on":          func() { _ = on.Wait(ctx); on.Update(false) },
		"fast":        func() { _ = fast.Wait(ctx) },
		"rates":       func() { on.Rates() },
		"on, throttl": func() { on.Update(true) },
	} {
		if allocs := testing.AllocsPerRun(1000, f); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}
