package awsretry

import (
	"sync/atomic"
	"time"
)

// A gate holds back the attempts of a partition while a Retry-After that its
// service sent is in force (Transport.ShareRetryAfter). The zero gate is open.
type gate struct {
	current atomic.Pointer[closing] // nil from some time after the end on
}

// A closing says until when a gate is closed. It does not change.
type closing struct {
	until  time.Time
	spread time.Duration // those who wait go on in this time after until
}

// Load returns nil where the gate is open, without a look at the clock.
func (g *gate) Load() *closing { return g.current.Load() }

// close closes the gate for the pause, unless it is closed for longer.
func (g *gate) close(now time.Time, pause, spread time.Duration) {
	next := &closing{now.Add(pause), spread}
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

// left returns how long a caller has to wait that comes now, and whether it has
// to. The wait is different for each, so that not all of them go on at once.
func (g *gate) left(now time.Time) (wait time.Duration, closed bool) {
	wait, spread := g.closedFor(now)
	return addSaturating(wait, between0And(spread)), wait > 0
}

// closedFor returns how long the gate stays closed, 0 where it is open.
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
