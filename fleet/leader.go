package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/pacing"
)

// A leader finds the rate of a fleet from the outcomes of all processes, with the
// pacing law that a single process would use.
//
// The law's clock is slower where answers take longer than slowTrip, so that a
// round trip lasts about that long for the law: otherwise the rate would be far
// too high before the first request at a rate that is too high is answered. What
// is a rate for the law is as many times higher.
type leader struct {
	newLaw func() pacing.Adopter
	law    pacing.Adopter
	slower float64 // times the law's clock is slower than the store's; at least 1
	oneCut bool    // feed the law at most one throttled outcome in a step

	lease time.Duration
	now   time.Duration // on the store's clock
	rate  float64       // 0 until something is throttled
	least float64       // the lowest rate

	// How long outcomes take, smoothed; 0 if it is not known.
	trip         time.Duration // of throttled requests
	tripAccepted time.Duration // of the others

	cutAt     time.Duration // when something throttled cut the rate
	beginning bool          // cutAt is when the first rate was guessed
	from      time.Duration // the last cut, or the beginning
	accepted  float64       // since from
	fresh     protocol.Sums // of requests at the rate since from
}

const (
	slowTrip = time.Second

	// longestTrip is how long a leader waits for the outcomes of requests that
	// were sent before a cut.
	longestTrip = time.Minute

	// mostFed is how many outcomes of a kind a step passes to the law.
	mostFed = 100_000
)

// newLeader returns a leader that continues where another one stopped.
func newLeader(newLaw func() pacing.Adopter, lease time.Duration, got *protocol.Reply) *leader {
	l := &leader{
		newLaw: newLaw, lease: lease, now: max(duration(got.Now)-lease, 0),
		rate: got.Rate, trip: duration(min(got.Trip, milliseconds(longestTrip))), cutAt: duration(got.Cut),
	}
	l.from = l.now
	l.adopt(0, 0)
	_, l.oneCut = l.law.(*pacing.Cubic)
	l.least, _ = l.law.Pace()
	if l.rate > 0 {
		l.adopt(l.rate, got.Limit)
	}
	return l
}

// adopt begins a new law at a rate, as after a cut to it, or on the curve that
// returns to a limit.
func (l *leader) adopt(rate, limit float64) {
	l.slower = max(l.answer().Seconds()/slowTrip.Seconds(), 1)
	l.law = l.newLaw()
	if limit > 0 {
		l.law.Resume(l.lawTime(l.now), rate*l.slower, limit*l.slower)
	} else {
		l.law.Adopt(l.lawTime(l.now), rate*l.slower)
	}
}

// answer returns how long the outcomes take that the law goes by. The cubic law
// needs the rate of all of them.
func (l *leader) answer() time.Duration {
	if l.oneCut {
		return max(l.trip, l.tripAccepted)
	}
	return l.trip
}

func (l *leader) lawTime(t time.Duration) time.Duration { return time.Duration(float64(t) / l.slower) }

// noLaw is that of a leader that has not found a rate.
var noLaw = protocol.Law{Rate: -1}

// step passes the outcomes since the last step to the law. It returns the rate,
// and whether it was cut.
func (l *leader) step(got *protocol.Reply) (found protocol.Law, cut bool) {
	before, was := l.now, l.rate
	l.now = max(l.now, duration(got.Now))
	news := got.Sums
	l.measureTrips(&news)
	switch {
	case l.rate == 0:
		if cut = news.Throttled+news.ThrottledBefore > 0; !cut {
			return noLaw, false
		}
		// Other processes may not have reported what was accepted, and answers may
		// take long. Alone, each process would send at the lowest rate at least.
		l.rate, l.beginning = (news.Accepted+news.AcceptedBefore)/l.lease.Seconds(), true
		l.rate = max(l.rate, got.Members*l.least)
	case l.beginning:
		l.begin(&news)
	default:
		cut = l.follow(&news, before)
	}
	if l.rate = max(l.rate, l.least); cut {
		l.cutAt, l.from, l.accepted, l.fresh = l.now, l.now, 0, protocol.Sums{}
	}
	found = protocol.Law{Rate: l.rate, Trip: milliseconds(l.trip)}
	if !l.beginning {
		found.Limit = l.law.Limit() / l.slower
	}
	return found, cut && l.rate != was
}

