// Package announced decides when a request may be sent to a service that says in
// its responses what is left of its limits.
//
// Its law: a response says what remained when its request was served, and a value
// counts if it is lower than expected or newer than the last. Requests without a
// response are taken off, and given back if the service did not count them. The
// flow is measured: what comes back without a reset, less what others take. While
// much remains, requests are free; then they are spaced, so that what remains and
// flows back lasts until the reset. With too little left, a request waits for the
// flow or for the reset. From the reset on, a process that used all that is missing
// itself goes on as it did a length before, so that in no span of that length it
// sends more than the quota; otherwise, and unless one was refused there or in its turn, one
// request goes first, and its response says what the new quota is. Before the reset,
// one goes first after a pause, which grows with each response that confirms the
// limit, up to the reset or, while what the request takes remains, to some seconds,
// and shrinks with each that contradicts it. A Retry-After goes before the reset. One
// function, limit.wait, decides all of that.
package announced

import (
	"iter"
	"slices"
	"time"
)

// A Limit is one of a service's limits, as one response announces it.
type Limit struct {
	Name             string        // "" where there is one
	Quota, Remaining float64       // in units; Quota 0: not said
	Reset            time.Duration // until the quota is whole again; negative: not said
	Refills          bool          // steadily; else at once, at the end of a window
}

const (
	// maxLimits is how many limits a Ledger keeps. The services that announce the
	// most have four.
	maxLimits = 8

	// maxRecords bounds how many requests a Ledger remembers.
	maxRecords = 1 << 15

	// maxName is the length of the longest name of a limit that is kept.
	maxName = 255

	// mostUnits is more than any quota. It bounds what is announced and what a
	// request costs, so that sums are exact enough.
	mostUnits = 1e15

	// hangTime is how long a request is in flight before its outcome is not
	// waited for any more. The service has counted it by then.
	hangTime = time.Minute

	// forgetTime is how long a limit is believed that nobody hears of.
	forgetTime = 10 * time.Minute
)

// A Ledger is what is left of the limits of one service. Its times are on the
// clock of its caller, who also guards it: it is not safe for concurrent use.
type Ledger struct {
	reserve float64 // the part of each quota that is left to others
	limits  []*limit
	names   []string // of limits; replaced when they change
	routes  routes
	sent    records
	trip    time.Duration // how long a response takes, the mean

	deviation time.Duration // from trip, the mean

	// Of the last response that announced limits, if keep is set.
	keep      bool
	last      [maxLimits]Limit
	lastCount int
	lastSent  time.Duration
	lastHeard time.Duration
	throttled bool
}

// New returns a Ledger that leaves that part of each quota, in [0, 1), to
// others.
func New(reserve float64) *Ledger {
	return &Ledger{reserve: reserve, sent: records{newest: -1}}
}

// A Request is what a Ledger needs to know of a request.
type Request struct {
	Route Route
	Costs *Costs // nil: all are learned
}

// Costs are what a request takes of the limits of that name, as far as its
// sender knows. A cost that is not above 0 is learned.
type Costs struct {
	Names  []string
	Values [maxLimits]float64
}

// cost returns what the request takes of the limit of that name, or 0 if that is
// learned.
func (r *Request) cost(name string) float64 {
	c := r.Costs
	if c == nil {
		return 0
	}
	if i := slices.Index(c.Names, name); i >= 0 && i < maxLimits && c.Values[i] > 0 {
		return min(c.Values[i], mostUnits)
	}
	return 0
}

// Names returns the names of the limits. The slice does not change.
func (l *Ledger) Names() []string { return l.names }

// Of returns the limits that the request takes of.
func (l *Ledger) Of(r Request) Set { return l.routes.of(r.Route) }

// Take takes what a request costs if all its limits have room for it at now, or returns
// those that hold it back. The request counts as in flight until Settle. sent is its
// send time, which no other request has.
func (l *Ledger) Take(now time.Duration, r Request) (sent time.Duration, held Set) {
	l.forget(now)
	limits := l.Of(r)
	var turns [maxLimits]turn
	for i, m := range l.limits {
		if m.bit&limits == 0 {
			continue
		}
		var wait time.Duration
		if wait, turns[i] = m.wait(now, l.trip, 0, r.cost(m.name)); wait > 0 {
			m.held = now
			held |= m.bit
		}
	}
	if held != 0 {
		return 0, held
	}
	rec := record{Request: r, limits: limits}
	for i, m := range l.limits {
		if m.bit&limits != 0 {
			m.take(now, l.trip, l.sent.last+1, r.cost(m.name), turns[i])
			rec.first = rec.first || turns[i] != inTurn
		}
	}
	return l.sent.add(now, rec), 0
}

// Wait returns how long a request has to wait at now, with that line before it. A
// response may come before that and make it longer or shorter. A request must not
// wait longer without another look.
func (l *Ledger) Wait(now time.Duration, line iter.Seq[Request], r Request) (longest time.Duration) {
	l.forget(now)
	limits := l.Of(r)
	for _, m := range l.limits {
		if m.bit&limits != 0 {
			wait, _ := m.wait(now, l.trip, m.costOfLine(line), r.cost(m.name))
			longest = max(longest, wait)
		}
	}
	return longest
}

// costOfLine returns what the requests of a line cost.
func (m *limit) costOfLine(line iter.Seq[Request]) (units float64) {
	for r := range line {
		if known := r.cost(m.name); known > 0 {
			units += known
		} else {
			units += m.cost.mean
		}
	}
	return units
}

// Nobody is a line without requests.
func Nobody(func(Request) bool) {}

// Trip returns how long nearly every response takes, or 0 if there was none: the mean
// and four times the mean deviation (RFC 6298).
func (l *Ledger) Trip() time.Duration { return l.trip + 4*l.deviation }

