package pacer

import (
	"cmp"
	"math"
	"time"

	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/tokens"
)

// The defaults for the adaptive strategy's rate limiter (AWS SDK for Kotlin,
// "Retries").
const (
	defaultBeta            = 0.7
	defaultScaleConstant   = 0.4
	defaultSmoothing       = 0.8
	defaultMinFillRate     = 0.5
	defaultMinCapacity     = 1.0
	defaultMeasureInterval = 500 * time.Millisecond
)

// defaultScaledBeta is the default Beta of ScaledPacing.
const defaultScaledBeta = 0.9

// A Config configures a Pacer. Its fields are those of awsretry.RateLimitConfig, with
// the same defaults.
type Config struct {
	Scaled                         bool // the law is pacing.Scaled, which has no ScaleConstant
	Beta, ScaleConstant, Smoothing float64
	MinFillRate, MinCapacity       float64
	MeasureInterval                time.Duration
	Limits                         bool          // responses announce limits
	Reserve                        float64       // the fraction of each limit that is left to other clients
	Cost                           Cost          // nil means that costs are learned
	FailFast                       bool          // no attempt waits
	MaxWait                        time.Duration // the longest wait; 0 means that only the deadline limits it
}

// WithDefaults returns c with every number set, except MaxWait and Reserve.
func (c Config) WithDefaults() Config {
	c.Beta = cmp.Or(c.Beta, c.defaultBeta())
	c.ScaleConstant = cmp.Or(c.ScaleConstant, defaultScaleConstant)
	c.Smoothing = cmp.Or(c.Smoothing, defaultSmoothing)
	c.MinFillRate = cmp.Or(c.MinFillRate, defaultMinFillRate)
	c.MinCapacity = cmp.Or(c.MinCapacity, defaultMinCapacity)
	c.MeasureInterval = cmp.Or(c.MeasureInterval, defaultMeasureInterval)
	return c
}

func (c Config) defaultBeta() float64 {
	if c.Scaled {
		return defaultScaledBeta
	}
	return defaultBeta
}

// Validate returns an error that names the first invalid field, as a field of
// awsretry.Transport.
func (c Config) Validate() error {
	fraction := func(x float64) bool { return x >= 0 && x <= 1 } // 0 is the default
	amount := func(x, least float64) bool { return x == 0 || x >= least && !math.IsInf(x, 1) }
	beta := c.defaultBeta()
	return cmp.Or(
		invalid.Check(fraction(c.Beta), "RateLimit.Beta", c.Beta, "in (0, 1], or 0 for %v", beta),
		invalid.Check(!c.Scaled || c.Beta != 1, "RateLimit.Beta", c.Beta, "in (0, 1) with ScaledPacing, or 0 for %v", beta),
		invalid.Check(!c.Scaled || c.ScaleConstant == 0,
			"RateLimit.ScaleConstant", c.ScaleConstant, "0 with ScaledPacing, which does not use it"),
		invalid.Check(amount(c.ScaleConstant, 0), "RateLimit.ScaleConstant", c.ScaleConstant,
			"a finite number above 0, or 0 for %v", defaultScaleConstant),
		invalid.Check(fraction(c.Smoothing), "RateLimit.Smoothing", c.Smoothing, "in (0, 1], or 0 for %v", defaultSmoothing),
		invalid.Check(amount(c.MinFillRate, tokens.MinRate), "RateLimit.MinFillRate", c.MinFillRate,
			"a finite number, %.2g (one in 146 years) or more, or 0 for %v", tokens.MinRate, defaultMinFillRate),
		invalid.Check(amount(c.MinCapacity, 1), "RateLimit.MinCapacity", c.MinCapacity,
			"a finite number of tokens, 1 or more, or 0 for %v", defaultMinCapacity),
		invalid.Check(c.MeasureInterval >= 0, "RateLimit.MeasureInterval", c.MeasureInterval,
			"above 0, or 0 for %v", defaultMeasureInterval),
		invalid.Check(c.Reserve >= 0 && c.Reserve < 1, "RateLimit.Reserve", c.Reserve, "in [0, 1)"),
		invalid.Check(c.MaxWait >= 0, "RateLimit.MaxWait", c.MaxWait, "above 0, or 0 for as long as the context lasts"),
	)
}

func (c Config) newLaw(start time.Time) pacing.Law {
	meter := pacing.NewMeter(start, c.MeasureInterval, c.Smoothing)
	if !c.Scaled {
		return pacing.NewCubic(c.limits(), meter, c.Beta, c.ScaleConstant)
	}
	if c.FailFast { // what comes together does not wait, so that it needs saved tokens
		c.MinCapacity = max(c.MinCapacity, 2)
	}
	law := pacing.NewScaled(c.limits(), meter, c.Beta)
	if c.FailFast {
		law.BurstSeconds = 1
	}
	return law
}

func (c Config) limits() pacing.Limits {
	return pacing.Limits{MinRate: c.MinFillRate, MinCapacity: c.MinCapacity}
}
