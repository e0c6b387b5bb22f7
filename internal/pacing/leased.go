package pacing

import "time"

// Leased is the law of one of many processes. While it has a lease, the rate is
// the one that was granted, and the outcomes are counted for the process that
// finds the rate of all of them. Without a lease it is a law of this process
// alone, which begins at the process's part of the rate. Before the first lease
// with a rate it is that law too, so that a process that is throttled slows down
// at once.
type Leased struct {
	alone  Adopter
	lease  Lease         // zero before the first one
	leased bool          // the rate is that of the lease; alone does not have the outcomes
	began  time.Duration // when a lease with a rate began, after none
	counts Counts
}

// A Lease is a rate for a time.
type Lease struct {
	Until          time.Duration // the end
	Limited        bool          // there is a rate
	Rate, Capacity float64       // in tokens per second, and the most tokens saved up
	Alone          float64       // the rate that this process begins with when the lease has ended
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

	// SumOf makes it the law of so many processes alike, of one at first. The rate
	// stays.
	SumOf(now time.Duration, processes float64)

	// Measure is Update without a change of the rate.
	Measure(now time.Duration, throttled bool)
}

// SumOf implements [Adopter]. All steps are relative to the rate.
func (s *Scaled) SumOf(time.Duration, float64) {}

// Counts are the throttled outcomes since the last call of Take.
type Counts struct {
	Throttled int
	Trips     Trips // of those that took a send token
}

// Trips are the times from sending to the outcome, and how many these are.
type Trips struct {
	Sum time.Duration
	Of  int
}

func (t *Trips) add(trip time.Duration) {
	t.Sum += trip
	t.Of++
}

// NewLeased returns a law that is alone until the first lease.
func NewLeased(alone Adopter) *Leased { return &Leased{alone: alone} }

// Lease replaces the lease, at now. It reports whether it is the first one with a
// rate, or the one before had ended.
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

// count counts what was throttled, unless it was sent without a lease before this
// one: it says nothing of the rate of all processes.
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
