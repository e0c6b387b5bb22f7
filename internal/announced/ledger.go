// Package announced decides when a request may be sent to a service that says in
// its responses how much is left of its limits.
package announced

import (
	"cmp"
	"slices"
	"strings"
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

	// probePatience is how long other requests wait for the outcome of one that
	// goes first. Then another one goes first.
	probePatience = 10 * time.Second
)

// A Ledger is what is left of the limits of one service. Its times are on the
// clock of its caller, who also guards it: it is not safe for concurrent use.
type Ledger struct {
	reserve float64 // the part of each quota that is left to others
	limits  []*limit
	names   []string // of limits; replaced when they change
	sent    records
	probe   int           // number of the last request that went first; 0 once it has a response
	probed  time.Duration // when it was sent
	plain   bool          // a response that was not throttled announced nothing

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
func New(reserve float64) *Ledger { return &Ledger{reserve: reserve, sent: records{newest: -1}} }

// Costs are what a request takes of the limits of that name, as far as its
// sender knows. A cost that is not above 0 is learned.
type Costs struct {
	Names  []string
	Values [maxLimits]float64
}

// of returns the cost of that name, or 0 if it is learned.
func (c *Costs) of(name string) float64 {
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

// Take takes what a request costs if all limits have room for it at now, and
// reports whether they have. The request counts as in flight until Settle. sent
// is its send time, which no other request has.
func (l *Ledger) Take(now time.Duration, costs *Costs) (sent time.Duration, ok bool) {
	wait, probe := l.wait(now, costs)
	if wait > 0 {
		return 0, false
	}
	r := l.sent.add(now, costs)
	for _, m := range l.limits {
		m.take(now, costs.of(m.name))
	}
	if probe {
		l.probe, l.probed = r.number, now
	}
	return r.at, true
}

// Wait returns how long a request has to wait at now as far as is known. It is 0
// if Take would succeed. A response may come before that and make it longer or
// shorter. A request must not wait longer without another look.
func (l *Ledger) Wait(now time.Duration, costs *Costs) time.Duration {
	wait, _ := l.wait(now, costs)
	return wait
}

// wait is Wait. It also reports whether the request would go first.
func (l *Ledger) wait(now time.Duration, costs *Costs) (longest time.Duration, probe bool) {
	l.forget(now)
	for _, m := range l.limits {
		wait, first := m.wait(now, costs.of(m.name))
		longest, probe = max(longest, wait), probe || first
	}
	if probe && l.probe != 0 && l.sent.inFlight(l.probe) {
		longest = max(longest, l.probed+probePatience-now)
	}
	if len(l.sent.list) > 0 { // one of them may hang
		longest = min(longest, hangTime)
	}
	return longest, probe
}

// Expected returns how long a request that comes at now, with that many in line
// before it, is expected to wait.
func (l *Ledger) Expected(now time.Duration, line int, costs *Costs) time.Duration {
	l.forget(now)
	longest := time.Duration(0)
	for _, m := range l.limits {
		longest = max(longest, m.expected(now, float64(line)*m.cost.mean, costs.of(m.name)))
	}
	return longest
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
		m.settle(r.costs.of(m.name), used && m.heardFrom != r.number)
	}
	r.settled, r.costs = true, nil
	l.sent.trim()
}

// Announce is what a response says at now whose request was sent at that time.
// It reports whether a limit that is known to be true explains a throttling
// response.
func (l *Ledger) Announce(now, sent time.Duration, limits []Limit, throttled bool) (explained bool) {
	r := l.sent.find(sent)
	number := 0
	if r != nil {
		number = r.number
	}
	if number == l.probe {
		l.probe = 0
	}
	if l.keep && len(limits) > 0 && sent >= l.lastSent {
		l.lastCount = copy(l.last[:], limits)
		l.lastSent, l.lastHeard, l.throttled = sent, now, throttled
	}
	for _, a := range limits {
		m := l.learn(now, now, sent, number, max(l.sent.last, 1), a, throttled)
		if m == nil {
			continue
		}
		if throttled && m.trusted() && m.remaining < m.cost.most && (m.onSuccess || !l.plain) {
			explained = true
		}
	}
	l.dropSilent(now, sent, limits)
	l.plain = l.plain || !throttled && len(limits) == 0
	return explained
}

// learn is what one limit of a response that came at heard says. It returns nil if
// that is not to be believed.
func (l *Ledger) learn(now, heard, sent time.Duration, number, requests int, a Limit, throttled bool) *limit {
	if !a.valid() {
		return nil
	}
	a.Quota, a.Remaining = min(a.Quota, mostUnits), min(a.Remaining, mostUnits)
	m := l.find(a.Name)
	if m == nil {
		if m = l.add(now, a.Name); m == nil {
			return nil
		}
	}
	m.requests = requests
	m.hear(heard, sent, number, a, throttled)
	return m
}

// Keep makes l keep what was announced last, for Said.
func (l *Ledger) Keep() { l.keep = true }

// Said returns the limits that a response to this process announced last, when
// its request was sent and when it came. There are none without Keep.
func (l *Ledger) Said() (limits []Limit, throttled bool, sent, heard time.Duration) {
	return slices.Clone(l.last[:l.lastCount]), l.throttled, l.lastSent, l.lastHeard
}

// Hear is what a response to another process of the same client said, which came
// at heard and whose request was sent at that time. It counts for a limit unless
// a response to a request of this process that was sent later has said more.
// Nothing is learned of costs and of the kind of a limit: that takes each of its
// responses.
func (l *Ledger) Hear(now, sent, heard time.Duration, limits []Limit, throttled bool) {
	for _, a := range limits {
		m := l.find(a.Name)
		if m != nil && m.known && (sent <= m.toldBy || heard <= m.heard) {
			continue
		}
		var before limit
		if m != nil {
			before = *m
		}
		if m = l.learn(now, heard, sent, 0, 0, a, throttled); m != nil && before.known {
			m.evidence, m.flows, m.pause, m.from = before.evidence, before.flows, before.pause, before.from
			m.lies, m.lied, m.barren, m.mistrusted = before.lies, before.lied, before.barren, before.mistrusted
		}
	}
}

// dropSilent forgets the limits that a response does not say any more,
// after their end.
func (l *Ledger) dropSilent(now, sent time.Duration, limits []Limit) {
	l.drop(func(m *limit) bool {
		said := slices.ContainsFunc(limits, func(a Limit) bool { return a.Name == m.name })
		return !said && sent >= m.until() && now >= m.until()
	})
}

// forget forgets the limits that nobody has heard of for long, and does not wait
// any more for requests that have been in flight for long or are too many.
func (l *Ledger) forget(now time.Duration) {
	for r := l.sent.overdue(now); r != nil; r = l.sent.overdue(now) {
		l.settle(r, true)
	}
	for _, m := range l.limits {
		if m.stale(now) {
			l.drop(func(m *limit) bool { return m.stale(now) })
			return
		}
	}
}

func (l *Ledger) find(name string) *limit {
	for _, m := range l.limits {
		if m.name == name {
			return m
		}
	}
	return nil
}

// add adds a limit that nothing is known of, or returns nil. If there are too
// many, it replaces the one that was not heard of for longest. Requests in flight
// count for it.
func (l *Ledger) add(now time.Duration, name string) *limit {
	if len(name) > maxName {
		return nil
	}
	if len(l.limits) == maxLimits {
		oldest := slices.MinFunc(l.limits, func(a, b *limit) int { return cmp.Compare(a.heard, b.heard) })
		if oldest.heard == now { // of the same response
			return nil
		}
		l.drop(func(m *limit) bool { return m == oldest })
	}
	m := &limit{name: strings.Clone(name), reserve: l.reserve, cost: newCost()}
	for _, r := range l.sent.list {
		if !r.settled {
			m.count(r.costs.of(name))
		}
	}
	l.limits = append(l.limits, m)
	l.rename()
	return m
}

// drop drops the limits for which gone returns true.
func (l *Ledger) drop(gone func(*limit) bool) {
	before := len(l.limits)
	if l.limits = slices.DeleteFunc(l.limits, gone); len(l.limits) < before {
		l.rename()
	}
}

func (l *Ledger) rename() {
	l.names = make([]string, len(l.limits))
	for i, m := range l.limits {
		l.names[i] = m.name
	}
}

// State returns the limits at now, with what is in flight taken off.
func (l *Ledger) State(now time.Duration) []Limit {
	l.forget(now)
	var all []Limit
	for _, m := range l.limits {
		left := max(m.estimate(now)-m.inFlight(), 0)
		a := Limit{Name: m.name, Quota: m.quota, Remaining: left, Reset: -1, Refills: m.refills}
		if m.ends {
			a.Reset = max(m.end-now, 0)
		}
		all = append(all, a)
	}
	return all
}

// Limits reports whether a limit is short, so that requests are spaced or wait.
func (l *Ledger) Limits(now time.Duration) bool {
	return slices.ContainsFunc(l.limits, func(m *limit) bool { return !m.ample(now, m.room(now)) })
}
