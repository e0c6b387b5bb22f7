package announced

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/awsretry/internal/remaining"
)

// dropSilent drops the limits that apply to a request but that its response no longer
// announces: those past their end, and those for which the request was a probe and
// was served.
func (l *Ledger) dropSilent(now, sent time.Duration, r *record, said Set, served bool) {
	l.drop(func(m *limit) bool {
		silent := said&m.bit == 0 && (r == nil || (l.Of(r.Request)|l.routes.known[r.Route.exact].limits)&m.bit != 0)
		end := m.Heard + m.Length()
		if m.Window.Ends {
			end = m.Window.End
		}
		return silent && (min(sent, now) >= end || served && r != nil && m.Probe() == r.number)
	})
}

// forget drops stale limits, and stops waiting for requests that have been in flight
// for too long or are too many.
func (l *Ledger) forget(now time.Duration) {
	for r := l.sent.overdue(now); r != nil; r = l.sent.overdue(now) {
		l.settle(r, true)
	}
	l.drop(func(m *limit) bool { return m.stale(now) })
}

// learn updates a limit with an announcement, and adds the limit if it is new. It
// returns the limit's bit, or 0 if it ignores the announcement.
func (l *Ledger) learn(now time.Duration, a Limit, h heard) Set {
	if !a.Valid() {
		return 0
	}
	a.Quota, a.Remaining = min(a.Quota, mostUnits), min(a.Remaining, mostUnits)
	m := l.limitOf(a, h)
	if m == nil {
		if m = l.add(now, a); m == nil {
			return 0
		}
	}
	tells := a.Reset >= 0 || m.Window.Ends || h.retryAfter >= 3*remaining.Rounding(h.retryAfter) // otherwise it may be far off
	if h.retryAfter > 0 && tells && (a.Remaining < 1 || h.Throttled && a.Remaining < m.Cost(h.request.cost(a.Name))) {
		a.Reset, a.Refills, h.Asked = h.retryAfter, false, true
	}
	m.hear(a, h)
	return m.bit
}

// limitOf returns the limit that a response to a route announces, or nil if it is
// new: the one with its name that earlier responses to the route announced or, if there
// is none, that responses to others did. If more remains than that limit can have, as
// a response to another route left it, the route gets a limit of its own. If a response
// to the route itself did, the limit contradicts itself.
func (l *Ledger) limitOf(a Limit, h heard) *limit {
	if h.Number == 0 {
		return l.find(a, l.all())
	}
	known := l.routes.known[h.request.Route.exact].limits
	m := l.find(a, known)
	if m == nil && a.Name == "" && a.Quota > 0 { // its quota may have changed
		if m = l.find(Limit{}, known); m != nil && m.heardFrom == h.Number {
			m = nil
		}
	}
	turns := m != nil && m.takesTurns(a, h)
	switch {
	case turns && m.heardRoute == h.request.Route:
		return nil
	case m == nil:
		if m = l.find(a, l.all()&^known); m != nil && m.exceeded(a, h) && !l.routes.full() {
			return nil
		}
	case !turns && !m.exceeded(a, h) && !m.overdrawn(h.At):
	case m.heardRoute == h.request.Route:
		for _, o := range l.limits { // the service says the same of them
			if o.matches(a) {
				o.contradict(h.At)
			}
		}
	default:
		old := m
		if m = l.add(h.At, a); m != nil {
			m.CopyCost(&old.Limit)
			l.routes.replace(h.request.Route, old.bit, m.bit)
		}
	}
	return m
}

// find returns the limit of a set that a may announce, or nil. A limit without
// a name is identified by its quota.
func (l *Ledger) find(a Limit, of Set) *limit {
	for _, m := range l.limits {
		if m.bit&of != 0 && m.matches(a) {
			return m
		}
	}
	return nil
}

// add adds a new limit. If there are too many, it replaces the one that was announced
// least recently. It returns nil if the same response announced all of them, or if the
// name is too long.
func (l *Ledger) add(now time.Duration, a Limit) *limit {
	if len(a.Name) > maxName {
		return nil
	}
	if len(l.limits) == maxLimits {
		oldest := slices.MinFunc(l.limits, func(a, b *limit) int { return cmp.Compare(a.Heard, b.Heard) })
		if oldest.Heard == now { // in the same response
			return nil
		}
		l.drop(func(m *limit) bool { return m == oldest })
	}
	m := &limit{Limit: remaining.New(now, a, l.reserve), name: strings.Clone(a.Name)}
	m.turns = slices.ContainsFunc(l.limits, func(o *limit) bool { return o.turns && o.name == m.name })
	m.bit = ^l.all() & -^l.all() // the lowest that is free
	l.limits = append(l.limits, m)
	l.routes.changes++
	l.rename()
	return m
}

// count counts the requests in flight for the limits that apply to them now, if those
// may have changed.
func (l *Ledger) count() {
	if l.counted == l.routes.changes {
		return
	}
	l.counted = l.routes.changes
	for _, m := range l.limits {
		m.InFlight = remaining.Use{}
	}
	for i := range l.sent.list {
		r := &l.sent.list[i]
		if r.settled {
			continue
		}
		before := r.limits
		r.limits = l.Of(r.Request) & l.all()
		for _, m := range l.limits {
			if m.bit&r.limits == 0 {
				if m.bit&before != 0 {
					m.Drop(r.number)
				}
				continue
			}
			m.InFlight.Add(1, r.cost(m.name))
			if m.bit&before == 0 {
				m.AddSent(r.at, r.cost(m.name))
			}
		}
	}
}

// drop drops the limits for which gone returns true.
func (l *Ledger) drop(gone func(*limit) bool) {
	dropped := Set(0)
	l.limits = slices.DeleteFunc(l.limits, func(m *limit) bool {
		if !gone(m) {
			return false
		}
		dropped |= m.bit
		return true
	})
	if dropped == 0 {
		return
	}
	l.rename()
	l.routes.drop(dropped)
	l.count()
}

func (l *Ledger) rename() {
	names := make(map[string]bool)
	for _, m := range l.limits {
		names[m.name] = true
	}
	l.names = slices.Sorted(maps.Keys(names))
}

// all returns the set of all limits.
func (l *Ledger) all() (all Set) {
	for _, m := range l.limits {
		all |= m.bit
	}
	return all
}
