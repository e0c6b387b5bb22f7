package awsretry

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

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
				if tokens := l.bucket.Tokens(); !near(tokens, m.tokens, 1e-5) {
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
