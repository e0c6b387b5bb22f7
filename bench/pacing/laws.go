package main

import (
	"math/rand/v2"
	"time"

	"example.com/awsretry/internal/pacing"
)

// The defaults of awsretry.RateLimitConfig.
const (
	cubicBeta       = 0.7
	cubicScale      = 0.4
	scaledBeta      = 0.9
	smoothing       = 0.8
	measureInterval = 500 * time.Millisecond
)

var limits = pacing.Limits{MinRate: 0.5, MinCapacity: 1}

func newMeter(start time.Time) pacing.Meter {
	return pacing.NewMeter(start, measureInterval, smoothing)
}

// cubic is the law of CubicPacing.
func cubic(start time.Time, _ *rand.Rand) pacing.Law {
	return pacing.NewCubic(limits, newMeter(start), cubicBeta, cubicScale)
}

// A steady law knows the limit, and sends at a part of its client's share of it
// whatever is throttled. It shows what a rate alone can reach.
type steady struct {
	limit  limit
	part   float64 // of the limit, divided by the number of clients
	rate   float64
	random *rand.Rand
}

// steadyAt returns the law for clients that send at a part of the limit in all.
func (s scenario) steadyAt(part float64) newLaw {
	return func(_ time.Time, random *rand.Rand) pacing.Law {
		return &steady{limit: s.limit, part: part / float64(len(s.clients)), random: random}
	}
}

// Update implements [pacing.Law]. The rate varies by a tenth, so that clients do
// not keep step.
func (s *steady) Update(now, _ time.Duration, _ bool) {
	s.rate = s.part * s.limit(now) * (0.9 + 0.2*s.random.Float64())
}

// Pace implements [pacing.Law].
func (s *steady) Pace() (rate, capacity float64) { return s.rate, limits.MinCapacity }

// Measured implements [pacing.Law]. A steady law measures nothing.
func (s *steady) Measured() float64 { return 0 }

// A setting is what can be varied of ScaledPacing.
type setting struct {
	Beta float64 // fraction of the rate that is left after a cut
	pacing.Tuning
}

func defaultSetting() setting { return setting{scaledBeta, pacing.DefaultTuning()} }

// newLaw is the law of ScaledPacing with this setting.
func (s setting) newLaw(start time.Time, _ *rand.Rand) pacing.Law {
	law := pacing.NewScaled(limits, newMeter(start), s.Beta)
	law.Tuning = s.Tuning
	return law
}
