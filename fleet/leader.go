package fleet

import (
	"fmt"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/pacing"
)

// A leader finds the rate of a fleet from the outcomes of all processes, with the
// pacing law that a single process would use.
type leader struct {
	law    pacing.Adopter
	lease  time.Duration
	oneCut bool          // feed the law at most one throttled outcome in a step
	now    time.Duration // on the law's clock, which is the store's
	rate   float64       // 0 until something is throttled
	least  float64       // the lowest rate

	cutAt     time.Duration // when the rate was last cut
	beginning bool          // cutAt is when the first rate was guessed
	accepted  float64       // since cutAt
	throttled float64       // since cutAt
}

// newLeader returns a leader that continues where another one stopped.
func newLeader(law pacing.Adopter, lease time.Duration, got *protocol.Reply) *leader {
	now := duration(got.Now)
	l := &leader{law: law, lease: lease, now: max(now-lease, 0), rate: got.Rate, cutAt: duration(got.Cut)}
	_, l.oneCut = law.(*pacing.Cubic)
	l.law.Adopt(0, 0)
	l.least, _ = l.law.Pace()
	if l.rate > 0 {
		l.law.Adopt(l.now, l.rate)
	}
	return l
}

// step passes the outcomes since the last step to the law. It returns the rate,
// or a negative one if there is none, and whether it was cut.
func (l *leader) step(got *protocol.Reply) (rate float64, cut bool) {
	limited := l.rate > 0
	rate, cut = l.find(got)
	if !limited && rate < 0 {
		return rate, cut
	}
	l.rate = max(rate, l.least)
	return l.rate, cut
}

// find is step without the lowest rate.
func (l *leader) find(got *protocol.Reply) (rate float64, cut bool) {
	before := l.now
	l.now = max(l.now, duration(got.Now))
	news := got.Sums
	if l.rate == 0 {
		return l.guess(news)
	}
	l.accepted += news.Accepted + news.AcceptedBefore
	l.throttled += news.Throttled + news.ThrottledBefore
	trip := time.Duration(0)
	if news.TripsOf > 0 {
		trip = time.Duration(min(news.Trips/news.TripsOf, longestTrip.Seconds()*1000) * float64(time.Millisecond))
	}
	heard := l.now >= l.cutAt+l.lease+l.lease/8+trip // all processes know of the last cut
	switch {
	case l.beginning && !l.begin():
		return l.rate, false
	case !heard: // some of these were sent at the old rate
		news.AcceptedBefore += news.Accepted
		news.ThrottledBefore += news.Throttled
		news.Accepted, news.Throttled = 0, 0
	case news.Throttled > 0 && l.farTooHigh():
		l.rate = max(l.accepted/(l.now-l.cutAt).Seconds(), l.least)
		l.law.Adopt(l.now, l.rate)
		l.cutNow()
		return l.rate, true
	}
	l.feed(news, before, trip)
	was := l.rate
	l.rate, _ = l.law.Pace()
	if cut = l.rate < 0.97*was; cut {
		l.cutNow()
	}
	return l.rate, cut
}

func (l *leader) cutNow() { l.cutAt, l.accepted, l.throttled = l.now, 0, 0 }

// farTooHigh reports whether so much was throttled shortly after the last cut
// that the service accepts far less than the rate. A single process would have
// cut its rate several times by then.
func (l *leader) farTooHigh() bool {
	return l.now-l.cutAt < 4*l.lease && l.throttled > 0.3*(l.accepted+l.throttled)
}

// guess returns a rate when something is throttled for the first time: that of
// the requests that were accepted since the last step. Other processes may not
// have reported theirs.
func (l *leader) guess(news protocol.Sums) (rate float64, cut bool) {
	if news.Throttled+news.ThrottledBefore == 0 {
		return -1, false
	}
	l.beginning = true
	l.cutNow()
	l.rate = max((news.Accepted+news.AcceptedBefore)/l.lease.Seconds(), l.least)
	return l.rate, true
}

// begin begins at the rate that the service accepted until all processes knew of
// the guess. It reports false before that.
func (l *leader) begin() bool {
	since := l.now - l.cutAt
	if since < l.lease {
		return false
	}
	l.beginning = false
	l.rate = max(l.accepted/since.Seconds(), l.rate)
	l.law.Begin(l.now, l.rate)
	return true
}

// feed passes outcomes to the law, spread evenly over the time since before, so
// that the law measures a steady rate.
func (l *leader) feed(news protocol.Sums, before, trip time.Duration) {
	if l.oneCut { // otherwise each of them would be a cut
		news.Accepted += news.ThrottledBefore + max(news.Throttled-1, 0)
		news.Throttled, news.ThrottledBefore = min(news.Throttled, 1), 0
	}
	const beforeCut = 0         // a time of sending before the last cut
	sent := max(before-trip, 1) // so that one step makes one cut
	kinds := [...]struct {
		n, given  float64
		throttled bool
		sent      time.Duration
	}{
		{n: news.Accepted, sent: sent},
		{n: news.Throttled, sent: sent, throttled: true},
		{n: news.AcceptedBefore, sent: beforeCut},
		{n: news.ThrottledBefore, sent: beforeCut, throttled: true},
	}
	all := min(news.Outcomes(), mostFed)
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

// longestTrip is how long a leader waits for the outcomes of requests that were
// sent before a cut.
const longestTrip = time.Minute

// mostFed is how many outcomes a step passes to the law.
const mostFed = 100_000

// checkSums returns an error if there are more outcomes since the last step than
// the time that has passed allows: the store does not run the script.
func checkSums(news *protocol.Sums, passed time.Duration) error {
	const mostPerSecond = 1e6
	if n, most := news.Outcomes(), mostFed+mostPerSecond*passed.Seconds(); n > most {
		return fmt.Errorf("the store has %g new outcomes; it can have %g", n, most)
	}
	return nil
}
