package fleet

import (
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

	cutAt     time.Duration // when the rate was cut last
	beginning bool          // cutAt is when the first rate was guessed
	accepted  float64       // since then, of all attempts
}

// newLeader returns a leader that goes on where another one left off.
func newLeader(law pacing.Adopter, lease time.Duration, got reply) *leader {
	l := &leader{law: law, lease: lease, fed: got.totals, now: got.now, rate: got.rate, cutAt: got.cut}
	_, l.oneCut = law.(*pacing.Cubic)
	if l.rate > 0 {
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
	if l.rate == 0 {
		return l.guess(news)
	}
	trip := time.Duration(0)
	if news.tripsOf > 0 {
		trip = time.Duration(news.trips / news.tripsOf * float64(time.Millisecond))
	}
	if l.now < l.cutAt+l.lease+l.lease/8+trip { // some processes sent these at their old rate
		news.acceptedBefore += news.accepted
		news.throttledBefore += news.throttled
		news.accepted, news.throttled = 0, 0
	}
	if l.beginning && !l.begin(news) {
		return l.rate, false
	}
	if l.oneCut { // the law would cut for each of them
		news.accepted += news.throttledBefore + max(news.throttled-1, 0)
		news.throttled, news.throttledBefore = min(news.throttled, 1), 0
	}
	const before = 0 // a time of sending before the last cut
	l.feed(news.acceptedBefore, before, false)
	l.feed(news.throttledBefore, before, true)
	l.mix(news.accepted, news.throttled, max(l.now-trip, 1))
	was := l.rate
	l.rate, _ = l.law.Pace()
	if cut = l.rate < 0.97*was; cut {
		l.cutAt = l.now
	}
	return l.rate, cut
}

// guess returns a rate when something is throttled for the first time: what was
// accepted since the last step. Others have not said yet what they sent.
func (l *leader) guess(news sums) (rate float64, cut bool) {
	l.feed(news.accepted+news.acceptedBefore, 1, false)
	if news.throttled+news.throttledBefore == 0 {
		return -1, false
	}
	l.beginning, l.cutAt, l.accepted = true, l.now, 0
	l.rate = max((news.accepted+news.acceptedBefore)/l.lease.Seconds(), 1)
	return l.rate, true
}

// begin begins at what the service accepted while the processes heard of the
// guess. It reports false before they all have.
func (l *leader) begin(news sums) bool {
	l.accepted += news.accepted + news.acceptedBefore
	since := l.now - l.cutAt
	if since < l.lease {
		return false
	}
	l.beginning = false
	l.rate = max(l.accepted/since.Seconds(), l.rate)
	l.law.Begin(l.now, l.rate)
	return true
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
	l.law.Update(l.now, sent, throttled)
}
