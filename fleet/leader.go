package fleet

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/pacing"
)

// A leader finds the rate of a fleet. It passes to the law what happened and when,
// as if one process had sent all requests. The round trip of that process is the
// time until the outcomes of a new rate are known, and its curve is the sum of the
// members' curves. If throttling responses take longer than slowTrip, the law's
// clock is slower by the same factor: otherwise the rate would be far too high when
// the first one arrives.
//
// A request counts as accepted when its throttling response would have arrived:
// other responses may take much longer.
type leader struct {
	law    pacing.Law
	curve  float64 // the sum of the curves of this many members
	slower float64 // by this factor the law's clock is slower than the store's; at least 1

	lease time.Duration
	now   time.Duration // on the store's clock
	rate  float64       // 0 until something is throttled
	least float64       // the lowest rate of the law
	limit float64       // that the law has found; 0 while it searches
	trip  time.Duration // of throttled requests, smoothed; 0 if unknown

	throttled   float64       // requests before there is a rate
	throttledAt time.Duration // the first of them

	sent  []sending // that may still be throttled
	owed  float64   // throttled requests that were counted as accepted
	rest  float64   // the fraction of an outcome that was not passed to the law yet
	cutAt time.Duration

	// The outcomes since the last cut, and since all processes know of it.
	all, heard outcomes

	denials float64 // throttled requests since something was accepted
	denied  float64 // the rate at the first of them; 0 if there is none
}

type outcomes struct{ accepted, throttled float64 }

func (o *outcomes) add(p outcomes) {
	o.accepted += p.accepted
	o.throttled += p.throttled
}

// A sending is a number of requests that were sent at about the same time.
type sending struct {
	at time.Duration
	n  float64
}

const (
	// leastPart is the rate per second, at the limit, that counts as one member:
	// members that send less have a flatter curve.
	leastPart = 2

	slowTrip = time.Second

	// enough is how many requests are throttled in a row by more than chance.
	enough = 10

	// The rate is far too high after enough throttled requests since a cut, and
	// again more since all processes know of it. fall keeps at least leastLeft of
	// the rate.
	again     = 2
	leastLeft = 1. / 8

	// longestTrip is how long a leader waits for the outcomes of requests that
	// were sent before a cut.
	longestTrip = time.Minute

	// mostFed is how many outcomes of a kind a step passes to the law at most.
	mostFed = 200_000
)

// newLeader returns a leader that continues where another one stopped: on the curve
// that returns to a limit or, without one, in the search for it.
func newLeader(law pacing.Law, lease time.Duration, got *protocol.Reply) *leader {
	l := &leader{
		law: law, lease: lease, now: max(duration(got.Now)-lease, 0),
		rate: got.Rate, limit: got.Limit, trip: duration(min(got.Trip, milliseconds(longestTrip))),
	}
	l.law.Resume(0, 0, 1)
	l.least, _ = l.law.Pace()
	l.cutAt, l.slower = l.now, l.slowness()
	if l.rate > 0 {
		l.begin()
	}
	return l
}

// begin starts the law at the rate: on the curve that returns to the limit or,
// without one, with the search for it.
func (l *leader) begin() {
	if l.limit > 0 {
		l.law.Resume(l.lawTime(l.now), l.rate*l.slower, l.limit*l.slower)
	} else {
		l.law.Begin(l.lawTime(l.now), l.rate*l.slower)
	}
}

func (l *leader) slowness() float64 { return max(l.trip.Seconds()/slowTrip.Seconds(), 1) }

func (l *leader) lawTime(t time.Duration) time.Duration { return time.Duration(float64(t) / l.slower) }

func (l *leader) pace() float64 {
	rate, _ := l.law.Pace()
	return rate / l.slower
}

// noLaw is the Law of a leader that has not found a rate.
var noLaw = protocol.Law{Rate: -1}