// measureTrips smooths the times that outcomes take.
func (l *leader) measureTrips(news *protocol.Sums) {
	smooth := func(trip *time.Duration, sum, of float64, memory time.Duration) {
		if of <= 0 {
			return
		}
		mean := duration(min(sum/of, milliseconds(longestTrip)))
		if *trip == 0 {
			*trip = mean
		}
		*trip += (mean - *trip) / memory
	}
	smooth(&l.trip, news.ThrottledTrips, news.ThrottledTripsOf, 2)
	smooth(&l.tripAccepted, max(news.Trips-news.ThrottledTrips, 0), news.TripsOf-news.ThrottledTripsOf, 8)
}

// begin begins at the rate that the service accepted until all processes knew of
// the guess, and the first requests since then were answered.
func (l *leader) begin(news *protocol.Sums) {
	l.accepted += news.Accepted + news.AcceptedBefore
	since := l.now - l.cutAt
	if since < l.lease || l.trip+l.tripAccepted == 0 && since < longestTrip {
		return
	}
	l.beginning = false
	l.rate = max(l.accepted/since.Seconds(), l.rate)
	l.adopt(l.rate, 0)
	l.law.Begin(l.lawTime(l.now), l.rate*l.slower)
}

// follow sets the rate to that of the law. It reports whether something throttled
// has cut it.
func (l *leader) follow(news *protocol.Sums, before time.Duration) (cut bool) {
	l.accepted += news.Accepted + news.AcceptedBefore
	heardAt := l.cutAt + l.lease + l.lease/8 + l.trip
	if l.now < heardAt { // some of these were sent at the rate before the last cut
		news.AcceptedBefore += news.Accepted
		news.ThrottledBefore += news.Throttled
		news.Accepted, news.Throttled = 0, 0
	}
	l.fresh.Add(*news)
	was := l.rate
	// So much is throttled shortly after a cut that the service accepts far less
	// than the rate. A single process would have cut its rate several times.
	far := l.fresh.Throttled > 0.2*(l.fresh.Accepted+l.fresh.Throttled)
	if news.Throttled > 0 && l.now < heardAt+3*l.lease && far {
		l.rate = min(l.rate, l.accepted/(l.now-l.from).Seconds())
		l.adopt(max(l.rate, l.least), 0)
		return true
	}
	l.feed(news, before)
	rate, _ := l.law.Pace()
	l.rate = rate / l.slower
	cut = news.Throttled > 0 && l.rate < 0.97*was
	answered, slower := l.law.Measured()/l.slower, l.answer().Seconds()/slowTrip.Seconds()
	switch {
	case cut && l.trip > slowTrip && answered < l.rate: // since those were sent, the rate has risen
		l.rate = answered
		l.adopt(max(l.rate, l.least), 0)
	case slower > 1.5*l.slower || max(slower, 1) < l.slower/1.5:
		limit := l.law.Limit() / l.slower
		if l.adopt(l.rate, limit); limit == 0 {
			l.law.Begin(l.lawTime(l.now), l.rate*l.slower)
		}
	}
	return cut
}

// feed passes outcomes to the law, spread evenly over the time since before, so
// that the law measures a steady rate.
func (l *leader) feed(news *protocol.Sums, before time.Duration) {
	if l.oneCut { // otherwise each of them would be a cut
		news.Accepted += news.ThrottledBefore + max(news.Throttled-1, 0)
		news.Throttled, news.ThrottledBefore = min(news.Throttled, 1), 0
	}
	type outcome struct {
		at, sent  time.Duration
		throttled bool
	}
	var all []outcome
	add := func(n float64, sent time.Duration, throttled bool) {
		n = min(n, mostFed)
		for i := 1.0; i <= n; i++ {
			at := before + time.Duration(float64(l.now-before)*i/n)
			all = append(all, outcome{at, min(sent, at), throttled})
		}
	}
	const beforeCut = 0           // a time of sending before the last cut
	sent := max(before-l.trip, 1) // so that one step makes one cut
	add(news.Accepted, sent, false)
	add(news.Throttled, sent, true)
	add(news.AcceptedBefore, beforeCut, false)
	add(news.ThrottledBefore, beforeCut, true)
	slices.SortStableFunc(all, func(a, b outcome) int { return cmp.Compare(a.at, b.at) })
	for _, o := range all {
		l.law.Update(l.lawTime(o.at), l.lawTime(o.sent), o.throttled)
	}
}

// checkSums returns an error if there are more outcomes since the last step than
// the time that has passed allows: the store does not run the script.
func checkSums(news *protocol.Sums, passed time.Duration) error {
	const mostPerSecond = 1e6
	if n, most := news.Outcomes(), mostFed+mostPerSecond*passed.Seconds(); n > most {
		return fmt.Errorf("the store has %g new outcomes; it can have %g", n, most)
	}
	return nil
}
