package gate

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// A Spreader adds the random part of a delay. A simulation that repeats itself
// has one of its own, which is also the Backoff of its Transport.
type Spreader interface {
	// Spread returns a delay that is up to spread longer, for a caller with the
	// context.
	Spread(ctx context.Context, delay, spread time.Duration) time.Duration
}

// Spread returns the delay with a part, from 0 to spread, that s chooses. If s is
// nil, that part is uniformly random.
func Spread(ctx context.Context, s Spreader, delay, spread time.Duration) time.Duration {
	if s != nil {
		return s.Spread(ctx, delay, spread)
	}
	if spread > 0 {
		delay += time.Duration(rand.Uint64N(uint64(spread) + 1))
	}
	if delay < 0 { // the sum is too long
		return math.MaxInt64
	}
	return delay
}
