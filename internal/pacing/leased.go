package pacing

import "time"

// Leased is the law of one process in a fleet. During a lease, it has the granted
// rate, and counts throttled outcomes for the process that computes the fleet's
// rate. Without a lease, it is a law for this process alone, which begins at the
// process's part of the fleet's rate. It is that law before the first lease with
// a rate too, so that a throttled process slows down at once.
type Leased struct {
	alone  Adopter
	lease  Lease         // zero before the first one
	leased bool          // the rate is that of the lease; alone does not get the outcomes
	began  time.Duration // when a rate was last granted after a time without one
	counts Counts
}

// A Lease is a rate for a time.
type Lease struct {
	Until          time.Duration // the end
	Limited        bool          // the rate is limited
	Rate, Capacity float64       // in tokens per second, and of the token bucket
	Alone          float64       // the rate with which this process continues after the lease
}

// An Adopter is a law that can begin at a rate.
type Adopter interface {
	Law

	// Adopt begins at rate, as after a cut to it.
	Adopt(now time.Duration, rate float64)

	// Resume continues the curve of another law, which is at rate and returns to
	// limit. Limit returns the limit of the curve, and 0 if there is none.
	Resume(now time.Duration, rate, limit float64)
	Limit() float64

	// Begin begins at rate, as after the first throttling response.
	Begin(now time.Duration, rate float64)

	// SumOf makes it the law of that many equal processes. A new law is that of one.
	// The rate does not change.
	SumOf(now time.Duration, processes float64)

	// Measure counts an outcome without changing the rate.
	Measure(now time.Duration, throttled bool)
}

// SumOf implements [Adopter]. All steps are relative to the rate.
func (s *Scaled) SumOf(time.Duration, float64) {}

// Counts are the throttled outcomes since the last call of Take.
type Counts struct {
	Throttled int
	Trips     Trips // of those that took a send token
}

// Trips is the sum of some times from sending to the outcome, and their number.
type Trips struct {
	Sum time.Duration
	Of  int
}

func (t *Trips) add(trip time.Duration) {
	t.Sum += trip
	t.Of++
}

// NewLeased returns a law that is the given one until the first lease.
func NewLeased(alone Adopter) *Leased { return &Leased{alone: alone} }

// Lease replaces the lease at now. begins reports whether the new lease has a rate
// and no other one was in force.
func (l *Leased) Lease(now time.Duration, lease Lease) (begins bool) {
	if !lease.Limited {
		l.end(now)
	}
	if begins = lease.Limited && !l.leased; begins {
		l.began = now
	}
	l.lease, l.leased = lease, lease.Limited
	return begins
}

// end continues without a lease.
func (l *Leased) end(now time.Duration) {
	if l.leased {
		l.alone.Adopt(now, l.lease.Alone)
	}
	l.leased = false
}

// Take returns the counts and resets them.
func (l *Leased) Take() Counts {
	c := l.counts
	l.counts = Counts{}
	return c
}

// Update implements [Law].
func (l *Leased) Update(now, sent time.Duration, throttled bool) {
	if throttled {
		l.count(now, sent)
	}
	if l.leased && l.InForce(now) {
		l.alone.Measure(now, throttled)
		return
	}
	l.end(now)
	l.alone.Update(now, sent, throttled)
}

// InForce reports whether the lease has not ended.
func (l *Leased) InForce(now time.Duration) bool { return now < l.lease.Until }

// Lapse continues without a lease if it has ended.
func (l *Leased) Lapse(now time.Duration) {
	if now >= l.lease.Until {
		l.end(now)
	}
}

// count counts a throttled outcome, unless its request was sent before the lease
// began: it shows nothing about the fleet's rate.
func (l *Leased) count(now, sent time.Duration) {
	if l.began > 0 && sent <= l.began {
		return
	}
	if sent > 0 {
		l.counts.Trips.add(now - sent)
	}
	l.counts.Throttled++
}

// Pace implements [Law].
func (l *Leased) Pace() (rate, capacity float64) {
	if l.leased {
		return l.lease.Rate, l.lease.Capacity
	}
	return l.alone.Pace()
}

// Measured implements [Law]. It measures this process alone.
func (l *Leased) Measured() float64 { return l.alone.Measured() }
