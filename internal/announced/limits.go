package announced

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// dropSilent drops the limits that apply to a request but that its response no longer
// announces: those past their end, and those for which the request was a probe and
// was served.
func (l *Ledger) dropSilent(now, sent time.Duration, r *record, said Set, served bool) {
	l.drop(func(m *limit) bool {
		silent := said&m.bit == 0 && (r == nil || (l.Of(r.Request)|l.routes.known(r.Route))&m.bit != 0)
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

// learn updates a limit with an announcement, and adds the limit if it is new. It
// returns the limit's bit, or 0 if it ignores the announcement.
func (l *Ledger) learn(now time.Duration, a Limit, h heard) Set {
	if !a.Valid() {
		return 0
	}
	a.Quota, a.Remaining = min(a.Quota, mostUnits), min(a.Remaining, mostUnits)
	m := l.limitOf(a, h)
	if m == nil {
		if m = l.add(now, a, h.route); m == nil {
			return 0
		}
	}
	m.hear(a, h)
	return m.bit
}

// limitOf returns the limit that a response to a route announces, or nil if it is
// new. Names do not tell whether two routes have the same limit, but what remains
// does: within a window, what remains for a route never rises, and it falls by more
// than the route took only if others take from it, too.
func (l *Ledger) limitOf(a Limit, h heard) *limit {
	known := l.routes.known(h.route)
	if h.number == 0 || known == 0 && l.routes.full() {
		return l.find(a, l.all())
	}
	m := l.find(a, known)
	if m == nil && a.Name == "" && a.Quota > 0 { // its quota may have changed
		if m = l.find(Limit{}, known); m != nil && m.heardFrom == h.number {
			m = nil
		}
	}
	switch {
	case m == nil:
	case !m.exceeded(a, h):
		if a.Remaining >= m.least() {
			return m
		}
	case m.heardRoute == h.route || l.routes.count(m.bit) <= 1:
		m.contradict(h.at)
		return m
	default: // the limit is another route's
		old := m
		if i := slices.IndexFunc(l.limits, func(o *limit) bool { return o != old && l.fits(nil, o, a, h) }); i >= 0 {
			m = l.limits[i]
		} else if m = l.add(h.at, a, h.route); m != nil {
			m.cost = old.cost
		}
		if m != nil {
			l.move(h.route, old.bit, m)
		}
		return m
	}
	for _, o := range l.limits {
		if m == nil && o.matches(a) && l.routes.count(o.bit) == 0 { // another process heard of it
			l.move(h.route, 0, o)
			return o
		}
		if o == m || m != nil && o.since > m.since || !l.fits(m, o, a, h) {
			continue
		}
		if m == nil {
			if a.Quota > 0 && a.Remaining >= a.Quota-o.cost.mean*float64(l.sent.count(h.route)) {
				continue
			}
			l.move(h.route, 0, o)
			return o
		}
		l.merge(m, o)
		return o
	}
	return m
}

// fits reports whether o may be the limit that a announces to a route of m, or to
// a route whose limit is not known if m is nil.
func (l *Ledger) fits(m, o *limit, a Limit, h heard) bool {
	return o.matches(a) && !o.exceeded(a, h) && a.Remaining >= o.least()-l.taken(m, o, h)
}

// taken returns how much of what o's last response did not know m's routes took.
func (l *Ledger) taken(m, o *limit, h heard) float64 {
	if m == nil {
		return o.cost.mean
	}
	return m.sends.since(o.asOf-2*h.trip) + m.cost.mean
}

// exceeded reports whether more remains than the limit can have, as of the last
// responses that came before the request was sent. What this process took one window
// ago may be back.
func (m *limit) exceeded(a Limit, h heard) bool {
	most, at, ok := m.levels.before(h.sent)
	w := &m.window
	if w.ends && m.sends.since(h.at-w.length)-m.inFlight.units(m.cost.mean) > 2.25*m.size()+m.cost.mean {
		return true
	}
	if !ok || !w.ends || h.at >= w.end-w.off-h.trip {
		return false
	}
	if m.heardRoute == h.route {
		most += 4 * m.size() / w.length.Seconds() * (h.at - at).Seconds()
		most += m.sends.since(at-h.trip-w.length) - m.sends.since(h.at-w.length)
	} else { // to take two routes' limit for two does less harm
		most += max(m.flow.rate, 0) * (h.at - at).Seconds()
	}
	left := a.Remaining
	if !h.free {
		left += m.cost.mean
	}
	return left > most+m.size()/16
}

// least returns the least that may remain if only this process takes from the limit.
func (m *limit) least() float64 {
	return m.remaining - m.inFlight.units(m.cost.mean)
}

// matches reports whether m has the name of a and, without a name, the quota.
func (m *limit) matches(a Limit) bool {
	return m.name == a.Name && (a.Name != "" || a.Quota == 0 || m.quota == 0 || m.quota == a.Quota)
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

// add adds a new limit of a route, for which the route's requests in flight count. If
// there are too many limits, it replaces the one that was announced least recently. It
// returns nil if the same response announced all of them, or if the name is too long.
func (l *Ledger) add(now time.Duration, a Limit, route Route) *limit {
	if len(a.Name) > maxName {
		return nil
	}
	if len(l.limits) == maxLimits {
		oldest := slices.MinFunc(l.limits, func(a, b *limit) int { return cmp.Compare(a.heard, b.heard) })
		if oldest.heard == now { // in the same response
			return nil
		}
		l.drop(func(m *limit) bool { return m == oldest })
	}
	l.added++
	m := &limit{name: strings.Clone(a.Name), reserve: l.reserve, cost: newCost(), held: -never, heard: -1, since: l.added, bit: 1}
	m.begun, m.quota, m.most = now, a.Quota, a.Remaining
	for slices.ContainsFunc(l.limits, func(o *limit) bool { return o.bit == m.bit }) {
		m.bit <<= 1
	}
	for i := range l.sent.list {
		l.sent.list[i].limits &^= m.bit
	}
	l.limits = append(l.limits, m)
	l.move(route, 0, m)
	l.rename()
	return m
}

// move makes m a limit of the requests of a route and of those whose limits are not
// known, instead of the one with the bit old, or 0.
func (l *Ledger) move(route Route, old Set, m *limit) {
	for _, o := range l.limits {
		for i := range l.sent.list {
			r := &l.sent.list[i]
			if r.Route != route && l.routes.known(r.Route) != 0 || r.settled {
				continue
			}
			if o.bit == old && r.limits&old != 0 {
				o.inFlight.remove(r.cost(o.name))
				r.limits &^= old
			}
			if o == m && r.limits&m.bit == 0 {
				m.inFlight.add(r.cost(m.name))
				m.sends.add(r.at, max(r.cost(m.name), 1), m.size())
				r.limits |= m.bit
			}
		}
	}
	if old != 0 {
		l.routes.replace(route, old, m.bit)
	}
}

// merge makes o the limit of all routes of m, and drops m.
func (l *Ledger) merge(m, o *limit) {
	for i := range l.sent.list {
		r := &l.sent.list[i]
		if r.limits&m.bit == 0 {
			continue
		}
		r.limits &^= m.bit
		if !r.settled && r.limits&o.bit == 0 {
			o.inFlight.add(r.cost(o.name))
			r.limits |= o.bit
		}
	}
	for route := range l.routes.limits {
		l.routes.replace(Route{exact: route}, m.bit, o.bit)
	}
	l.drop(func(x *limit) bool { return x == m })
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
