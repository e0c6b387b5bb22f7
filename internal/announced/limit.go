package announced

import (
	"cmp"
	"time"

	"example.com/awsretry/internal/remaining"
)

// mostSurprises is the share of requests in their turn that a limit may refuse before
// it is left to the pacing.
const mostSurprises = .15

// A limit is one of a Ledger's limits.
type limit struct {
	remaining.Limit

	name       string
	bit        Set   // unique among the limits
	heardFrom  int   // the number of the request whose response announced it last
	heardRoute Route // of the last such request of this process
	heardFree  bool  // the service did not count it
	resets     resets
	was        float64       // the quota before it changed
	changed    time.Duration // when the request was sent whose response changed it
	turns      bool          // it is one of several with its name; see takesTurns
	doubts     int           // how often the limit contradicted itself
}

// heard describes the response that carried an announcement.
type heard struct {
	remaining.Response
	request    Request
	probed     Set           // the limits for which it was a probe
	retryAfter time.Duration // 0 means unknown
}

// hear updates m with an announcement.
func (m *limit) hear(a Limit, h heard) {
	a.Reset = m.resets.read(&m.Window, a, h, max(cmp.Or(a.Quota, m.Size())-a.Remaining, 0))
	h.Doubtful, h.Probe = m.resets.doubtful, h.probed&m.bit != 0
	if !m.Hear(a, h.Response) {
		return
	}
	if m.Surprises > mostSurprises {
		m.contradict(h.At)
		m.Surprises = 0
	}
	if m.heardFrom = h.Number; h.Number > 0 {
		m.heardRoute, m.heardFree = h.request.Route, h.Free
	}
}

// contradict leaves the limit to the pacing for two windows, and each time for twice
// as many.
func (m *limit) contradict(now time.Duration) {
	if now >= m.Doubted {
		m.doubts = min(m.doubts+1, 6)
	}
	m.Doubted = now + m.Length()<<m.doubts
}

// matches reports whether m has the name of a and, without a name, the quota.
func (m *limit) matches(a Limit) bool {
	switch {
	case m.name != a.Name:
		return false
	case m.turns:
		return a.Quota == 0 || m.Quota == a.Quota
	}
	return a.Name != "" || a.Quota == 0 || m.Quota == 0 || m.Quota == a.Quota
}

// takesTurns notes a change of the quota. It reports whether m and the limit that a
// announces are two, of which each response announces one: the quota changes back.
func (m *limit) takesTurns(a Limit, h heard) bool {
	since := h.Sent - m.changed
	if a.Quota <= 0 || a.Quota == m.Quota || since < h.Trip { // or responses are out of order
		return false
	}
	m.turns = a.Quota == m.was && since < 2*m.Length()
	m.was, m.changed = m.Quota, h.Sent
	return m.turns
}

// exceeded reports whether more remains than the limit can have, as of the last
// responses that came before the request was sent. What this process took one window
// ago may be back.
func (m *limit) exceeded(a Limit, h heard) bool {
	most, at, ok := m.Level(h.Sent)
	w, same := &m.Window, m.heardRoute == h.request.Route
	short := w.Passed && w.Length < 3*w.Off // too short to compare
	if !same && (short || m.other(a, h)) {
		return true
	}
	if !ok || !w.Ends || h.At >= w.End-w.Off-h.Trip {
		return false
	}
	if same {
		most += 4 * m.Size() / w.Length.Seconds() * (h.At - at).Seconds()
		most += m.Sent(at-h.Trip-w.Length) - m.Sent(h.At-w.Length)
	} else { // to take two routes' limit for two does less harm
		most += m.Rate() * (h.At - at).Seconds()
	}
	left := a.Remaining
	if !h.Free {
		left += m.Cost(0)
	}
	return left > most+m.Size()/16
}

// other reports whether a is another limit of the same size: two requests in flight
// together both took the same unit. Of many, one may have come back in between.
func (m *limit) other(a Limit, h heard) bool {
	last, at, ok := m.Level(h.At)
	return ok && at > h.Sent && last == a.Remaining && !h.Free && !m.heardFree &&
		m.Window.Ends && h.Sent+a.Reset <= m.Window.End+m.Window.Off && m.Size() < 16*m.Cost(0)
}

// overdrawn reports whether more was served in a window than the limit can have, even
// if each request whose cost is learned took one unit.
func (m *limit) overdrawn(now time.Duration) bool {
	served := m.SentAtLeast(now-m.Window.Length) - m.InFlight.Units(1)
	return m.Window.Ends && served > 2.25*m.Size()+m.Cost(0)
}

// stale reports whether the limit has not been announced for so long that it may no
// longer exist.
func (m *limit) stale(now time.Duration) bool {
	return now > max(m.Window.End, m.Heard)+max(2*m.Window.Length, forgetTime)
}
