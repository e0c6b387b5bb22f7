package pacing

import "time"

// Leased is a law of many processes: while it has a lease, the rate is the one
// that was granted, and the outcomes are counted for whoever finds the rate of
// all of them. Without a lease it is a law of this process alone, which begins
// at the part of the rate that falls to each process.
type Leased struct {
	alone  Adopter
	lease  Lease // zero before the first one
	lapsed bool  // since the lease ended, alone has the outcomes
	counts Counts
}

// A Lease is a rate for a time.
type Lease struct {
	Until          time.Duration // the end
	Limited        bool          // there is a rate
	Rate, Capacity float64       // in tokens per second, and the most that a pause saves up
	Alone          float64       // the rate that this process begins with when the lease has ended
	Cut            time.Duration // when the rate of all processes was cut last, 0 if never
}

// What a process may use whose lease has no rate.
const unlimitedRate = 1e9

// An Adopter is a law that can begin at a rate.
type Adopter interface {
	Law

	// Adopt begins at rate, as if it were what is left after a cut.
	Adopt(now time.Duration, rate float64)

	// Begin begins at rate, as after the first throttling response.
	Begin(now time.Duration, rate float64)

	// Measure is Update without a change of the rate.
	Measure(now time.Duration, throttled bool)
}

// Counts are the outcomes since the last call of Take.
type Counts struct {
	Accepted, Throttled int           // of requests that were sent after the last cut
	AcceptedBefore      int           // of requests that were sent before it
	ThrottledBefore     int           // the same
	Trips               time.Duration // from sending to the outcome, of all that took a send token
	TripsOf             int           // how many these were
}

// NewLeased returns the law that is alone until the first lease.
func NewLeased(alone Adopter) *Leased { return &Leased{alone: alone, lapsed: true} }

// Lease replaces the lease.
func (l *Leased) Lease(lease Lease) { l.lease, l.lapsed = lease, false }

// Take returns the counts and begins them again.
func (l *Leased) Take() Counts {
	c := l.counts
	l.counts = Counts{}
	return c
}

// Limits reports whether there is a rate, after an Update with that outcome.
func (l *Leased) Limits(limited, throttled bool) bool {
	if l.lapsed {
		return limited || throttled
	}
	return l.lease.Limited
}

// Update implements [Law].
func (l *Leased) Update(now, sent time.Duration, throttled bool) {
	l.count(now, sent, throttled)
	if l.Lapse(now); !l.lapsed {
		l.alone.Measure(now, throttled)
		return
	}
	l.alone.Update(now, sent, throttled)
}

// Lapse begins to be a law of this process alone if the lease has ended.
func (l *Leased) Lapse(now time.Duration) {
	if l.lapsed || now < l.lease.Until {
		return
	}
	l.lapsed = true
	if l.lease.Limited {
		l.alone.Adopt(now, l.lease.Alone)
	}
}

func (l *Leased) count(now, sent time.Duration, throttled bool) {
	if sent > 0 {
		l.counts.Trips += now - sent
		l.counts.TripsOf++
	}
	switch after := sent > l.lease.Cut || l.lease.Cut == 0; {
	case after && throttled:
		l.counts.Throttled++
	case after:
		l.counts.Accepted++
	case throttled:
		l.counts.ThrottledBefore++
	default:
		l.counts.AcceptedBefore++
	}
}

// Pace implements [Law].
func (l *Leased) Pace() (rate, capacity float64) {
	switch {
	case l.lapsed:
		return l.alone.Pace()
	case !l.lease.Limited:
		return unlimitedRate, unlimitedRate
	}
	return l.lease.Rate, l.lease.Capacity
}

// Measured implements [Law]. It is of this process.
func (l *Leased) Measured() float64 { return l.alone.Measured() }
