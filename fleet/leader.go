package fleet

import (
	"fmt"
	"math"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/pacing"
)

// A leader finds the rate of a fleet from what all processes sent and what was
// throttled. It runs the law of the average member, with its part of the
// outcomes, and the rate of the fleet is as many times that of the law.
//
// A request counts as accepted when its throttling response would be there:
// other responses may take much longer. Where throttling responses take longer
// than slowTrip, the law's clock is slower, so that they take about that long for
// the law: otherwise the rate would be far too high when the first one comes.
type leader struct {
	newLaw func() pacing.Adopter
	law    pacing.Adopter
	cubic  bool
	parts  float64 // of the fleet, of which the law has one
	slower float64 // times the law's clock is slower than the store's; at least 1

	lease time.Duration
	now   time.Duration // on the store's clock
	rate  float64       // 0 until something is throttled
	least float64       // the lowest rate of the law
	trip  time.Duration // of throttled requests, smoothed; 0 if it is not known

	sent  []outcomes // of requests that may still be throttled
	owed  float64    // throttled requests that were counted as accepted
	rest  float64    // less than an outcome, of which the law has not heard
	cutAt time.Duration
	after []outcomes // of the last requests, after cutAt
}

// outcomes are those of the requests in a step that began at a time.
type outcomes struct {
	from                time.Duration
	accepted, throttled float64
}

const (
	// leastPart is the rate per second of the law at the limit, at least: fewer
	// members count where each sends less. Laws are at their worst at such rates.
	leastPart = 10

	slowTrip = time.Second

	// longestTrip is how long a leader waits for the outcomes of requests that
	// were sent before a cut.
	longestTrip = time.Minute

	// mostFed is how many outcomes a step passes to the law.
	mostFed = 100_000
)

// newLeader returns a leader that continues where another one stopped.
func newLeader(newLaw func() pacing.Adopter, lease time.Duration, got *protocol.Reply) *leader {
	l := &leader{
		newLaw: newLaw, law: newLaw(), parts: 1, slower: 1, lease: lease, now: max(duration(got.Now)-lease, 0),
		rate: got.Rate, trip: duration(min(got.Trip, milliseconds(longestTrip))),
	}
	l.cutAt = l.now
	_, l.cubic = l.law.(*pacing.Cubic)
	first := newLaw()
	first.Adopt(l.now, 0)
	if l.least, _ = first.Pace(); l.rate > 0 {
		l.parts = parts(max(got.Limit, got.Rate), got.Members)
		l.adopt(got.Limit)
	}
	return l
}

// parts returns of how many members a fleet with that limit consists for the law.
func parts(limit, members float64) float64 { return max(min(limit/leastPart, members), 1) }

// adopt begins a law at the rate, on the curve that returns to a limit, or as
// after a cut if that is 0.
func (l *leader) adopt(limit float64) {
	l.law, l.slower = l.newLaw(), max(l.trip.Seconds()/slowTrip.Seconds(), 1)
	if limit > 0 {
		l.law.Resume(l.lawTime(l.now), l.rate/l.unit(), limit/l.unit())
	} else {
		l.law.Adopt(l.lawTime(l.now), l.rate/l.unit())
	}
}

func (l *leader) lawTime(t time.Duration) time.Duration { return time.Duration(float64(t) / l.slower) }

// unit returns what a rate of 1 of the law is for the fleet.
func (l *leader) unit() float64 { return l.parts / l.slower }

// limit returns the limit that the law has found, or 0.
func (l *leader) limit() float64 { return l.law.Limit() * l.unit() }

// noLaw is that of a leader that has not found a rate.
var noLaw = protocol.Law{Rate: -1}

// step passes what happened since the last step to the law. It returns the rate,
// and whether it was cut.
func (l *leader) step(got *protocol.Reply) (found protocol.Law, cut bool) {
	before, was := l.now, l.rate
	l.now = max(l.now, duration(got.Now))
	l.measureTrip(&got.Sums)
	news := outcomes{before, l.accepted(&got.Sums, before), got.Throttled}
	if limit := l.limit(); l.rate > 0 && limit > 0 {
		n, slower := parts(limit, got.Members), max(l.trip.Seconds()/slowTrip.Seconds(), 1)
		if math.Abs(n/l.parts-1) > 0.2 || math.Abs(slower/l.slower-1) > 0.5 { // the fleet's rate stays
			l.parts = n
			l.adopt(limit)
		}
	}
	switch {
	case l.rate > 0:
		l.follow(news)
	case news.throttled == 0:
		return noLaw, false
	default: // each process alone would send at the lowest rate at least
		l.rate = max(news.accepted/l.lease.Seconds(), max(got.Members, 1)*l.least)
		l.parts = parts(l.rate, got.Members)
		l.adopt(0)
		l.law.Begin(l.lawTime(l.now), l.rate/l.unit())
	}
	l.rate = max(l.rate, l.least)
	if cut = l.rate < 0.97*was || was == 0; cut {
		l.cutAt, l.after = l.now, nil
	}
	return protocol.Law{Rate: l.rate, Limit: l.limit(), Trip: milliseconds(l.trip)}, cut
}

