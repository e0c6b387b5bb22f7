package announced

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// dropSilent drops the limits that apply to a request but that its response no longer
// announces: those past their end, and those for which the request was a probe and
// was served.
func (l *Ledger) dropSilent(now, sent time.Duration, r *record, said Set, served bool) {
	l.drop(func(m *limit) bool {
		silent := said&m.bit == 0 && (r == nil || l.Of(r.Request)&m.bit != 0)
		over := sent >= m.until() && now >= m.until()
		return silent && (over || served && r != nil && m.first.number == r.number)
	})
}

// forget drops stale limits, and stops waiting for requests that have been in flight
// for too long or are too many.
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

// find returns the limit that a announces, or nil if it is new. A limit without
// a name is identified by its quota.
func (l *Ledger) find(a Limit) *limit {
	for _, m := range l.limits {
		if m.name == a.Name && (a.Name != "" || a.Quota == 0 || m.quota == 0 || m.quota == a.Quota) {
			return m
		}
	}
	return nil
}

// add adds a new limit, for which the requests in flight count. If there are too many
// limits, it replaces the one that was announced least recently. It returns nil if
// the same response announced all of them, or if the name is too long.
func (l *Ledger) add(now time.Duration, name string) *limit {
	if len(name) > maxName {
		return nil
	}
	if len(l.limits) == maxLimits {
		oldest := slices.MinFunc(l.limits, func(a, b *limit) int { return cmp.Compare(a.heard, b.heard) })
		if oldest.heard == now { // in the same response
			return nil
		}
		l.drop(func(m *limit) bool { return m == oldest })
	}
	m := &limit{name: strings.Clone(name), reserve: l.reserve, cost: newCost(), held: -never, heard: -1, since: now, bit: 1}
	for slices.ContainsFunc(l.limits, func(o *limit) bool { return o.bit == m.bit }) {
		m.bit <<= 1
	}
	for i := range l.sent.list {
		if r := &l.sent.list[i]; !r.settled {
			r.limits |= m.bit
			m.inFlight.add(r.cost(name))
		}
	}
	l.limits = append(l.limits, m)
	l.routes.add(m.bit)
	l.rename()
	return m
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
	for i := range l.sent.list {
		l.sent.list[i].limits &^= dropped
	}
}

func (l *Ledger) rename() {
	l.names = make([]string, len(l.limits))
	for i, m := range l.limits {
		l.names[i] = m.name
	}
}

// all returns the set of all limits.
func (l *Ledger) all() (all Set) {
	for _, m := range l.limits {
		all |= m.bit
	}
	return all
}
