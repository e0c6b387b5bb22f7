package delivery

import (
	"iter"
	"math"
	"time"
)

// Delays yields the delay before each retry, in order and without jitter. It
// computes them one at a time, so a policy of 100,000 retries needs no memory.
// A nil policy is the default one. A policy that [Policy.ValidateRaw] refuses
// yields at most numRetries delays, none of them negative.
func (p *Policy) Delays() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		s := p.schedule()
		for n := range s.retries() {
			if !yield(s.delay(n)) {
				return
			}
		}
	}
}

// A schedule is the four phases of a retry policy, with the defaults applied.
type schedule struct {
	noDelay, minDelay, backoff, maxDelay int // retries in each phase
	lo, hi                               time.Duration
	function                             BackoffFunction
	fixed                                bool            // AWSManaged or CustomerManaged
	own                                  []time.Duration // Policy.Schedule; nil: the phases
}

func (p *Policy) schedule() schedule {
	switch {
	case p == nil:
		return (*RetryPolicy)(nil).schedule()
	case p.Schedule != nil:
		return schedule{own: p.Schedule, fixed: true}
	}
	return p.HealthyRetryPolicy.schedule()
}

func (r *RetryPolicy) schedule() schedule {
	f := r.withDefaults()
	rest := max(*f.NumRetries, 0)
	take := func(n *int) int {
		n1 := min(max(*n, 0), rest)
		rest -= n1
		return n1
	}
	s := schedule{
		noDelay: take(f.NumNoDelayRetries), minDelay: take(f.NumMinDelayRetries), maxDelay: take(f.NumMaxDelayRetries),
		lo: seconds(*f.MinDelayTarget), hi: seconds(*f.MaxDelayTarget),
		function: f.BackoffFunction, fixed: f.fixed,
	}
	s.backoff = rest
	return s
}

func (s *schedule) retries() int { return len(s.own) + s.noDelay + s.minDelay + s.backoff + s.maxDelay }

// delay returns the delay before retry n, from 0.
func (s *schedule) delay(n int) time.Duration {
	if s.own != nil {
		return max(s.own[n], 0)
	}
	if n < s.noDelay {
		return 0
	}
	n -= s.noDelay
	if n < s.minDelay {
		return s.lo
	}
	n -= s.minDelay
	if n < s.backoff {
		return s.backoffDelay(n)
	}
	return s.hi
}

// spread is the default jitter to either side, as a fraction of the delay.
// Amazon SNS does not publish its jitter.
const spread = 0.1

// jittered returns the delay before retry n with jitter: from spread below the
// delay at random 0 to spread above it at 1, but not below minDelayTarget.
// Except in the fixed policies and a Policy.Schedule, the sum of all delays is at most 3,600 s.
func (s *schedule) jittered(n int, random float64) time.Duration {
	delay := float64(s.delay(n))
	if delay == 0 {
		return 0
	}
	least, most := max((1-spread)*delay, float64(s.lo)), (1+spread)*delay
	if !s.fixed {
		most = min(most, delay*max(1, float64(maxTotal)/float64(s.total())))
	}
	return toDuration(math.Floor(least + random*(most-least)))
}

// backoffDelay returns the delay before retry k of the backoff phase, from 0.
func (s *schedule) backoffDelay(k int) time.Duration {
	if s.backoff == 1 {
		return s.lo
	}
	function, ok := backoffFunctions[s.function]
	if !ok { // the policy is not valid
		function = backoffFunctions[Linear]
	}
	return toDuration(function(float64(k), float64(s.backoff), float64(s.lo), float64(s.hi)))
}

// total returns the sum of all delays.
func (s *schedule) total() time.Duration {
	sum := 0.0
	for n := range s.retries() {
		sum += float64(s.delay(n))
	}
	return toDuration(sum)
}

func seconds(n int) time.Duration { return toDuration(float64(n) * float64(time.Second)) }

// toDuration rounds d nanoseconds to a Duration. It returns 0 for a negative d
// and NaN, and the longest Duration for a d above it.
func toDuration(d float64) time.Duration {
	switch {
	case !(d > 0):
		return 0
	case d >= math.MaxInt64:
		return math.MaxInt64
	}
	return time.Duration(math.Round(d))
}
