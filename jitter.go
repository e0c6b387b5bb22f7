package awsretry

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The pauses of the AWS SDKs and Tools Reference Guide, "Retry behavior":
// min(b*2^i seconds, 20 seconds).
const (
	defaultInitial = time.Second
	defaultFactor  = 2
	defaultMax     = 20 * time.Second
)

// A Backoff says how long to pause before a retry.
//
// Delay is called with the number of the retry, from 0, the class of the answer that is retried, and the pause
// before the attempt that gave it (0 before the first retry). A negative result counts as 0.
// Delay is called by many requests at once.
type Backoff interface {
	Delay(n int, class Class, last time.Duration) time.Duration
}

// A BackoffFunc is a function used as a [Backoff].
type BackoffFunc func(n int, class Class, last time.Duration) time.Duration

// Delay calls f.
func (f BackoffFunc) Delay(n int, class Class, last time.Duration) time.Duration {
	return f(n, class, last)
}

// Exponential is the exponential backoff of the AWS SDKs: the pause before retry n, from 0, is
// Jitter(min(Initial * Factor^n, Max)). The zero value is the standard mode's: 1 s, doubled each time, at most
// 20 s, with full jitter.
//
// As Transport.Backoff, itself or a pointer to it, an Initial or ThrottlingInitial of 0 is the revision's: in [Revision2026] 50 ms,
// for Amazon DynamoDB 25 ms, and 1 s after throttling. [Classic], and Legacy mode, which has no revisions, have those below.
//
// The cap comes before the jitter, as in the AWS SDK for Kotlin's "Retries", so that capped pauses are spread too.
//
// Transport.Validate refuses negative fields, an Initial above Max, and a Factor below 1.
type Exponential struct {
	Initial           time.Duration // before the first retry; 0: 1 s, or Max where that is shorter
	ThrottlingInitial time.Duration // in place of Initial after throttling, capped by Max; 0: Initial
	Max               time.Duration // the longest pause; 0: 20 s
	Factor            float64       // by which each pause outgrows the one before it; 0: 2
	Jitter            Jitter        // nil: FullJitter
}

// Delay implements [Backoff].
func (e Exponential) Delay(n int, class Class, _ time.Duration) time.Duration {
	e = e.withDefaults()
	initial := e.Initial
	if class == Throttled {
		initial = e.ThrottlingInitial
	}
	pause := e.Max
	if d := float64(initial) * math.Pow(e.Factor, float64(max(n, 0))); d < float64(e.Max) {
		pause = clamp(time.Duration(d), e.Max)
	}
	return clamp(e.Jitter(pause), pause)
}

func (e Exponential) withDefaults() Exponential {
	e.Max = orDefault(e.Max, defaultMax)
	e.Initial = orDefault(e.Initial, min(defaultInitial, e.Max))
	e.ThrottlingInitial = orDefault(e.ThrottlingInitial, e.Initial)
	e.Factor = orDefault(e.Factor, defaultFactor)
	if e.Jitter == nil {
		e.Jitter = FullJitter
	}
	return e
}

// completed is e with another's pauses in place of those that e leaves open.
func (e Exponential) completed(by Exponential) Exponential {
	e.Initial = orDefault(e.Initial, by.Initial)
	e.ThrottlingInitial = orDefault(e.ThrottlingInitial, by.ThrottlingInitial)
	return e
}

func (e Exponential) validate() error {
	d := e.withDefaults()
	switch err := validPauses(d.Initial, d.Max); {
	case err != nil:
		return err
	case d.ThrottlingInitial < 0:
		return fmt.Errorf("Backoff.ThrottlingInitial is %v; it must be above 0, or 0 for the default", d.ThrottlingInitial)
	case !(d.Factor >= 1) || math.IsInf(d.Factor, 0):
		return fmt.Errorf("Backoff.Factor is %v; it must be a number from 1 up, or 0 for %v", e.Factor, defaultFactor)
	}
	return nil
}

