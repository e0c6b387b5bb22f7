package simulate

import (
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/jitter"
)

// seededBackoff is the default backoff of a Transport in a mode. Its random parts
// are seeded, and let a client wake only at instants of its callers.
func seededBackoff(mode awsretry.Mode, seed uint64, g grid) awsretry.Backoff {
	full := seededJitter(seed)
	if mode == awsretry.Legacy {
		return awsretry.BackoffFunc(func(n int, class awsretry.Class, _ time.Duration) time.Duration {
			return g.rounded(jitter.Legacy(n, class == awsretry.Throttled, full))
		})
	}
	// The Transport sets the delays of its revision.
	return awsretry.Exponential{Jitter: func(d time.Duration) time.Duration { return min(g.rounded(full(d)), g.delay(d)) }}
}

// seededJitter is awsretry.FullJitter with a seed.
func seededJitter(seed uint64) awsretry.Jitter {
	var drawn atomic.Uint64
	return func(d time.Duration) time.Duration {
		return time.Duration(unit(random(seed, forJitter, drawn.Add(1))) * float64(d+1))
	}
}
