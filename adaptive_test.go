package awsretry

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/tokens"
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
		if send <= 0.5 {
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
	for _, test := range []struct {
		config RateLimitConfig
		want   string // the error; "" for none
	}{
		{RateLimitConfig{}, ""},
		{RateLimitConfig{Beta: 1, Smoothing: 1, ScaleConstant: 1e-9, MinFillRate: tokens.MinRate,
			MinCapacity: 1, MeasureInterval: 1, MaxWait: 1}, ""},
		{RateLimitConfig{Beta: 1.01}, "RateLimit.Beta is 1.01" + aFraction + "0.7"},
		{RateLimitConfig{Beta: -0.1, Pacing: ScaledPacing}, "RateLimit.Beta is -0.1" + aFraction + "0.9"},
		{RateLimitConfig{Beta: nan}, "RateLimit.Beta is NaN" + aFraction + "0.7"},
		{RateLimitConfig{Beta: 1, Pacing: ScaledPacing},
			"RateLimit.Beta is 1; it must be in (0, 1) with ScaledPacing, or 0 for 0.9"},
		{RateLimitConfig{Pacing: 2}, "RateLimit.Pacing is 2; it must be CubicPacing (0) or ScaledPacing (1)"},
		{RateLimitConfig{Pacing: ScaledPacing, ScaleConstant: 1},
			"RateLimit.ScaleConstant is 1; it must be 0 with ScaledPacing, which does not use it"},
		{RateLimitConfig{Smoothing: 1.01}, "RateLimit.Smoothing is 1.01" + aFraction + "0.8"},
		{RateLimitConfig{ScaleConstant: -1}, "RateLimit.ScaleConstant is -1" + aConstant},
		{RateLimitConfig{ScaleConstant: inf}, "RateLimit.ScaleConstant is +Inf" + aConstant},
		{RateLimitConfig{MinFillRate: nan}, "RateLimit.MinFillRate is NaN" + aRate},
		{RateLimitConfig{MinFillRate: 1e-300}, "RateLimit.MinFillRate is 1e-300" + aRate},
		{RateLimitConfig{MinCapacity: 0.99}, "RateLimit.MinCapacity is 0.99" + aCapacity},
		{RateLimitConfig{MinCapacity: -1}, "RateLimit.MinCapacity is -1" + aCapacity},
		{RateLimitConfig{MeasureInterval: -1}, "RateLimit.MeasureInterval is -1ns; it must be above 0, or 0 for 500ms"},
		{RateLimitConfig{MaxWait: -1},
			"RateLimit.MaxWait is -1ns; it must be above 0, or 0 for as long as the context lasts"},
	} {
		t.Run(fmt.Sprintf("%+v", test.config), func(t *testing.T) {
			wantError(t, test.config.validate(), test.want)
			l := NewRateLimiter(test.config)
			for range 2 {
				l.Update(true)
				if test.want != "" {
					wantError(t, l.Wait(t.Context()), "awsretry: "+test.want)
				}
			}
			if _, _, limited := l.Rates(); limited != (test.want == "") {
				t.Errorf("limited is %v", limited)
			}
		})
	}
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
		for range 6 {
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
	zero.Update(true) // does nothing
	zero.UpdateSent(time.Now(), true)
	if measured, send, limited := zero.Rates(); measured != 0 || send != 0 || limited {
		t.Errorf("the zero RateLimiter has %v, %v, %v", measured, send, limited)
	}
}

// A limiter that is used without a Transport has nothing in flight once it knows
// all outcomes, in whatever order and with whatever times it learns them.
func TestAnnounceAlone(t *testing.T) {
	limits := []Limit{{Quota: 100, Remaining: 50, Reset: time.Minute}}
	for name, use := range map[string]func(l *RateLimiter){
		"in order": func(l *RateLimiter) {
			sent := time.Now()
			time.Sleep(time.Millisecond)
			l.Announce(sent, limits)
			l.UpdateSent(sent, false)
			wantError(t, l.Wait(t.Context()), "")
			l.Announce(time.Now(), limits)
			l.Update(false)
		},
		"zero times": func(l *RateLimiter) {
			l.Announce(time.Time{}, limits)
			l.UpdateSent(time.Time{}, false)
		},
		"times far ahead": func(l *RateLimiter) {
			l.Announce(time.Now().AddDate(500, 0, 0), limits)
			l.UpdateSent(time.Now().AddDate(500, 0, 0), false)
		},
		"outcome before the limits": func(l *RateLimiter) {
			l.UpdateSent(time.Now(), false)
			l.Announce(time.Now(), limits)
		},
	} {
		for _, known := range []bool{false, true} { // that there may be limits
			synctest.Test(t, func(t *testing.T) {
				c := RateLimitConfig{}
				if known {
					c.Limits = ReadLimits
				}
				l := NewRateLimiter(c)
				time.Sleep(time.Second)
				wantError(t, l.Wait(t.Context()), "")
				use(l)
				got := l.pacer.Limits()
				if len(got) != 1 || got[0].Remaining != 50 || (got[0].Reset-time.Minute).Abs() > time.Second {
					t.Errorf("%s, known from the start %v: %+v", name, known, got)
				}
			})
		}
	}
	for _, l := range []*RateLimiter{{}, NewRateLimiter(RateLimitConfig{Reserve: 1})} {
		l.Announce(time.Now(), limits) // does nothing
		if l.pacer != nil {
			t.Errorf("%+v limits", l)
		}
	}
}

func TestReadLimits(t *testing.T) {
	resp := &http.Response{Header: http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Limit": {"10"}}}
	want := []Limit{{Quota: 10, Remaining: 3, Reset: -1, Refills: true}}
	if got := ReadLimits(resp); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := testing.AllocsPerRun(100, func() { ReadLimits(resp) }); got > 1 {
		t.Errorf("%v allocations, want that of the result", got)
	}
	for _, resp := range []*http.Response{nil, {Header: http.Header{"Age": {"1"}}}} {
		if ReadLimits(resp) != nil {
			t.Error("limits where there are none")
		}
	}
}

// With half of the quota in Reserve, nothing is sent when half of it is left.
func TestReserve(t *testing.T) {
	for _, tt := range []struct{ reserve, left float64 }{{0, 0}, {.5, 50}} {
		for _, more := range []float64{0, 20} {
			synctest.Test(t, func(t *testing.T) {
				l := NewRateLimiter(RateLimitConfig{Reserve: tt.reserve, Limits: ReadLimits})
				wantError(t, l.Wait(t.Context()), "")
				l.Announce(time.Now(), []Limit{{Quota: 100, Remaining: tt.left + more, Reset: 10 * time.Second}})
				l.Update(false)
				start := time.Now()
				wantError(t, l.Wait(t.Context()), "")
				if took := time.Since(start); (took >= 10*time.Second) != (more == 0) {
					t.Errorf("Reserve %v, %v are left: waited %v", tt.reserve, tt.left+more, took)
				}
			})
		}
	}
}

// A model is what the AWS SDKs compute, in plain float64 seconds and without a
// line.
type model struct {
	lastBucket, count, measured    float64
	lastThrottle, lastMax          float64
	enabled                        bool
	tokens, fillRate, capacity, at float64
}

func newModel(t float64) *model { return &model{lastBucket: math.Floor(t), lastThrottle: t, at: t} }

func (m *model) refill(t float64) {
	m.tokens = math.Min(m.capacity, m.tokens+(t-m.at)*m.fillRate)
	m.at = t
}

func (m *model) update(t float64, throttled bool) {
	const beta, scale, smooth, interval, minRate, minCapacity = 0.7, 0.4, 0.8, 0.5, 0.5, 1
	m.count++
	if bucket := math.Floor(t/interval) * interval; bucket > m.lastBucket {
		rate := m.count / (bucket - m.lastBucket)
		m.measured = rate*smooth + m.measured*(1-smooth)
		m.count, m.lastBucket = 0, bucket
	}
	var calculated float64
	if throttled {
		m.lastMax = m.measured
		if m.enabled {
			m.lastMax = math.Min(m.measured, m.fillRate)
		}
		m.lastThrottle = t
		m.enabled = true
		calculated = m.lastMax * beta
	} else {
		k := math.Cbrt(m.lastMax * (1 - beta) / scale)
		calculated = scale*math.Pow(t-m.lastThrottle-k, 3) + m.lastMax
	}
	calculated = math.Min(calculated, 2*m.measured)
	m.refill(t)
	m.fillRate = math.Max(calculated, minRate)
	m.capacity = math.Max(calculated, minCapacity)
	m.tokens = math.Min(m.tokens, m.capacity)
}

func TestLimiterAgainstModel(t *testing.T) {
	const steps = 10_000
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			epoch := time.Now()
			time.Sleep(time.Duration(random.IntN(2_000_000)) * time.Microsecond)
			l := NewRateLimiter(RateLimitConfig{FailFast: true})
			m := newModel(time.Since(epoch).Seconds())
			granted, refused, full := 0, 0, 0
			for step := range steps {
				// Dense and sparse traffic by turns, and rarely a long silence.
				switch scale := step / 500 % 4; {
				case random.IntN(200) == 0:
					time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
				case random.IntN(4) > 0:
					time.Sleep(time.Duration(random.IntN(1_000<<(3*scale))) * time.Microsecond)
				}
				now := time.Since(epoch).Seconds()
				if random.IntN(2) == 0 {
					throttled := random.IntN(1+20*(step/1000%3)) == 0
					l.Update(throttled)
					m.update(now, throttled)
				} else {
					err := l.Wait(t.Context())
					m.refill(now)
					want := error(nil)
					if m.enabled && m.tokens < 1 {
						want = ErrRateLimited
					}
					if err != want && math.Abs(m.tokens-1) > 1e-6 { // at one token, either way is rounding
						t.Fatalf("step %d: Wait returned %v, want %v with %v tokens", step, err, want, m.tokens)
					}
					if err == nil && m.enabled {
						m.tokens = math.Max(0, m.tokens-1)
						granted++
					} else if err != nil {
						refused++
					}
				}
				measured, send, limited := l.Rates()
				if !near(measured, m.measured, 1e-6) || !near(send, m.fillRate, 1e-6) || limited != m.enabled {
					t.Fatalf("step %d: %v, %v, %v; want %v, %v, %v",
						step, measured, send, limited, m.measured, m.fillRate, m.enabled)
				}
				m.refill(now)
				if m.tokens == m.capacity {
					full++
				}
				if tokens, _ := l.pacer.Unused(); !near(tokens, math.Min(m.tokens, 1), 1e-5) {
					t.Fatalf("step %d: %v tokens, want %v of %v", step, tokens, m.tokens, m.capacity)
				}
			}
			if min(granted, refused, full) < steps/50 {
				t.Errorf("seed %d: %d granted, %d refused, %d times full: too few of one to say much",
					seed, granted, refused, full)
			}
		})
	}
}
