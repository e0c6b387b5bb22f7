// Package announced decides when a request may be sent to a service whose responses
// announce how much of its limits remains. Package remaining has the rules for one
// limit.
//
// Requests in flight are subtracted from what remains, and given back if the service
// did not count them. A Retry-After takes precedence over the reset.
//
// A limit is of all routes whose responses announce its name. If more remains for one
// of them than another's response left, within a window, that route has a limit of its
// own, and so it has if both took the same one of a few units. If more remains than its
// own response left, the limit contradicts itself, and so do those of other routes with
// its name. They are left to the pacing, as is one that often refuses what had room.
package announced

import (
	"slices"
	"time"

	"example.com/awsretry/internal/limitheaders"
	"example.com/awsretry/internal/remaining"
)

// A Limit is one of a service's limits, as announced by one response.
type Limit = limitheaders.Limit

const (
	// maxLimits is how many limits a Ledger keeps.
	maxLimits = 64

	// maxRecords limits how many requests a Ledger remembers.
	maxRecords = 1 << 15

	// maxName is the maximum length of a limit's name. Limits with longer names are
	// ignored.
	maxName = 255

	// mostUnits is larger than any quota. Announced values and costs are capped at it,
	// so that sums are exact enough.
	mostUnits = 1e15

	// hangTime is how long a Ledger waits for the outcome of a request. The service
	// has counted it by then.
	hangTime = time.Minute

	// forgetTime is the minimum time for which a Ledger keeps a limit that is no
	// longer announced.
	forgetTime = 10 * time.Minute
)

// A Ledger tracks how much remains of the limits of one service. Its times are on
// the caller's clock. A Ledger is not safe for concurrent use.
type Ledger struct {
	reserve float64 // the fraction of each quota that is left to other clients
	limits  []*limit
	names   []string // of limits; replaced when they change
	routes  routes
	counted int // the number of the routing for which requests in flight were counted
	sent    records
	trip    time.Duration // the mean response time

	deviation time.Duration // the mean deviation from trip

	// The last response that announced limits, if keep is set.
	keep      bool
	last      []Limit
	lastSent  time.Duration
	lastHeard time.Duration
	throttled bool
}

// New returns a Ledger that leaves a fraction of each quota, in [0, 1), to other
// clients.
func New(reserve float64) *Ledger {
	return &Ledger{reserve: reserve, sent: records{newest: -1}}
}

// A Request has the properties of a request that a Ledger needs.
type Request struct {
	Route Route
	Costs map[string]float64 // by the names of the limits; those that are not above 0 are learned
}

// cost returns the known cost of the request for the named limit, or 0 if the cost
// is learned.
func (r *Request) cost(name string) float64 {
	if c := r.Costs[name]; c > 0 {
		return min(c, mostUnits)
	}
	return 0
}

// Names returns the names of the limits, each once. The elements of the slice never
// change.
func (l *Ledger) Names() []string { return l.names }

// Of returns the limits that apply to the request.
func (l *Ledger) Of(r Request) Set { return l.routes.of(r.Route) }

// Routing returns a number that changes when Of may return another set.
func (l *Ledger) Routing(now time.Duration) int {
	l.forget(now)
	return l.routes.changes
}

// Take takes the cost of a request from its limits, if all of them have room for it
// at now. The request counts as in flight until Settle. sent is its send time, which
// is unique.
//
// Otherwise Take returns the limits that later requests must not take from before
// this one, and how long it has to wait: the limits that hold it back, and those from
// which it could no longer take in time if another request did first.
func (l *Ledger) Take(now time.Duration, r Request) (sent time.Duration, held Set, wait time.Duration) {
	l.forget(now)
	limits := l.Of(r) & l.all()
	var turns [maxLimits]remaining.Turn
	for i, m := range l.limits {
		if m.bit&limits == 0 {
			continue
		}
		var d time.Duration
		if d, turns[i] = m.Wait(now, l.trip, 0, r.cost(m.name)); d > 0 {
			held |= m.bit
			wait = max(wait, d)
		}
	}
	if held != 0 {
		for i, m := range l.limits {
			if m.bit&limits&^held == 0 || turns[i] != remaining.InTurn {
				continue
			}
			if after, _ := m.Wait(now, l.trip, m.Cost(0), r.cost(m.name)); after > wait {
				held |= m.bit
			}
		}
		return 0, held, wait
	}
	rec := record{Request: r, limits: limits}
	for i, m := range l.limits {
		if m.bit&limits != 0 {
			m.Take(now, l.trip, l.sent.last+1, r.cost(m.name), turns[i])
			m.InFlight.Add(1, r.cost(m.name))
			if turns[i] != remaining.InTurn {
				rec.probed |= m.bit
			}
		}
	}
	return l.sent.add(now, rec), 0, 0
}

// Wait returns how long a request that needs the limits has to wait after those
// ahead. Responses may lengthen or shorten the wait. When it is over, the caller must
// ask again.
func (l *Ledger) Wait(now time.Duration, ahead []*Line, limits Set, r Request) (longest time.Duration) {
	l.forget(now)
	for _, m := range l.limits {
		if m.bit&limits == 0 {
			continue
		}
		units := 0.0
		for _, q := range ahead {
			if m.bit&q.Limits != 0 {
				units += q.costOf(m)
			}
		}
		wait, _ := m.Wait(now, l.trip, units, r.cost(m.name))
		longest = max(longest, wait)
	}
	return longest
}

