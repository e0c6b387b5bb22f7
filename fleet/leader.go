package fleet

import (
	"fmt"
	"time"

	"example.com/awsretry/internal/pacing"
)

// A leader finds the rate of a fleet from the outcomes of all its processes, by
// the law that a single process would use.
type leader struct {
	law    pacing.Adopter
	lease  time.Duration
	oneCut bool          // give the law at most one throttled outcome in a step
	fed    sums          // the totals that the law has
	now    time.Duration // on the law's clock, which is the store's
	rate   float64       // 0 where nothing was throttled yet
	least  float64       // the rate is not lower

	trip   time.Duration // mean time from sending to the outcome, of the last step that had some
	known  known         // the limit
	alone  bool          // the law has cut the rate, and the limit is not known
	raised bool          // the law began again, because the limit has risen

	cutAt     time.Duration // when the rate was cut last
	beginning bool          // cutAt is when the first rate was guessed
	since     sums          // since then
	soon      int           // cuts in a row that came soon after the one before
}

const (
	soonLeases = 4    // a cut soon after another one is at most so many leases later
	mostSoon   = 3    // so many of them in a row: the rate is not the reason, and the law decides alone
	heavy      = 0.15 // part of the outcomes of a step that is throttled if the limit is much lower than it was
	leastPart  = 0.1  // of the rate, that a cut leaves
)

// newLeader returns a leader that goes on where another one left off.
func newLeader(law pacing.Adopter, lease time.Duration, got reply) *leader {
	l := &leader{law: law, lease: lease, fed: got.totals, now: got.now, rate: got.rate, cutAt: got.cut}
	_, l.oneCut = law.(*pacing.Cubic)
	l.law.Adopt(0, 0)
	l.least, _ = l.law.Pace()
	if l.rate > 0 {
		l.law.Adopt(l.now, l.rate)
		l.known.at, l.known.rate, l.known.settling = l.now, l.rate, true
		l.known.find(l.now, l.rate, time.Second)
	}
	return l
}

// step gives the outcomes since the last step to the law. It returns the rate,
// which is negative where there is none, and whether it was cut.
func (l *leader) step(got reply) (rate float64, cut bool) {
	limited := l.rate > 0
	rate, cut = l.find(got)
	if !limited && rate < 0 {
		return rate, cut
	}
	l.rate = max(rate, l.least)
	return l.rate, cut
}

// find is step without a lowest rate.
func (l *leader) find(got reply) (rate float64, cut bool) {
	before := l.now
	l.now = max(l.now, got.now)
	news := got.totals.since(l.fed)
	l.fed = got.totals
	if l.rate == 0 {
		return l.guess(news)
	}
	l.known.add(l.now, l.lease/4+l.trip, got.rate, news.accepted+news.acceptedBefore, news.throttled+news.throttledBefore)
	l.since.add(news)
	if news.tripsOf > 0 {
		l.trip = min(time.Duration(min(news.trips/news.tripsOf, mostTotal)*float64(time.Millisecond)), longestTrip)
	}
	heard := l.now >= l.cutAt+l.lease+l.lease/8+l.trip // by all processes, of the last cut
	switch {
	case l.beginning && !l.begin():
		return l.rate, false
	case !heard: // some processes sent these at their old rate
		news.acceptedBefore += news.accepted
		news.throttledBefore += news.throttled
		news.accepted, news.throttled = 0, 0
	case l.now-l.cutAt > soonLeases*l.lease:
		l.soon = 0
		if l.alone {
			l.known.find(l.now, l.rate, shortestOver)
			l.alone = false
		}
	}
	if news.throttled > 0 && l.soon < mostSoon {
		return l.cutToLimit(news), true
	}
	l.feed(news, before)
	was := l.rate
	l.rate, _ = l.law.Pace()
	if cut = l.rate < 0.97*was; cut {
		l.known.limit, l.alone = 0, true
		l.cutNow()
		return l.rate, true
	}
	if l.known.limit > 0 {
		l.rate = min(l.rate, l.known.most(l.now))
		if l.known.more() && !l.raised {
			l.law.Begin(l.now, l.rate)
			l.raised = true
		}
	}
	return l.rate, false
}

