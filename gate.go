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
// all go on at once. A gate whose time is over is opened.
func (g *gate) left(now time.Time) (wait time.Duration, closed bool) {
	c := g.current.Load()
	if c == nil {
		return 0, false
	}
	if !now.Before(c.until) {
		g.current.CompareAndSwap(c, nil)
		return 0, false
	}
	return addSaturating(c.until.Sub(now), between0And(c.spread)), true
}

// closedFor returns how long the gate stays closed, 0 if it is open.
func (g *gate) closedFor(now time.Time) time.Duration {
	if c := g.current.Load(); c != nil {
		return max(c.until.Sub(now), 0)
	}
	return 0
}
