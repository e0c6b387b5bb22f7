// Package jitter has the random parts of delays.
package jitter

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A Spread spreads the ends of delays that many callers have in common. Any number
// of successive delays is spread evenly, more so than at random: each is a golden
// section after the one before, modulo the spread. A Spread is safe for concurrent
// use.
type Spread struct{ at atomic.Uint64 } // a fraction of 2^64

// Start sets the part of the first delay, as a fraction of 2^64. 0 means a random
// one, so that processes that have the same delay do not all end it at one time.
func (s *Spread) Start(at uint64) {
	if at == 0 {
		at = rand.Uint64()
	}
	s.at.Store(at)
}

// golden is 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// Add returns the delay and a part of spread.
func (s *Spread) Add(delay, spread time.Duration) time.Duration {
	if spread <= 0 {
		return delay
	}
	part, _ := bits.Mul64(s.at.Add(golden)-golden, uint64(spread)+1)
	return Add(delay, time.Duration(part))
}

// UpTo returns a uniformly random duration in [0, d], and 0 if d is negative.
func UpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(d) + 1))
}

const (
	legacyInitial           = 30 * time.Millisecond
	legacyThrottlingInitial = 500 * time.Millisecond
	legacyMax               = 300 * time.Second
)

// Legacy is the backoff of DefaultRetryer in the AWS SDK for Go v1:
// (rand[0,d) + d) * 2^n. upTo returns the random part, as UpTo does.
func Legacy(n int, throttled bool, upTo func(time.Duration) time.Duration) time.Duration {
	d := legacyInitial
	if throttled {
		d = legacyThrottlingInitial
	}
	const maxDoublings = 14 // 30 ms * 2^14 is above legacyMax
	return min((upTo(d-1)+d)<<min(max(n, 0), maxDoublings), legacyMax)
}

// Add returns a+b, or the longest Duration if that is shorter.
// Neither a nor b is negative.
func Add(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