// cutToLimit cuts the rate to a little less than the limit that the outcomes
// show. A leader knows what all processes send, and so more than the law, which
// does not find the limit but a rate that was throttled.
func (l *leader) cutToLimit(news sums) (rate float64) {
	soon := l.now-l.cutAt <= soonLeases*l.lease
	if soon {
		l.soon++
	}
	if news.part() < 1-heavy {
		soon, l.since = true, news
	}
	l.known.throttled(l.now, l.rate, max(l.since.part(), leastPart), soon)
	l.rate = l.known.most(l.now)
	l.law.Adopt(l.now, l.rate)
	l.cutNow()
	l.raised = false
	return l.rate
}

func (l *leader) cutNow() { l.cutAt, l.since = l.now, sums{} }

// guess returns a rate when something is throttled for the first time: what was
// accepted since the last step. Others have not said yet what they sent.
func (l *leader) guess(news sums) (rate float64, cut bool) {
	if news.throttled+news.throttledBefore == 0 {
		return -1, false
	}
	l.beginning = true
	l.cutNow()
	l.rate = max((news.accepted+news.acceptedBefore)/l.lease.Seconds(), l.least)
	l.known.at = l.now
	return l.rate, true
}

// begin begins at what the service accepted while the processes heard of the
// guess. It reports false before they all have.
func (l *leader) begin() bool {
	since := l.now - l.cutAt
	if since < l.lease {
		return false
	}
	l.beginning = false
	l.rate = max((l.since.accepted+l.since.acceptedBefore)/since.Seconds(), l.rate)
	l.law.Begin(l.now, l.rate)
	return true
}

// feed gives outcomes to the law, evenly over the time since before, as they
// came, so that the law measures a steady rate.
func (l *leader) feed(news sums, before time.Duration) {
	if l.oneCut { // the law would cut for each of them
		news.accepted += news.throttledBefore + max(news.throttled-1, 0)
		news.throttled, news.throttledBefore = min(news.throttled, 1), 0
	}
	const beforeCut = 0           // a time of sending before the last cut
	sent := max(before-l.trip, 1) // so that what this step has cuts once
	kinds := [...]struct {
		n, given  float64
		throttled bool
		sent      time.Duration
	}{
		{n: news.accepted, sent: sent},
		{n: news.throttled, sent: sent, throttled: true},
		{n: news.acceptedBefore, sent: beforeCut},
		{n: news.throttledBefore, sent: beforeCut, throttled: true},
	}
	all := min(news.accepted+news.throttled+news.acceptedBefore+news.throttledBefore, mostFed)
	for i := 1.0; i <= all; i++ {
		next := &kinds[0]
		for k := range kinds {
			if kind := &kinds[k]; kind.n*i/all-kind.given > next.n*i/all-next.given {
				next = kind
			}
		}
		next.given++
		now := before + time.Duration(float64(l.now-before)*i/all)
		l.law.Update(now, min(next.sent, now), next.throttled)
	}
}

// longestTrip is what a leader waits for the outcomes of requests that were sent
// before a cut.
const longestTrip = time.Minute

// What a step gives to the law at most.
const mostFed = 100_000

// check returns an error if a reply has so many outcomes since the last step, a
// time ago, that the store does not keep to the script.
func (l *leader) check(got reply, passed time.Duration) error {
	const mostPerSecond = 1e6
	news := got.totals.since(l.fed)
	n := news.accepted + news.throttled + news.acceptedBefore + news.throttledBefore
	if most := mostFed + mostPerSecond*passed.Seconds(); n > most {
		return fmt.Errorf("the store has %g new outcomes; it can have %g", n, most)
	}
	return nil
}