// noteTrip notes how long a response took.
func (l *Ledger) noteTrip(trip time.Duration) {
	if l.trip == 0 {
		l.trip = trip
	}
	off := trip - l.trip
	l.trip += off / 8
	l.deviation += (max(off, -off) - l.deviation) / 4
}

// Latest returns the send time of the last request in flight that was sent at
// that time or before, or the time itself if there is none.
func (l *Ledger) Latest(sent time.Duration) time.Duration {
	if r := l.sent.latest(sent); r != nil {
		return r.at
	}
	return sent
}

// Settle ends the request in flight whose send time that is. used says whether
// the service may have counted it.
func (l *Ledger) Settle(sent time.Duration, used bool) {
	if r := l.sent.find(sent); r != nil {
		l.settle(r, used)
	}
}

func (l *Ledger) settle(r *record, used bool) {
	for _, m := range l.limits {
		if m.bit&r.limits != 0 {
			said := m.heardFrom == r.number
			// A response that names limits shows which the request did not take of.
			counted := used && (said || r.said == 0)
			m.settle(r.number, r.cost(m.name), counted, said)
		}
	}
	r.settled, r.Request = true, Request{}
	l.sent.trim()
}

// An Answer is what a response says of the limits.
type Answer struct {
	Limits     []Limit
	Throttled  bool
	Free       bool          // the service did not count the request
	RetryAfter time.Duration // when the next request may be sent; 0: not said
}

// Announce is what a response says at now whose request was sent at that time. A
// RetryAfter goes before the reset of a limit with nothing left. Announce reports
// whether a limit explains a throttling response.
func (l *Ledger) Announce(now, sent time.Duration, answer Answer) (explained bool) {
	r := l.sent.find(sent)
	number, first := 0, false
	if r != nil {
		number, first = r.number, r.first
		l.noteTrip(now - sent)
	}
	if l.keep && len(answer.Limits) > 0 && sent >= l.lastSent {
		l.lastCount = copy(l.last[:], answer.Limits)
		l.lastSent, l.lastHeard, l.throttled = sent, now, answer.Throttled
	}
	said := Set(0)
	for _, a := range answer.Limits {
		asked := false
		if answer.RetryAfter > 0 && (a.Remaining < 1 || answer.Throttled && a.Remaining < l.costOf(r, a)) {
			a.Reset, a.Refills, asked = answer.RetryAfter, false, true
		}
		m := l.learn(now, a, heard{
			at: now, sent: sent, number: number, first: first, trip: l.trip, requests: l.sent.last,
			throttled: answer.Throttled, free: answer.Throttled || answer.Free, asked: asked,
		})
		if m == nil {
			continue
		}
		said |= m.bit
		if answer.Throttled && m.remaining < m.cost.most && !m.tooShort(l.trip) && (sent < m.since || first && m.pauseNow(l.trip) >= firstPause) {
			explained = true
		}
	}
	if r != nil {
		r.said = said
		l.routes.note(r.Route, said, l.all())
	}
	l.dropSilent(now, sent, r, said, !answer.Throttled && !answer.Free)
	return explained
}

// costOf returns what a request takes of a limit that its response announces. r may
// be nil.
func (l *Ledger) costOf(r *record, a Limit) float64 {
	if r != nil {
		if c := r.cost(a.Name); c > 0 {
			return c
		}
	}
	if m := l.find(a); m != nil {
		return m.cost.mean
	}
	return 1
}

// learn is what a response says of one limit. It returns nil if that is not to be
// believed.
func (l *Ledger) learn(now time.Duration, a Limit, h heard) *limit {
	if !a.valid() {
		return nil
	}
	a.Quota, a.Remaining = min(a.Quota, mostUnits), min(a.Remaining, mostUnits)
	m := l.find(a)
	if m == nil {
		if m = l.add(now, a.Name); m == nil {
			return nil
		}
	}
	m.hear(a, h)
	return m
}

// Keep makes l keep what was announced last, for Said.
func (l *Ledger) Keep() { l.keep = true }

// Said returns the limits that a response to this process announced last, when
// its request was sent and when it came. There are none without Keep.
func (l *Ledger) Said() (limits []Limit, throttled bool, sent, heard time.Duration) {
	return slices.Clone(l.last[:l.lastCount]), l.throttled, l.lastSent, l.lastHeard
}

// Hear is what a response to another process of the same client said, that came
// at that time and whose request was sent at that time. It counts for a limit unless
// a response to a request of this process that was sent later has said more.
// Nothing is learned of costs and of the kind of a limit: that takes each of its
// responses.
func (l *Ledger) Hear(now, sent, came time.Duration, limits []Limit, throttled bool) {
	came = min(max(came, now-longestReset), now)
	sent = min(max(sent, came-longestReset), came)
	for _, a := range limits {
		if m := l.find(a); m == nil || sent > m.asOf && came > m.heard {
			l.learn(now, a, heard{at: came, sent: sent, trip: l.trip, throttled: throttled})
		}
	}
}

// State returns the limits at now, with what is in flight taken off.
func (l *Ledger) State(now time.Duration) []Limit {
	l.forget(now)
	var all []Limit
	for _, m := range l.limits {
		a := Limit{Name: m.name, Quota: m.quota, Remaining: max(m.left(now), 0), Reset: -1, Refills: m.flow.rate > 0}
		if m.window.ends {
			a.Reset = max(m.window.end-now, 0)
		}
		all = append(all, a)
	}
	return all
}

// Limits reports whether a limit is short, so that requests are spaced or wait.
func (l *Ledger) Limits(now time.Duration) bool {
	return slices.ContainsFunc(l.limits, func(m *limit) bool { return !m.free(now, m.room(now)) })
}
