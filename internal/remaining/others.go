package remaining

import "math"

const (
	// leastOthers and mostOthers are how much other clients use, of what this process
	// does, if it uses most of a limit and they use some of it. With more, processes
	// of equal rights would be taken for others, and the first one would stay first.
	leastOthers = .03
	mostOthers  = .45
	windows     = 3 // over which that is measured
)

// noteOthers notes what other clients and this process used in n windows.
func (m *Limit) noteOthers(others, own, n float64) {
	m.noted = min(m.noted+n, windows)
	m.share += (min(max(others, 0)/max(own, 1), 1) - m.share) * n / max(m.noted, 1)
}

// minor reports whether other clients use a small part of the limit, so that they take
// what this process saves for later. That shows only if each request costs one unit.
func (m *Limit) minor() bool {
	return m.Window.Ends && m.cost.mean == 1 && m.noted == windows && m.share > leastOthers && m.share < mostOthers
}

// alone reports whether the missing units are about those that this process sent
// within the last window.
func (m *Limit) alone() bool { return math.Abs(m.others()) <= m.few() }

// others returns how many units are missing beyond those that this process sent
// within the last window.
func (m *Limit) others() float64 {
	return m.Size() - m.remaining - m.sends.since(m.AsOf-m.Window.Length)
}

// mine reports whether this process certainly used all of the missing units.
func (m *Limit) mine() bool { return m.others() < 1 && !m.crowded() }

// crowded reports whether other clients have used more than a few units since the
// window began. The requests in flight may have been counted.
func (m *Limit) crowded() bool {
	others := m.start - m.remaining - m.own - m.InFlight
	if m.flow.rate > 0 {
		others = m.others()
	}
	return m.Window.Ends && others > m.few()
}

// few returns how many units are about none, compared to the quota.
func (m *Limit) few() float64 { return max(m.Size()/slotsPerQuota, 1) }
