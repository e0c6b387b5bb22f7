package admission

import (
	"sync/atomic"
	"time"
)

// A Gate is closed for a time. The zero Gate is open. A Gate is safe for
// concurrent use.
type Gate struct {
	current atomic.Pointer[Closing] // nil from some time after its end on
}

// A Closing is the time for which a gate is closed. It does not change.
type Closing struct {
	until  time.Time
	spread time.Duration // the time after until in which the waiters continue
}

// Load returns nil if the gate is open. It does not read the clock, and may
// return a closing that has ended.
func (g *Gate) Load() *Closing { return g.current.Load() }

// Store makes c the closing, or opens the gate if c is nil.
func (g *Gate) Store(c *Closing) { g.current.Store(c) }

// Close closes the gate for the delay, unless it is closed for longer. Callers that
// wait continue within the spread that follows.
func (g *Gate) Close(now time.Time, delay, spread time.Duration) {
	next := &Closing{now.Add(delay), spread}
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

// Left returns how long a caller that arrives at now must wait, if the gate is
// closed, and the spread of which it waits for a part as well. Left opens a gate
// whose time is over.
func (g *Gate) Left(now time.Time) (wait, spread time.Duration, closed bool) {
	c := g.current.Load()
	if c == nil {
		return 0, 0, false
	}
	if !now.Before(c.until) {
		g.current.CompareAndSwap(c, nil)
		return 0, 0, false
	}
	return c.until.Sub(now), c.spread, true
}

// ClosedFor returns how long the gate stays closed, 0 if it is open.
func (g *Gate) ClosedFor(now time.Time) time.Duration {
	if c := g.current.Load(); c != nil {
		return max(c.until.Sub(now), 0)
	}
	return 0
}
