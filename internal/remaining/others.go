package remaining

// others returns how many units are missing beyond those that this process sent
// within the last window.
func (m *Limit) others() float64 {
	return m.Size() - m.remaining - m.Sent(m.AsOf-m.Window.Length)
}

// mine reports whether this process certainly used all of the missing units.
func (m *Limit) mine() bool { return m.others() < 1 && !m.crowded() }

// crowded reports whether others used more than a few units since the window began,
// even if all requests in flight were counted.
func (m *Limit) crowded() bool {
	return m.Window.Ends && m.start-m.remaining-m.units(m.own)-m.units(m.InFlight) > m.few()
}

// few returns how many units are about none, compared to the quota.
func (m *Limit) few() float64 { return max(m.Size()/slotsPerQuota, 1) }

// unrounded returns what nobody is known to have used, if left may be that, rounded, or left.
func (m *Limit) unrounded(left float64, r Response) float64 {
	rounding := m.cost.rounding()
	if rounding == 0 || r.Throttled || m.refills || !m.Window.Ends { // of a bucket, it says nothing
		return left
	}
	unused := max(m.start-m.units(m.own), m.Size()-m.Sent(r.Sent-m.cycle())+m.units(m.InFlight))
	if !r.Free {
		unused -= m.cost.mean
	}
	if unused -= m.foreign; unused < left-rounding/2 || unused > left+rounding {
		m.foreign += max(unused-m.units(m.InFlight)-left-rounding, 0) / 2 // responses may be out of order
		return left
	}
	return unused
}

// hidden returns how much less may remain, as values are rounded and others used some.
func (m *Limit) hidden() float64 {
	rounding := m.cost.rounding()
	if rounding == 0 || m.refills {
		return rounding / 2
	}
	return min(rounding/2, max(m.others(), 0))
}
