package fleet

import (
	"time"

	"example.com/awsretry/internal/pacing"
)

// A leader finds the rate of a fleet from the outcomes of all its processes, by
// the law that a single process would use.
type leader struct {
	law    pacing.Adopter
	fed    sums          // the totals that the law has
	now    time.Duration // on the law's clock, which is the store's
	limits bool          // something was throttled, so there is a rate
	rate   float64
	oneCut bool // give the law at most one throttled outcome in a step
}

// newLeader returns a leader that goes on where another one left off.
func newLeader(law pacing.Adopter, got reply) *leader {
	l := &leader{law: law, fed: got.totals, now: got.now, rate: got.rate, limits: got.rate > 0}
	_, l.oneCut = law.(*pacing.Cubic)
	if l.limits {
		l.law.Adopt(l.now, l.rate)
	}
	return l
}

// step gives the outcomes since the last step to the law. It returns the rate,
// which is negative where there is none, and whether it was cut.
func (l *leader) step(got reply) (rate float64, cut bool) {
	l.now = max(l.now, got.now)
	news := got.totals.since(l.fed)
	l.fed = got.totals
	trip := time.Duration(0)
	if news.tripsOf > 0 {
		trip = time.Duration(news.trips / news.tripsOf * float64(time.Millisecond))
	}
	const before = 0 // a time of sending before the last cut
	if !l.limits {   // what was accepted is what the law begins at
		l.feed(news.accepted, max(l.now-trip, 1), false)
		news.accepted = 0
	}
	l.feed(news.acceptedBefore, before, false)
	l.feed(news.throttledBefore, before, !l.oneCut)
	if l.oneCut { // the law would cut for each of them
		news.accepted, news.throttled = news.accepted+max(news.throttled-1, 0), min(news.throttled, 1)
	}
	l.mix(news.accepted, news.throttled, max(l.now-trip, 1))
	if !l.limits {
		return -1, false
	}
	was := l.rate
	l.rate, _ = l.law.Pace()
	return l.rate, was == 0 || l.rate < 0.97*was
}

// mix gives outcomes of attempts that were sent at one time to the law, the
// throttled ones evenly among the others.
func (l *leader) mix(accepted, throttled float64, sent time.Duration) {
	all := accepted + throttled
	for i, given := 0.0, 0.0; i < min(all, mostFed); i++ {
		due := (i + 1) * throttled / all
		refused := due-given > 0.5
		if refused {
			given++
		}
		l.update(sent, refused)
	}
}

// What a step gives to the law at most. More than that in one renewal is a
// store that does not keep to the script.
const mostFed = 100_000

func (l *leader) feed(n float64, sent time.Duration, throttled bool) {
	for i := 0.0; i < min(n, mostFed); i++ {
		l.update(sent, throttled)
	}
}

func (l *leader) update(sent time.Duration, throttled bool) {
	l.limits = l.limits || throttled
	l.law.Update(l.now, sent, throttled)
}
