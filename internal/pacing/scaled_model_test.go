package pacing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A model is ScaledPacing in plain float64 seconds, written down as one
// function of the outcomes.
type model struct {
	last, count, measured, counted, raw float64 // of the meter
	phase                               phase
	rate, limit, at, rise               float64
	updated, trip                       float64
	n, x, share, score                  float64
	alike, denied                       int
	background                          float64
	peak, peakAt                        float64
	before, target, testedAt            float64
}

func (m *model) curve(t float64) float64 {
	t -= m.at
	if t < m.rise {
		return m.limit * (1 - 0.1*math.Pow(1-t/m.rise, 3))
	}
	search := 3.0
	if m.alike >= 2 {
		search = 1
	}
	return m.limit * (1 + 0.08*math.Pow((t-m.rise)/search, 3))
}

func (m *model) sure() bool { return m.counted >= 10 && math.Abs(m.raw/m.measured-1) <= 0.15 }

func (m *model) cut(now, limit float64) {
	limit = math.Max(limit, 0.5)
	if m.phase == following && limit > 0.5 && math.Abs(limit/m.limit-1) < 0.03 {
		m.alike++
	} else {
		m.alike = 0
	}
	m.rise = math.Max(6, math.Min(math.Min(200/limit/limit, 6*math.Pow(m.share/0.025, 3)), 20))
	if m.alike >= 2 {
		m.rise = math.Max(m.rise, math.Min(600/limit/limit, 60))
	}
	m.rise += 12 * m.trip
	m.phase, m.limit, m.at, m.rate = following, limit, now, math.Max(0.9*limit, 0.5)
	m.n, m.x = 0, 0
}

func (m *model) test(now, before float64) {
	m.phase, m.at, m.before, m.rate = probing, now, before, math.Max(before/2, 0.5)
	m.n, m.x, m.score = 0, 0, 0
}

func (m *model) update(now, sent float64, throttled bool) {
	hit := 0.0
	if throttled {
		hit = 1
	}
	m.count += 1 - hit
	if begin := math.Floor(now*2) / 2; begin > m.last {
		m.raw = m.count / (begin - m.last)
		m.measured = 0.8*m.raw + 0.2*m.measured
		m.counted, m.count, m.last = m.count, 0, begin
	}
	elapsed := now - m.updated
	m.updated = now
	if m.phase == unlimited {
		if throttled {
			m.phase, m.at = starting, now
			m.rate = math.Max(math.Max(0.9*m.measured, m.count/math.Max(now-m.last, 1)), 0.5)
		}
		return
	}
	if sent > 0 {
		if m.trip == 0 {
			m.trip = math.Min(now-sent, 10)
		}
		m.trip += (math.Min(now-sent, 10) - m.trip) / 8
	}
	if sent > m.at {
		m.n++
		m.x += hit
		if m.phase == following {
			m.share += (hit - m.share) / 200
		}
		if m.judged(now, sent, throttled) {
			return
		}
	}
	switch m.phase {
	case starting:
		if m.background > 0 && m.rate >= m.target {
			n, x := m.n, m.x
			m.cut(now, m.target)
			m.n, m.x = n, x
			return
		}
		period := math.Max(math.Max(0.5, 2*m.trip), 1.5/m.rate)
		most := math.Max(math.Max(m.rate, 20), 4*m.measured)
		m.rate = math.Min(m.rate*math.Pow(2, math.Min(elapsed/period, 1)), most)
	case following:
		rate := m.curve(now)
		if rate > 2*m.measured {
			rate = math.Max(2*m.measured, 0.9*m.limit)
		}
		m.rate = math.Max(rate, 0.5)
	}
}

