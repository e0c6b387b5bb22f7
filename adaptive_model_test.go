package awsretry

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// A model is the limiter told plainly, in float seconds: what the AWS SDKs compute, without a line.
type model struct {
	lastBucket, count, measured     float64
	lastThrottle, lastMax           float64
	enabled                         bool
	tokens, fillRate, capacity, at  float64
	beta, scale, smooth, floor, cap float64
	interval                        float64
}

func newModel(t float64) *model {
	return &model{
		lastBucket: math.Floor(t), lastThrottle: t, at: t,
		beta: 0.7, scale: 0.4, smooth: 0.8, floor: 0.5, cap: 1, interval: 0.5,
	}
}

func (m *model) refill(t float64) {
	m.tokens = math.Min(m.capacity, m.tokens+(t-m.at)*m.fillRate)
	m.at = t
}

func (m *model) update(t float64, throttled bool) {
	m.count++
	if bucket := math.Floor(t/m.interval) * m.interval; bucket > m.lastBucket {
		rate := m.count / (bucket - m.lastBucket)
		m.measured = rate*m.smooth + m.measured*(1-m.smooth)
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
		calculated = m.lastMax * m.beta
	} else {
		k := math.Cbrt(m.lastMax * (1 - m.beta) / m.scale)
		calculated = m.scale*math.Pow(t-m.lastThrottle-k, 3) + m.lastMax
	}
	calculated = math.Min(calculated, 2*m.measured)
	m.refill(t)
	m.fillRate = math.Max(calculated, m.floor)
	m.capacity = math.Max(calculated, m.cap)
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
			granted, refused := 0, 0
			for step := range steps {
				// Dense and sparse traffic by turns, and now and then a long silence.
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
					t.Fatalf("step %d: %v, %v, %v; want %v, %v, %v", step, measured, send, limited, m.measured, m.fillRate, m.enabled)
				}
				l.bucket.mu.Lock()
				tokens, capacity := l.bucket.level(l.bucket.now()), l.bucket.capacity
				l.bucket.mu.Unlock()
				m.refill(now)
				if !near(tokens, m.tokens, 1e-5) || !near(capacity, m.capacity, 1e-6) {
					t.Fatalf("step %d: %v of %v tokens, want %v of %v", step, tokens, capacity, m.tokens, m.capacity)
				}
			}
			if granted < steps/50 || refused < steps/50 {
				t.Errorf("seed %d: %d granted and %d refused: too one-sided to say much", seed, granted, refused)
			}
		})
	}
}