// step passes what happened since the last step to the law. It returns the rate,
// and whether it was cut.
func (l *leader) step(got *protocol.Reply) (found protocol.Law, cut bool) {
	before, was := l.now, l.rate
	l.now = max(l.now, duration(got.Now))
	l.measureTrip(&got.Sums)
	if l.rate == 0 {
		if !l.measureAlone(&got.Sums, before) {
			return noLaw, false
		}
		l.slower = l.slowness()
		l.begin()
	} else {
		news := outcomes{l.takeAccepted(&got.Sums, before), got.Throttled}
		if !l.fall(news) {
			l.feed(before, news)
		}
		l.restore(was, news)
	}
	l.rate, l.limit = max(l.pace(), l.least), cmp.Or(l.law.Limit()/l.slower, l.limit)
	if s := l.slowness(); math.Abs(s-l.slower) > 0.5*l.slower && l.limit > 0 {
		l.slower = s
		l.begin()
	}
	if n := max(min(l.limit/leastPart, got.Members), 1); math.Abs(n-l.curve) > 0.2*l.curve {
		l.curve = n
		l.law.SumOf(l.lawTime(l.now), n)
	}
	if cut = l.rate < 0.97*was || was == 0; cut {
		l.cutAt, l.all, l.heard = l.now, outcomes{}, outcomes{}
	}
	return protocol.Law{Rate: l.rate, Limit: l.limit, Trip: milliseconds(l.trip)}, cut
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

// measureAlone sets the rate to what the service accepts from members that each
// have a law of their own, and returns false until it knows that: a lease after the
// first throttled request.
func (l *leader) measureAlone(news *protocol.Sums, before time.Duration) bool {
	l.sent = append(l.sent, sending{(before + l.now) / 2, news.Sent})
	if l.throttled += news.Throttled; l.throttled == 0 {
		l.throttledAt = l.now
	}
	from, to := l.throttledAt-l.lease-l.trip, l.now-l.trip // when the requests were sent
	if l.throttled == 0 {
		from = l.now - longestTrip
	}
	for len(l.sent) > 1 && l.sent[0].at < from {
		l.sent = l.sent[1:]
	}
	if l.now-l.throttledAt < l.lease {
		return false
	}
	first, n := l.sent[0].at, -l.throttled
	for len(l.sent) > 0 && l.sent[0].at <= to {
		n += l.sent[0].n
		l.sent = l.sent[1:]
	}
	l.rate = max(n/max(to-first, l.lease).Seconds(), l.least)
	return true
}

// takeAccepted returns how many requests turned out to be accepted since before.
func (l *leader) takeAccepted(news *protocol.Sums, before time.Duration) (n float64) {
	l.sent = append(l.sent, sending{(before + l.now) / 2, news.Sent})
	for len(l.sent) > 0 && l.now-l.sent[0].at >= l.trip {
		n += l.sent[0].n
		l.sent = l.sent[1:]
	}
	n -= l.owed + news.Throttled
	l.owed = max(-n, 0)
	return max(n, 0)
}

// feed passes outcomes to the law. It spreads the accepted ones evenly over the time
// since before, so that the law measures a steady rate.
func (l *leader) feed(before time.Duration, news outcomes) {
	l.rest += news.accepted
	n := math.Floor(min(l.rest, mostFed))
	l.rest = min(l.rest-n, 1)
	for i := 1.0; i <= n; i++ {
		l.update(before+time.Duration(float64(l.now-before)*i/n), false)
	}
	for range int(min(news.throttled, mostFed)) {
		l.update(l.now, true)
	}
}

// update passes one outcome to the law. Requests that were sent before all processes
// knew of a cut do not cut the rate again.
func (l *leader) update(at time.Duration, throttled bool) {
	sent := l.sentBefore(at)
	if throttled && sent < l.cutAt {
		l.law.Measure(l.lawTime(at), throttled)
		return
	}
	was := l.pace()
	l.law.Update(l.lawTime(at), max(l.lawTime(sent), 1), throttled) // for a law, 0 means unknown
	if l.pace() < 0.97*was {
		l.cutAt = at
	}
}

// sentBefore returns the time whose rate applied to a request whose outcome is known
// at at: some processes send at the rate of a lease earlier. It is negative if that was
// before the key was created.
func (l *leader) sentBefore(at time.Duration) time.Duration {
	return at - l.lease - l.lease/8 - l.trip
}

// fall lowers the rate to what is accepted if a cut left more than 1.5 times as much,
// and reports whether it did. A process alone, which sees each outcome at once, would
// have cut its rate several times.
func (l *leader) fall(news outcomes) bool {
	if l.all.add(news); l.sentBefore(l.now) < l.cutAt || l.limit == 0 {
		return false
	}
	l.heard.add(news)
	if l.all.throttled < max(enough, l.all.accepted/2) || l.heard.throttled < max(again, l.heard.accepted/2) {
		return false
	}
	share := l.all.accepted / (l.all.accepted + l.all.throttled)
	l.law.Adopt(l.lawTime(l.now), l.rate*l.slower*max(share, leastLeft))
	return true
}

// restore goes back to the curve from before a time in which everything was
// throttled: its length says nothing about the limit.
func (l *leader) restore(was float64, news outcomes) {
	switch {
	case news.accepted > 0 && news.throttled > 0:
	case news.throttled > 0:
		if l.denials += news.throttled; l.denied == 0 {
			l.denied = was
		}
	case news.accepted > 0:
		if rate := 0.7 * l.denied; l.denials >= enough && rate > l.pace() {
			l.law.Resume(l.lawTime(l.now), rate*l.slower, l.denied*l.slower)
		}
		l.denied, l.denials = 0, 0
	}
}

// checkSums returns an error if there are more outcomes since the last step than
// are possible in the time that has passed. Then the store does not run the script.
func checkSums(news *protocol.Sums, passed time.Duration) error {
	const mostPerSecond = 1e6
	if n, most := news.Sent+news.Throttled, mostFed+mostPerSecond*passed.Seconds(); n > most {
		return fmt.Errorf("the store has %g new outcomes; it can have %g", n, most)
	}
	return nil
}
