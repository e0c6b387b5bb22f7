package awsretry

import (
	"sync/atomic"
	"time"
)

// A gate delays the attempts of a partition while a Retry-After of its service
// is in force (Transport.ShareRetryAfter). The zero gate is open.
type gate struct {
	current atomic.Pointer[closing] // nil from some time after its end on
}

// A closing is the time for which a gate is closed. It does not change.
type closing struct {
	until  time.Time
	spread time.Duration // after until, in which the waiters go on
}

// Load returns nil if the gate is open. It does not read the clock, and may
// return a closing that has ended.
func (g *gate) Load() *closing { return g.current.Load() }

// close closes the gate for the delay, unless it is closed for longer.
func (g *gate) close(now time.Time, delay, spread time.Duration) {
	next := &closing{now.Add(delay), spread}
	for {
		old := g.current.Load()
		if old != nil && !old.until.Before(next.until) {
			return
		}
		if g.current.CompareAndSwap(old, next) {
			return
		}
	}
}

// left returns how long an attempt that comes at now has to wait, if the gate
// is closed. The wait is a different one for each attempt, so that they do not
// all go on at once.
func (g *gate) left(now time.Time) (wait time.Duration, closed bool) {
	wait, spread := g.closedFor(now)
	return addSaturating(wait, between0And(spread)), wait > 0
}

// closedFor returns how long the gate stays closed, 0 if it is open.
func (g *gate) closedFor(now time.Time) (wait, spread time.Duration) {
	c := g.current.Load()
	if c == nil {
		return 0, 0
	}
	if !now.Before(c.until) {
		g.current.CompareAndSwap(c, nil)
		return 0, 0
	}
	return c.until.Sub(now), c.spread
}