func (m *model) judged(now, sent float64, throttled bool) bool {
	switch {
	case m.phase == probing && throttled:
		m.score++
	case m.phase == probing:
		m.score -= 0.045
	}
	switch {
	case m.phase == probing && m.x >= 8 && m.x/m.n > 0.17:
		m.background = 0
		m.cut(now, m.rate*math.Max(1-m.x/m.n, 0.5))
	case m.phase == probing && m.score <= -3:
		m.background = 0
		m.cut(now, m.before)
	case m.phase == probing && m.score >= 5 && m.n >= 150:
		m.background = m.x / m.n
		m.phase, m.at, m.testedAt, m.n, m.x = starting, now, now, 0, 0
	case m.phase == probing:
	case m.background > 0 && m.x > 1.5*m.background*m.n+5:
		m.target = 0.9 * m.rate
		m.test(now, m.target)
	case m.background > 0 && now-m.testedAt > 20:
		m.target = m.rate
		m.test(now, m.target)
	case m.background > 0:
		if m.n >= 200 {
			m.n, m.x = 0, 0
		}
		return false
	case m.phase == starting && !throttled:
		m.score = math.Max(m.score-0.15, 0)
		return false
	case m.phase == starting:
		m.score++
		unused := m.sure() && m.rate >= 20 && m.rate >= 0.97*4*m.measured
		if unused {
			m.rate = math.Max(1.25*m.measured, 0.5)
		}
		if !unused && m.score < 3.5 {
			return false
		}
		m.peak, m.peakAt = m.rate, now
		m.cut(now, m.rate)
	case throttled:
		if m.x == m.n {
			m.denied++
		} else {
			m.denied = 0
		}
		limit := math.Min(m.rate, m.curve(sent))
		if m.sure() {
			limit = math.Max(limit, math.Min(m.measured, m.limit))
		} else if m.denied >= 5 {
			limit *= 0.55
		}
		if limit > m.peak || now-m.peakAt > 30 {
			m.peak, m.peakAt = limit, now
		}
		if limit >= 25 && limit <= m.peak/4 && m.denied <= 1 {
			m.target = m.peak
			m.test(now, limit)
		} else {
			m.cut(now, limit)
		}
	default:
		return false
	}
	return true
}

// The law computes what its model does, over random outcomes of services of
// many kinds.
func TestScaledAgainstModel(t *testing.T) {
	const steps = 10_000
	tests := []struct {
		name          string
		limit         float64       // of the service
		background    float64       // share that it throttles at any rate
		trip          time.Duration // at most
		quietOneIn    int           // a long silence in so many steps
		phases, tests int           // changes that must be seen at least
	}{
		{name: "fast", limit: 300, trip: 20 * time.Millisecond, quietOneIn: 500, phases: 20},
		{name: "slow", limit: 2, trip: 5 * time.Second, quietOneIn: 100, phases: 10},
		{
			name:       "background",
			limit:      400,
			background: 0.07,
			trip:       20 * time.Millisecond,
			quietOneIn: 1 << 30,
			phases:     10,
			tests:      3,
		},
		{
			name:       "background at times",
			limit:      100,
			background: 0.04,
			trip:       50 * time.Millisecond,
			quietOneIn: 2000,
			phases:     20,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changes, probes := 0, 0
			for seed := range uint64(8) {
				random := rand.New(rand.NewPCG(seed, 0))
				s := newScaled(0.9)
				m := &model{}
				now := time.Duration(0)
				for step := range steps {
					rate, _ := s.Pace()
					if rate == 0 || random.IntN(10) == 0 {
						rate = 2 * tt.limit // before it limits, and others' requests
					}
					now += time.Duration((0.2 + random.ExpFloat64()) / rate * float64(time.Second))
					if random.IntN(tt.quietOneIn) == 0 {
						now += time.Duration(random.IntN(20_000)) * time.Millisecond
					}
					sent := max(now-time.Duration(random.Int64N(int64(tt.trip))), 0)
					throttled := random.Float64() < tt.background || rate > tt.limit && random.IntN(2) == 0
					was := s.phase
					s.Update(now, sent, throttled)
					m.update(now.Seconds(), sent.Seconds(), throttled)
					if s.phase != was {
						changes++
						if s.phase == probing {
							probes++
						}
					}
					got, _ := s.Pace()
					if !near(got, m.rate) || !near(s.background, m.background) || s.phase != m.phase {
						t.Fatalf("seed %d, step %d at %v: rate %v in phase %v with background %v, want %v, %v, %v",
							seed, step, now, got, s.phase, s.background, m.rate, m.phase, m.background)
					}
				}
			}
			if changes < tt.phases || probes < tt.tests {
				t.Errorf("%d changes of the phase, %d tests: the outcomes show too little", changes, probes)
			}
		})
	}
}

// newScaled returns the law with the limiter's defaults, on a clock that begins
// with a whole second.
func newScaled(beta float64) *Scaled {
	meter := NewMeter(time.Unix(1_000_000, 0), 500*time.Millisecond, 0.8)
	return NewScaled(Limits{MinRate: 0.5, MinCapacity: 1}, meter, beta)
}
