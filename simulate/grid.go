package simulate

import (
	"context"
	"math"
	"testing/synctest"
	"time"
)

// A grid divides the instants of virtual time among owners. An owner has the
// instants whose nanosecond, modulo the tick, is twice its number. The odd
// remainders are for deadlines, so that a deadline never coincides with a
// response.
type grid struct {
	start time.Time     // a whole second
	tick  time.Duration // a divisor of a second, so that a delay of whole seconds keeps the remainder
	wall  bool          // time is real
}

// newGrid makes a grid for owners from 0 to owners-1 that starts now.
func newGrid(owners int) grid { return grid{start: time.Now(), tick: tickFor(owners)} }

// tickFor returns the smallest divisor of a second, at most a second, that has room
// for the owners.
func tickFor(owners int) time.Duration {
	best := time.Second
	for two := time.Duration(1); two <= 512; two *= 2 { // a second is 2^9 * 5^9 ns
		for tick := two; tick <= time.Second; tick *= 5 {
			if tick >= time.Duration(2*owners) && tick < best && time.Second%tick == 0 {
				best = tick
			}
		}
	}
	return best
}

func (g grid) now() time.Duration { return time.Since(g.start) }

// next returns the owner's first instant at or after t.
func (g grid) next(owner int, t time.Duration) time.Duration { return g.nextOf(series{owner, 1, 1}, t) }

// A series is count owners with the numbers first, first+step, and so on.
type series struct{ first, step, count int }

// nextOf returns the first instant at or after t of any of the owners. A tick must
// have room for them.
func (g grid) nextOf(owners series, t time.Duration) time.Duration {
	behind := (t - time.Duration(2*owners.first)) % g.tick
	if behind < 0 {
		behind += g.tick
	}
	step := time.Duration(2 * owners.step)
	if later := (behind + step - 1) / step; later < time.Duration(owners.count) {
		return t + later*step - behind
	}
	return t + g.tick - behind
}

// near returns the owner's instant after now that is nearest to t. If times were
// rounded up instead, each would be half a tick longer on average.
func (g grid) near(owner int, t time.Duration) time.Duration {
	return g.next(owner, max(t-g.tick/2, g.now()+1))
}

// owns reports whether t is one of the owner's instants.
func (g grid) owns(owner int, t time.Duration) bool { return g.next(owner, t) == t }

// deadline returns the instant for a deadline of the owner. It is just after the
// owner's first instant at or after t.
func (g grid) deadline(owner int, t time.Duration) time.Duration { return g.next(owner, t) + 1 }

// rounded rounds d to whole ticks, so that a goroutine that sleeps for it from one
// of its own instants wakes at another one.
func (g grid) rounded(d time.Duration) time.Duration { return g.delay(d + g.tick/2) }

// delay is like rounded, but never longer than d.
func (g grid) delay(d time.Duration) time.Duration { return d - d%g.tick }

// sleepUntil sleeps until t, unless that has passed.
func (g grid) sleepUntil(t time.Duration) { time.Sleep(t - g.now()) }

// settle waits until everything else that happens at this instant has happened. Two
// goroutines must not call it at the same instant. In real time it returns at once.
func (g grid) settle() {
	if !g.wall {
		synctest.Wait()
	}
}

// wait sleeps until t, which must be an instant of the owner, and reports true. If
// ctx ends before t or at t, it sleeps until the owner's first instant after that,
// and reports false. It needs no select, because it knows beforehand which of the
// two comes first: only its deadline ends ctx within the run.
func (g grid) wait(ctx context.Context, owner int, t time.Duration) bool {
	if t != never {
		deadline, ok := ctx.Deadline()
		if !ok || t < deadline.Sub(g.start) {
			g.sleepUntil(t)
			return true
		}
	}
	<-ctx.Done()
	g.sleepUntil(g.next(owner, g.now()))
	return false
}

// align returns the instant at which the call's next request arrives, which is now
// when align returns. The call's start and its owner's instants need no wait. At
// any other instant, such as that of a send token, align sleeps until the owner's
// next one. It reports false if ctx ends first.
func (g grid) align(ctx context.Context, c *call) (at time.Duration, ok bool) {
	now := g.now()
	if now == c.start || g.owns(c.owner, now) {
		return now, true
	}
	at = g.next(c.owner, now)
	return at, g.wait(ctx, c.owner, at)
}

// never is an instant that is not reached.
const never time.Duration = math.MaxInt64
