package simulate

import (
	"sync/atomic"
	"time"

	"example.com/awsretry"
)

// seededBackoff builds the default backoff of a Transport in that mode and
// revision from the library's public types and a seeded jitter.
// TestDelaysAreTheLibrarys compares the two. The delays that the library has
// for DynamoDB alone are not modeled.
func seededBackoff(mode awsretry.Mode, revision awsretry.Revision, full awsretry.Jitter) awsretry.Backoff {
	switch {
	case mode == awsretry.Legacy:
		return awsretry.BackoffFunc(func(n int, class awsretry.Class, _ time.Duration) time.Duration {
			d := 30 * time.Millisecond
			if class == awsretry.Throttled {
				d = 500 * time.Millisecond
			}
			// Legacy mode's jitter is from [0, d), full jitter from [0, d].
			return min((full(d-1)+d)<<min(n, 14), 300*time.Second)
		})
	case revision == awsretry.Revision2026:
		return awsretry.Exponential{Initial: 50 * time.Millisecond, ThrottlingInitial: time.Second, Jitter: full}
	}
	return awsretry.Exponential{Jitter: full}
}

// seededJitter is awsretry.FullJitter with a seed.
func seededJitter(seed uint64) awsretry.Jitter {
	var drawn atomic.Uint64
	return func(d time.Duration) time.Duration {
		return time.Duration(unit(random(seed, forJitter, drawn.Add(1))) * float64(d+1))
	}
}
