package simulate

import (
	"context"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/gate"
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

// delays are those of a client, until instants of its callers.
type delays struct {
	backoff awsretry.Backoff
	grid    grid
}

var _ gate.Spreader = delays{}

// Delay implements awsretry.Backoff.
func (d delays) Delay(n int, class awsretry.Class, last time.Duration) time.Duration {
	return d.grid.rounded(d.backoff.Delay(n, class, last))
}

// Spread implements gate.Spreader. What it returns depends on the call and the
// time only.
func (d delays) Spread(ctx context.Context, delay, spread time.Duration) time.Duration {
	of, now := ctx.Value(callKey{}).(*call), d.grid.now()
	part := unit(random(of.id, uint64(now), forRetryAfter))
	return d.grid.next(of.owner, now+delay+span(part*float64(spread))) - now
}

// seededJitter is awsretry.FullJitter with a seed.
func seededJitter(seed uint64) awsretry.Jitter {
	var drawn atomic.Uint64
	return func(d time.Duration) time.Duration {
		return time.Duration(unit(random(seed, forJitter, drawn.Add(1))) * float64(d+1))
	}
}
