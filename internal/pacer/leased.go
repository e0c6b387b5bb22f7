package pacer

import (
	"time"

	"example.com/awsretry/internal/pacing"
)

// leased finds the rate of one process in a fleet. While a grant with a rate is in
// force, that is the rate, and throttled outcomes are counted for the process that
// computes the fleet's rate. Otherwise it is that of a law for this process alone,
// which begins at the process's part of the fleet's rate. So it is before the first
// grant with a rate too, so that a throttled process slows down at once.
type leased struct {
	alone  pacing.Law
	limits pacing.Limits
	grant  Grant         // the last one; zero before the first
	until  time.Duration // the end of its lease
	paced  bool          // the rate is that of the grant; alone does not get the outcomes
	began  time.Duration // when a rate was last granted after a time without one
	counts Counts
}

// Counts are the outcomes of attempts, and how many were sent.
type Counts struct {
	Sent      int
	Throttled int
	Trips     time.Duration // total time of TripsOf round trips of throttled attempts, which took a send token
	TripsOf   int
}

// begin replaces the grant at now. until is the end of its lease. begin reports
// whether the new one has a rate and the one before had none.
func (l *leased) begin(now, until time.Duration, g *Grant) (begins bool) {
	if !g.Limited {
		l.end(now)
	}
	if begins = g.Limited && !l.paced; begins {
		l.began = now
	}
	l.grant, l.until, l.paced = *g, until, g.Limited
	return begins
}

// end continues with the law for this process alone.
func (l *leased) end(now time.Duration) {
	if l.paced {
		l.alone.Adopt(now, max(l.grant.FleetRate/float64(max(l.grant.Members, 1)), l.limits.MinRate))
	}
	l.paced = false
}

// inForce reports whether the lease has not ended.
func (l *leased) inForce(now time.Duration) bool { return now < l.until }

// lapse is end if the lease has ended.
func (l *leased) lapse(now time.Duration) {
	if !l.inForce(now) {
		l.end(now)
	}
}

// update takes an outcome as [pacing.Law.Update] does.
func (l *leased) update(now, sent time.Duration, throttled bool) {
	if throttled {
		l.count(now, sent)
	}
	if l.paced && l.inForce(now) {
		l.alone.Measure(now, throttled)
		return
	}
	l.end(now)
	l.alone.Update(now, sent, throttled)
}

// count counts a throttled outcome, unless its request was sent before the lease
// began: it shows nothing about the fleet's rate.
func (l *leased) count(now, sent time.Duration) {
	if l.began > 0 && sent <= l.began {
		return
	}
	if sent > 0 {
		l.counts.Trips += now - sent
		l.counts.TripsOf++
	}
	l.counts.Throttled++
}

// take returns the counts and resets them.
func (l *leased) take() Counts {
	c := l.counts
	l.counts = Counts{}
	return c
}

// pace returns the rate and the capacity of the bucket.
func (l *leased) pace(now time.Duration) (rate, capacity float64) {
	rate, capacity = l.alone.Pace()
	if l.paced {
		rate = l.grant.Rate
		capacity = max(rate*l.grant.Burst.Seconds(), l.limits.MinCapacity)
	}
	if most := l.grant.AloneAtMost; most > 0 && !l.inForce(now) {
		rate, capacity = min(rate, most), 1
	}
	return rate, capacity
}
