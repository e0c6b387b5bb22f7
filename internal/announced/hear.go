package announced

import (
	"time"

	"example.com/awsretry/internal/limitheaders"
)

// longestReset limits resets. Longer ones are ignored.
const longestReset = limitheaders.LongestReset

// heard describes the response that carried an announcement.
type heard struct {
	at, sent  time.Duration // when the response came, and when its request was sent
	number    int           // of the request; 0 means that another process sent it
	request   Request
	first     bool // the request was a probe
	throttled bool
	free      bool          // the service did not count the request
	asked     bool          // the reset is a Retry-After
	trip      time.Duration // the mean response time
	spread    time.Duration // by how much response times differ
	requests  int           // the number of requests that this process has sent

	retryAfter time.Duration // 0 means unknown
}

// hear updates m with an announcement.
func (m *limit) hear(a Limit, h heard) {
	now, sent := h.at, h.sent
	served := sent + (now-sent)/2 // an estimate
	if ms := m.unit.milliseconds; !a.Refills && !h.asked && m.unit.measure(served, a.Reset) != ms {
		m.window.length = 0
	}
	if a.Reset = m.unit.of(a.Reset); a.Reset > longestReset {
		a.Reset = -1
	}
	if a.Quota > 0 {
		m.quota = a.Quota
	}
	m.cost.see(a.Remaining)
	m.spread = h.spread
	m.most = max(m.most, a.Remaining)
	if !a.Refills && !h.asked && !m.asked {
		m.window.check(now, served, a.Reset, max(m.size()-a.Remaining, 0))
	}
	m.asked = h.asked
	passed, begins, over := m.window.hear(now, served, a.Reset)
	if over {
		return
	}
	if begins || m.heard < 0 {
		m.start, m.own = a.Remaining+m.cost.mean, 0
		m.levels = levels{}
	}
	if h.number > 0 && !h.first && sent > m.begun && !m.unknown(now, h.trip) && m.crowd() == 0 {
		m.judge(now, h.throttled && a.Remaining < m.cost.mean)
	}
	if h.first && !(passed && m.first.turn == early) {
		m.adaptPause(h.trip, a, h.throttled)
	}
	if h.throttled && !h.first && m.window.passed && m.mine() {
		m.refused = true
	}

	// After an unexpected change, probe again soon.
	rise := a.Remaining - m.estimate(now, 0)
	if up, down := max(m.size()/8, 2*m.cost.mean), m.size()/2+m.inFlight.units(m.cost.mean); m.heard >= 0 &&
		(rise > up && !passed || -rise > down) {
		m.pause = min(m.pauseNow(h.trip), max(firstPause, h.trip))
	}

	// Responses come out of order, so a higher value counts only if it is newer.
	if m.heard < 0 || begins || sent >= m.asOf || rise < 0 {
		m.cost.guess(min((min(m.most, m.size())-a.Remaining)/float64(max(h.requests, 1)), a.Remaining/2), h.requests)
		if a.Remaining < 1 && (m.heard < 0 || m.remaining >= 1 || begins) {
			m.first.at = now
		}
		m.remaining, m.asOf, m.over = a.Remaining, now, h.throttled
		m.levels.note(now, h.trip, a.Remaining)
	}

	p := point{number: h.number, at: served, end: m.window.lasts(served, a.Reset), remaining: a.Remaining}
	m.flow.hear(m, p, a, h)
	if !h.free {
		m.cost.hear(h.number, a.Remaining)
	}
	m.heard, m.heardFrom = now, h.number
	if h.number > 0 {
		m.heardRoute = h.request.Route
	}
}

// A window is the time up to a reset.
type window struct {
	ends   bool          // a reset was announced
	end    time.Duration // when the quota is whole again
	off    time.Duration // by how much end may be wrong
	length time.Duration // the longest reset that was announced
	passed bool          // at least one end has passed

	// See check.
	doubtful bool          // the end does not tell when units come back
	stands   time.Duration // since when the end has not been postponed
	fills    [2]float64    // how many units a bucket that is full at the end gets per second: at least and at most
}

// check compares a reset with the end. The end of a window stands still until it has
// passed, and that of a bucket is later by what was taken meanwhile. A reset that does
// neither, such as one that is the same in each response, makes the end doubtful until
// it has stood still for some time.
func (w *window) check(now, served, reset time.Duration, missing float64) {
	if reset <= 0 {
		return
	}
	off := rounding(reset)
	fills := [2]float64{missing / (reset + off).Seconds(), (missing + 1) / max(reset-off, time.Millisecond).Seconds()}
	if rounded := min(max(w.length, reset)/5, off); w.ends && now < w.end-w.rounded() && served+reset-w.end > 5*rounded/2 {
		w.doubtful = w.doubtful || w.fills[0] > fills[1] || w.fills[1] < fills[0]
		w.stands = served
	} else if served-w.stands >= 4*off {
		w.doubtful = false
	}
	w.fills = fills
}

// rounded returns off, at most a fifth of the length.
func (w *window) rounded() time.Duration { return min(w.length/5, w.off) }

// hear updates w with a reset. passed reports whether the previous end has passed,
// begins whether the response is the first in a new window, and over whether it
// belongs to a window that is over.
func (w *window) hear(now, served, reset time.Duration) (passed, begins, over bool) {
	passed = w.ends && now >= w.end-w.rounded()
	if reset < 0 {
		w.ends = false
		return passed, false, false
	}
	off := rounding(reset)
	if reset == 0 { // less than a second
		reset = off / 2
	}
	end := served + reset
	if w.ends && end < w.end && end+min(w.length/5, off) < now {
		return passed, false, true
	}
	w.length, w.passed = max(w.length, reset, off), w.passed || passed
	rounded := min(w.length/5, off)
	near := w.ends && max(end-w.end, w.end-end) <= 5*rounded/2 // both times are rounded
	begins = passed && !near && end > w.end
	if near && now < w.end {
		end = min(w.end, end)
	}
	w.ends, w.end, w.off = true, end, off
	return passed, begins, false
}

// rounding returns by how much a reset may have been rounded.
func rounding(reset time.Duration) time.Duration {
	if reset%time.Second != 0 {
		return 50 * time.Millisecond
	}
	return time.Second
}

// lasts returns until when the window certainly lasts, by a response that was served
// at served with that reset.
func (w *window) lasts(served, reset time.Duration) time.Duration {
	if !w.ends {
		return never
	}
	return served + reset - w.rounded()
}
