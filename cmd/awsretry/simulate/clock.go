package simulate

import (
	"context"
	"math"
	"time"
)

// A grid deals out the instants of virtual time: each owner has those whose nanosecond, divided by the tick, leaves
// its own remainder. The remainders between two owners' are for deadlines, so that none falls together with an answer.
type grid struct {
	start time.Time     // a whole second
	tick  time.Duration // a divisor of a second, so that pauses of whole seconds keep the remainder
}

// newGrid makes a grid for owners from 0 to owners-1. The bubble's clock must stand at its start.
func newGrid(owners int) grid { return grid{time.Now(), tickFor(owners)} }

// tickFor returns the least divisor of a second with room for so many owners, at most a second.
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
func (g grid) next(owner int, t time.Duration) time.Duration {
	own := time.Duration(2 * owner)
	behind := (t - own) % g.tick
	if behind < 0 {
		behind += g.tick
	}
	if behind == 0 {
		return t
	}
	return t + g.tick - behind
}

// owns reports whether t is one of the owner's instants.
func (g grid) owns(owner int, t time.Duration) bool { return g.next(owner, t) == t }

// deadline returns a deadline of the owner's, just after its first instant at or after t.
func (g grid) deadline(owner int, t time.Duration) time.Duration { return g.next(owner, t) + 1 }

// pause shortens d to whole ticks, so that who sleeps it from an instant of its own wakes at one.
func (g grid) pause(d time.Duration) time.Duration { return d - d%g.tick }

// sleepUntil sleeps until t, unless that has passed.
func (g grid) sleepUntil(t time.Duration) { time.Sleep(t - g.now()) }

// wait sleeps until t, an instant of the owner's, and reports true; or, where ctx ends before t or at t, until the owner's first instant from
// then on, and reports false. What can end ctx but its deadline comes after the run, so no select is needed: it is known beforehand
// which of the two comes first.
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

// align returns the instant at which the call's next request arrives, which is now then: the call's first one, when no one else acts either, or one of its
// owner's. A send token comes at neither; then align waits, and reports false where ctx ends first.
func (g grid) align(ctx context.Context, c *call) (at time.Duration, ok bool) {
	now := g.now()
	if now == c.start || g.owns(c.owner, now) {
		return now, true
	}
	at = g.next(c.owner, now)
	return at, g.wait(ctx, c.owner, at)
}

// never is an instant that does not come.
const never time.Duration = math.MaxInt64

// What random numbers are for.
const (
	forStart = iota
	forThinking
	forArrival
	forHerd
	forLatency
	forSpread
	forError
	forJitter
)

// random is a number that is drawn from the seed for one thing alone: the same for the same parts, in whatever order it
// is asked for. The parts are mixed by the finalizer of SplitMix64.
func random(parts ...uint64) uint64 {
	var x uint64
	for _, p := range parts {
		x += p + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// unit makes a random number uniform in [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// exponential makes a random number one of the exponential distribution with the given mean, in nanoseconds.
func exponential(x uint64, mean float64) time.Duration {
	return span(-math.Log1p(-unit(x)) * mean)
}

// span makes nanoseconds a time that a few can be added up of; what is longer than any run, and so makes no difference, is cut.
func span(ns float64) time.Duration {
	const longest = 1e17 // three years
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, longest))
}

// normal makes two random numbers one of the standard normal distribution (Box and Muller's transform).
func normal(x, y uint64) float64 {
	return math.Sqrt(-2*math.Log1p(-unit(x))) * math.Cos(2*math.Pi*unit(y))
}