// Trip returns a time in which nearly every response comes: the mean response time
// plus four times the mean deviation (RFC 6298). It is 0 before the first response.
func (l *Ledger) Trip() time.Duration { return l.trip + 4*l.deviation }

// noteTrip updates the mean response time and the deviation.
func (l *Ledger) noteTrip(trip time.Duration) {
	if l.trip == 0 {
		l.trip = trip
	}
	off := trip - l.trip
	l.trip += off / 8
	l.deviation += (max(off, -off) - l.deviation) / 4
}

// Latest returns the send time of the last request in flight that was sent at sent
// or before, or sent itself if there is none.
func (l *Ledger) Latest(sent time.Duration) time.Duration { return l.sent.latest(sent) }

// Settle ends the request in flight that was sent at sent. used reports whether the
// service may have counted it.
func (l *Ledger) Settle(sent time.Duration, used bool) {
	if r := l.sent.find(sent); r != nil {
		l.settle(r, used)
	}
}

func (l *Ledger) settle(r *record, used bool) {
	for _, m := range l.limits {
		if m.bit&r.limits != 0 {
			said := m.bit&r.heard != 0
			// If the response announces limits, those that are missing do not apply.
			counted := used && (said || r.said == 0)
			m.Settle(r.number, r.cost(m.name), counted, said)
			m.InFlight.Add(-1, r.cost(m.name))
		}
	}
	r.settled, r.Costs = true, nil
	l.sent.trim()
}

// An Answer is the part of a response that concerns limits.
type Answer struct {
	Limits     []Limit
	Throttled  bool          // probably, unless Free is set
	Free       bool          // the service did not count the request
	RetryAfter time.Duration // until the next request may be sent; 0 means unknown
}

// Announce updates the limits with a response that came at now to the request that
// was sent at sent. A RetryAfter replaces the reset of a limit with too little left.
func (l *Ledger) Announce(now, sent time.Duration, answer Answer) {
	h := heard{retryAfter: answer.RetryAfter, Response: remaining.Response{
		At: now, Sent: sent, Requests: l.sent.last,
		Throttled: answer.Throttled, Free: answer.Free,
	}}
	r := l.sent.find(sent)
	if r != nil {
		h.Number, h.AnyProbe, h.probed, h.request = r.number, r.probed != 0, r.probed, r.Request
		l.noteTrip(now - sent)
	}
	h.Trip, h.Spread = l.trip, 4*l.deviation
	if l.keep && len(answer.Limits) > 0 && sent >= l.lastSent {
		l.last = append(l.last[:0], answer.Limits...)
		l.lastSent, l.lastHeard, l.throttled = sent, now, answer.Throttled
	}
	said := Set(0)
	for _, a := range answer.Limits {
		said |= l.learn(now, a, h)
	}
	if r != nil {
		r.said, r.heard = said, 0
		for _, m := range l.limits {
			if m.heardFrom == r.number {
				r.heard |= m.bit
			}
		}
		l.routes.note(r.Route, said)
	}
	l.dropSilent(now, sent, r, said, !answer.Throttled && !answer.Free)
	l.count()
}

// Keep makes l remember the last announcement, for Said.
func (l *Ledger) Keep() { l.keep = true }

// Said returns the limits that a response to this process last announced, when its
// request was sent and when the response came. Without Keep, it returns none.
func (l *Ledger) Said() (limits []Limit, throttled bool, sent, heard time.Duration) {
	return slices.Clone(l.last), l.throttled, l.lastSent, l.lastHeard
}

// Hear updates the limits with a response to another process of the same client: when
// its request was sent, when it came, and what it announced. It ignores a limit that
// a response to this process has announced since the request was sent. Hear does not
// update costs, the flow or routes: only the process that gets all responses can
// measure them.
func (l *Ledger) Hear(now, sent, came time.Duration, limits []Limit, throttled bool) {
	came = min(max(came, now-limitheaders.LongestReset), now)
	sent = min(max(sent, came-limitheaders.LongestReset), came)
	for _, a := range limits {
		if m := l.find(a, l.all()); m == nil || sent > m.AsOf && came > m.Heard {
			l.learn(now, a, heard{Response: remaining.Response{At: came, Sent: sent, Trip: l.trip, Throttled: throttled}})
		}
	}
	l.count()
}

// State returns the limits at now. Remaining excludes the requests in flight.
func (l *Ledger) State(now time.Duration) []Limit {
	l.forget(now)
	var all []Limit
	for _, m := range l.limits {
		a := Limit{Name: m.name, Quota: m.Quota, Remaining: max(m.Left(now), 0), Reset: -1, Refills: m.Rate() > 0}
		if m.Window.Ends {
			a.Reset = max(m.Window.End-now, 0)
		}
		all = append(all, a)
	}
	return all
}

// Limits reports whether a limit makes requests wait, or spaces them.
func (l *Ledger) Limits(now time.Duration) bool {
	return slices.ContainsFunc(l.limits, func(m *limit) bool { return m.Spaces(now) })
}