func validPauses(initial, limit time.Duration) error {
	switch {
	case limit < 0:
		return fmt.Errorf("Backoff.Max is %v; it must be above 0, or 0 for %v", limit, defaultMax)
	case initial < 0 || initial > limit:
		return fmt.Errorf("Backoff.Initial is %v; it must be above 0 and at most Max, %v", initial, limit)
	}
	return nil
}

// Decorrelated is the decorrelated jitter of the AWS Architecture Blog's "Exponential Backoff And Jitter":
// min(Max, rand(Initial, 3*previous)), where the pause before the first retry takes Initial for the previous one.
type Decorrelated struct {
	Initial time.Duration // the shortest pause; 0: 1 s, or Max where that is shorter
	Max     time.Duration // the longest pause; 0: 20 s
}

// Delay implements [Backoff].
func (d Decorrelated) Delay(n int, _ Class, last time.Duration) time.Duration {
	d = d.withDefaults()
	lo := max(d.Initial, 0)
	last = max(last, lo)
	hi := time.Duration(math.MaxInt64)
	if last <= hi/3 {
		hi = 3 * last
	}
	return clamp(lo+between0And(hi-lo), d.Max)
}

func (d Decorrelated) withDefaults() Decorrelated {
	d.Max = orDefault(d.Max, defaultMax)
	d.Initial = orDefault(d.Initial, min(defaultInitial, d.Max))
	return d
}

func (d Decorrelated) validate() error {
	d = d.withDefaults()
	return validPauses(d.Initial, d.Max)
}

// A Jitter takes a pause and returns it, or a random part of it, so that callers which failed together do not
// come back together. A result outside 0…d counts as the nearer of the two where a Backoff of this package uses it.
type Jitter func(d time.Duration) time.Duration

// FullJitter is uniform in [0, d].
func FullJitter(d time.Duration) time.Duration { return between0And(d) }

// EqualJitter is half of d and a uniform part of the other half.
func EqualJitter(d time.Duration) time.Duration {
	d = max(d, 0)
	return d/2 + between0And(d-d/2)
}

// NoJitter is d itself.
func NoJitter(d time.Duration) time.Duration { return max(d, 0) }

// PartialJitter leaves 1-fraction of the pause and makes the rest random, as the jitter of the AWS SDK for Kotlin's
// "Retries" does: 1 is FullJitter, 0.5 is between half and all of the pause, 0 is NoJitter. A fraction below 0, or
// none at all (NaN), counts as 0, one above 1 as 1.
func PartialJitter(fraction float64) Jitter {
	switch {
	case !(fraction > 0):
		return NoJitter
	case fraction >= 1:
		return FullJitter
	}
	return func(d time.Duration) time.Duration {
		d = max(d, 0)
		random := clamp(time.Duration(fraction*float64(d)), d)
		return d - between0And(random)
	}
}

// legacyBackoff is the pause of the AWS SDK for Go v1's DefaultRetryer: (rand[0,d) + d) * 2^n.
type legacyBackoff struct{}

const (
	legacyInitial           = 30 * time.Millisecond
	legacyThrottlingInitial = 500 * time.Millisecond
	legacyMax               = 300 * time.Second
)

func (legacyBackoff) Delay(n int, class Class, _ time.Duration) time.Duration {
	d := legacyInitial
	if class == Throttled {
		d = legacyThrottlingInitial
	}
	const maxDoublings = 14 // 30 ms * 2^14 is past the cap
	return clamp((rand.N(d)+d)<<min(max(n, 0), maxDoublings), legacyMax)
}

// between0And is uniform in [0, d], and 0 where d is negative.
func between0And(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(d) + 1))
}

func clamp(d, limit time.Duration) time.Duration { return max(min(d, limit), 0) }

// addSaturating is a+b for two pauses, at most the longest Duration there is.
func addSaturating(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func orDefault[T time.Duration | float64 | int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