// measureTrip smooths the times that throttled requests take.
func (l *leader) measureTrip(news *protocol.Sums) {
	if news.TripsOf <= 0 {
		return
	}
	mean := duration(min(news.Trips/news.TripsOf, milliseconds(longestTrip)))
	if l.trip == 0 {
		l.trip = mean
	}
	l.trip += (mean - l.trip) / 2
}

// accepted returns how many requests turned out to be accepted since before.
func (l *leader) accepted(news *protocol.Sums, before time.Duration) (n float64) {
	l.sent = append(l.sent, outcomes{from: (before + l.now) / 2, accepted: news.Sent})
	trip, longest := l.trip, longestTrip
	switch begins := news.Throttled > 0; {
	case l.rate == 0 && !begins: // it is not known yet how long a throttled one takes
		trip = longestTrip
	case l.rate == 0: // what was sent earlier says nothing of the present rate
		longest = trip + l.lease
	}
	for len(l.sent) > 0 && l.now-l.sent[0].from >= trip {
		if l.now-l.sent[0].from < longest {
			n += l.sent[0].accepted
		}
		l.sent = l.sent[1:]
	}
	n -= l.owed + news.Throttled
	if l.owed = max(-n, 0); l.rate == 0 {
		l.owed = 0
	}
	return max(n, 0)
}

// follow sets the rate to that of the law. What is throttled cuts it once, until
// all know of that and what they sent then is known.
func (l *leader) follow(news outcomes) {
	heard, throttled := l.lease+l.lease/8+l.trip, news.throttled
	if l.now < l.cutAt+heard {
		news.throttled = 0
	}
	accepted, far := l.farAbove(news, l.now-heard-l.lease/2)
	if far {
		l.rate = max(accepted, l.rate/8)
		l.adopt(0)
		return
	}
	if l.cubic { // its rate of outcomes is that of all, and each that is throttled cuts
		news.throttled = min(news.throttled, 1)
		news.accepted += throttled - news.throttled
	}
	searching := l.limit() == 0
	l.feed(news)
	rate, _ := l.law.Pace()
	if l.rate = rate * l.unit(); searching && l.limit() > 0 && accepted < l.rate { // the rate has doubled since
		l.rate = max(accepted, l.rate/3)
		l.adopt(0)
	}
}

// farAbove reports whether the service accepts far less than the rate, and what it
// accepts: a process alone would have cut its rate several times. It goes by the
// outcomes after the last cut, from some time on.
func (l *leader) farAbove(news outcomes, from time.Duration) (accepted float64, far bool) {
	l.after = append(l.after, news)
	for len(l.after) > 1 && l.after[0].from < from {
		l.after = l.after[1:]
	}
	var all outcomes
	for _, o := range l.after {
		all.accepted += o.accepted
		all.throttled += o.throttled
	}
	accepted = all.accepted / max(l.now-l.after[0].from, l.lease/2).Seconds()
	return accepted, l.law.Limit() > 0 && all.throttled > 0.2*(all.accepted+all.throttled) && accepted < 0.8*l.rate
}

// feed passes outcomes to the law, the accepted ones spread evenly over the time
// in which they came, so that it measures a steady rate.
func (l *leader) feed(news outcomes) {
	l.rest += news.accepted / l.parts
	n := math.Floor(min(l.rest, mostFed))
	l.rest = min(l.rest-n, 1)
	sent := max(news.from-l.trip, 1) // so that one step makes one cut
	for i := 1.0; i <= n; i++ {
		at := news.from + time.Duration(float64(l.now-news.from)*i/n)
		l.law.Update(l.lawTime(at), l.lawTime(min(at, sent)), false)
	}
	for range int(min(news.throttled, mostFed)) {
		l.law.Update(l.lawTime(l.now), l.lawTime(min(l.now, sent)), true)
	}
}

// checkSums returns an error if there are more outcomes since the last step than
// the time that has passed allows: the store does not run the script.
func checkSums(news *protocol.Sums, passed time.Duration) error {
	const mostPerSecond = 1e6
	if n, most := news.Sent+news.Throttled, mostFed+mostPerSecond*passed.Seconds(); n > most {
		return fmt.Errorf("the store has %g new outcomes; it can have %g", n, most)
	}
	return nil
}
