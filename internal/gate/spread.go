package gate

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// A Spreader decides how delays are spread, in place of chance. The contexts of
// a simulation that repeats itself have one.
type Spreader interface {
	// Spread returns a delay that is up to spread longer.
	Spread(delay, spread time.Duration) time.Duration
}

// SpreaderKey is the key of a context's [Spreader].
type SpreaderKey struct{}

// Spread returns the delay with a random part, from 0 to spread.
func Spread(ctx context.Context, delay, spread time.Duration) time.Duration {
	if s, ok := ctx.Value(SpreaderKey{}).(Spreader); ok {
		return s.Spread(delay, spread)
	}
	if spread > 0 {
		delay += time.Duration(rand.Uint64N(uint64(spread) + 1))
	}
	if delay < 0 { // the sum is too long
		return math.MaxInt64
	}
	return delay
}
