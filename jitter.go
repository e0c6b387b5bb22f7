package awsretry

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/jitter"
	"example.com/awsretry/internal/retrier"
)

// The delays of the AWS SDKs and Tools Reference Guide, "Retry behavior":
// min(b*2^i seconds, 20 seconds).
const (
	defaultInitial = time.Second
	defaultFactor  = 2
	defaultMax     = 20 * time.Second
)

// A Backoff computes the delay before a retry.
//
// Delay gets the number n of the retry, from 0, the class of the outcome that
// is retried, and the last delay, which is 0 before the first retry. A negative
// result counts as 0. Delay must be safe for concurrent use.
type Backoff interface {
	Delay(n int, class Class, last time.Duration) time.Duration
}

// A BackoffFunc is a function used as a [Backoff].
type BackoffFunc func(n int, class Class, last time.Duration) time.Duration

// Delay calls f.
func (f BackoffFunc) Delay(n int, class Class, last time.Duration) time.Duration {
	return f(n, class, last)
}

// Exponential is the exponential backoff of the AWS SDKs. The delay before
// retry n, from 0, is Jitter(min(Initial * Factor^n, Max)): Max applies before the
// jitter, as in the AWS SDK for Kotlin, "Retries". The zero value is that of standard
// mode: 1 s, doubled each time, at most 20 s, with full jitter. In Transport.Backoff,
// as a value or a pointer, an Initial or ThrottlingInitial of 0 means the revision's:
// in [Revision2026] 50 ms, or 25 ms for Amazon DynamoDB, and 1 s after throttling.
// Transport.Validate rejects negative fields, an Initial above Max, and a Factor
// below 1.
type Exponential struct {
	Initial           time.Duration // before the first retry; 0 means 1 s, or Max if that is shorter
	ThrottlingInitial time.Duration // in place of Initial after throttling, at most Max; 0 means Initial
	Max               time.Duration // the longest delay; 0 means 20 s
	Factor            float64       // the ratio of each delay to the one before; 0 means 2
	Jitter            Jitter        // nil means FullJitter
}

// Delay implements [Backoff].
func (e Exponential) Delay(n int, class Class, _ time.Duration) time.Duration {
	e = e.withDefaults()
	initial := e.Initial
	if class == Throttled {
		initial = e.ThrottlingInitial
	}
	delay := e.Max
	if d := float64(initial) * math.Pow(e.Factor, float64(max(n, 0))); d < float64(e.Max) {
		delay = clamp(time.Duration(d), e.Max)
	}
	return clamp(e.Jitter(delay), delay)
}

func (e Exponential) withDefaults() Exponential {
	e.Max = cmp.Or(e.Max, defaultMax)
	e.Initial = cmp.Or(e.Initial, min(defaultInitial, e.Max))
	e.ThrottlingInitial = cmp.Or(e.ThrottlingInitial, e.Initial)
	e.Factor = cmp.Or(e.Factor, defaultFactor)
	if e.Jitter == nil {
		e.Jitter = FullJitter
	}
	return e
}

// completed returns e with the initial delays of by in place of those that are
// 0.
func (e Exponential) completed(by Exponential) Exponential {
	e.Initial = cmp.Or(e.Initial, by.Initial)
	e.ThrottlingInitial = cmp.Or(e.ThrottlingInitial, by.ThrottlingInitial)
	return e
}

func (e Exponential) validate() error {
	d := e.withDefaults()
	return cmp.Or(
		validDelays(d.Initial, d.Max),
		invalid.Check(d.ThrottlingInitial >= 0, "Backoff.ThrottlingInitial", d.ThrottlingInitial, "above 0, or 0 for the default"),
		invalid.Check(d.Factor >= 1 && !math.IsInf(d.Factor, 0), "Backoff.Factor", e.Factor,
			"a number from 1 up, or 0 for %v", defaultFactor),
	)
}

// validDelays returns an error if a backoff's first delay or its limit is not
// valid.
func validDelays(initial, limit time.Duration) error {
	return cmp.Or(
		invalid.Check(limit >= 0, "Backoff.Max", limit, "above 0, or 0 for %v", defaultMax),
		invalid.Check(initial >= 0 && initial <= limit, "Backoff.Initial", initial, "above 0 and at most Max, %v", limit),
	)
}

// Decorrelated is the decorrelated jitter of the AWS Architecture Blog,
// "Exponential Backoff And Jitter". The delay is min(Max, rand(Initial,
// 3*last)), where last is Initial before the first retry.
type Decorrelated struct {
	Initial time.Duration // the shortest delay; 0 means 1 s, or Max if that is shorter
	Max     time.Duration // the longest delay; 0 means 20 s
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
	return clamp(lo+jitter.UpTo(hi-lo), d.Max)
}

func (d Decorrelated) withDefaults() Decorrelated {
	d.Max = cmp.Or(d.Max, defaultMax)
	d.Initial = cmp.Or(d.Initial, min(defaultInitial, d.Max))
	return d
}

func (d Decorrelated) validate() error {
	d = d.withDefaults()
	return validDelays(d.Initial, d.Max)
}

// A Jitter returns the delay d or a random part of it, so that callers that
// failed together do not retry together. The backoffs of this package limit the
// result to 0 at least and d at most.
type Jitter func(d time.Duration) time.Duration

// FullJitter returns a uniformly random delay in [0, d].
func FullJitter(d time.Duration) time.Duration { return jitter.UpTo(d) }

// EqualJitter returns a uniformly random delay in [d/2, d].
func EqualJitter(d time.Duration) time.Duration {
	d = max(d, 0)
	return d/2 + jitter.UpTo(d-d/2)
}

// NoJitter returns d.
func NoJitter(d time.Duration) time.Duration { return max(d, 0) }

// PartialJitter returns a Jitter that makes that fraction of the delay random,
// as in the AWS SDK for Kotlin, "Retries": 1 is FullJitter, 0.5 is EqualJitter,
// 0 is NoJitter. A fraction below 0, or NaN, counts as 0, and one above 1 as 1.
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
		return d - jitter.UpTo(random)
	}
}

// legacyBackoff is the backoff of Legacy mode.
type legacyBackoff struct{}

func (legacyBackoff) Delay(n int, class Class, _ time.Duration) time.Duration {
	return jitter.Legacy(n, class == Throttled, jitter.UpTo)
}

func clamp(d, limit time.Duration) time.Duration { return max(min(d, limit), 0) }

// completed returns b with the delays of revision for the fields that an
// Exponential leaves zero, and revision if b is nil.
func completed(b Backoff, revision Exponential) Backoff {
	switch b := b.(type) {
	case nil:
		return revision
	case Exponential:
		return b.completed(revision)
	case *Exponential:
		return b.completed(revision)
	}
	return b
}

// validBackoff returns an error if b, which may be nil, is not valid.
func validBackoff(b Backoff) error {
	if retrier.IsNil(b) {
		return fmt.Errorf("Backoff is a nil %T; it must be a usable Backoff, or nil for the mode's", b)
	}
	if b, ok := b.(interface{ validate() error }); ok {
		return b.validate()
	}
	return nil
}
