package main

import (
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
func cubic(start time.Time) pacing.Law {
	return pacing.NewCubic(limits, newMeter(start), cubicBeta, cubicScale)
}

// A setting is what can be varied of ScaledPacing.
type setting struct {
	Beta float64 // fraction of the rate that is left after a cut
	pacing.Tuning
}

func defaultSetting() setting { return setting{scaledBeta, pacing.DefaultTuning()} }

// newLaw is the law of ScaledPacing with this setting.
func (s setting) newLaw(start time.Time) pacing.Law {
	law := pacing.NewScaled(limits, newMeter(start), s.Beta)
	law.Tuning = s.Tuning
	return law
}
