// Package jitter has the random parts of delays. A simulation that repeats
// itself gives its own source of them in a context.
package jitter

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// A Source returns a delay that is up to spread longer.
type Source func(delay, spread time.Duration) time.Duration

type key struct{}

// With returns a context for which Spread uses s.
func With(ctx context.Context, s Source) context.Context { return context.WithValue(ctx, key{}, s) }

// Spread returns the delay and a part of spread, which is that of the context's
// Source, or uniformly random.
func Spread(ctx context.Context, delay, spread time.Duration) time.Duration {
	if s, ok := ctx.Value(key{}).(Source); ok {
		return s(delay, spread)
	}
	if delay += UpTo(spread); delay < 0 { // the sum is too long
		return math.MaxInt64
	}
	return delay
}

// UpTo returns a uniformly random duration in [0, d], and 0 if d is negative.
func UpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(d) + 1))
}

const (
	legacyInitial           = 30 * time.Millisecond
	legacyThrottlingInitial = 500 * time.Millisecond
	legacyMax               = 300 * time.Second
)

// Legacy is the backoff of DefaultRetryer in the AWS SDK for Go v1:
// (rand[0,d) + d) * 2^n. upTo returns the random part, as UpTo does.
func Legacy(n int, throttled bool, upTo func(time.Duration) time.Duration) time.Duration {
	d := legacyInitial
	if throttled {
		d = legacyThrottlingInitial
	}
	const maxDoublings = 14 // 30 ms * 2^14 is above legacyMax
	return min((upTo(d-1)+d)<<min(max(n, 0), maxDoublings), legacyMax)
}

// Add returns a+b, or the longest Duration if that is shorter.
// Neither a nor b is negative.
func Add(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
