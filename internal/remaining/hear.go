package remaining

import (
	"cmp"
	"time"

	"example.com/awsretry/internal/limitheaders"
)

// A Response is what Hear needs to know of the response that announces a limit.
type Response struct {
	At, Sent  time.Duration // when the response came, and when its request was sent
	Number    int           // of the request; 0 means that another process sent it
	Probe     bool          // the request was one for this limit
	AnyProbe  bool          // or for another
	Throttled bool          // probably, unless Free is set
	Free      bool          // the service did not count the request
	Asked     bool          // the reset is a Retry-After
	Doubtful  bool          // the resets do not tell when units come back
	Trip      time.Duration // the mean response time
	Spread    time.Duration // by how much response times differ
	Requests  int           // the number of requests that this process has sent
}

// Hear updates m with an announcement, whose reset is negative if there is none. It
// ignores an announcement of a window that is over, and returns false.
func (m *Limit) Hear(a limitheaders.Limit, r Response) bool {
	now := r.At
	served := r.Sent + (now-r.Sent)/2 // an estimate
	m.cost.see(a.Remaining)
	m.most = max(m.most, a.Remaining)
	m.asked, m.doubtful, m.refills = r.Asked, r.Doubtful, m.refills || a.Refills
	passed, begins, over := m.Window.hear(now, served, a.Reset)
	if over {
		return false
	}
	first := begins || m.Heard < 0
	m.Quota = cmp.Or(a.Quota, m.Quota)
	if first {
		m.start, m.starts, m.own = a.Remaining, r.Number, Use{}
		if whole := m.Size() - m.cost.mean; whole <= a.Remaining+m.cost.rounding() {
			m.start = max(a.Remaining, whole)
		}
		m.levels, m.foreign = [2]level{}, 0
		m.spreads = [2]time.Duration{0, m.spreads[0]}
	}
	m.spreads[0] = max(m.spreads[0], r.Spread)
	left := m.unrounded(a.Remaining, r)
	if r.Number > 0 && !r.AnyProbe && r.Sent > m.unsure && !m.unknown(now, r.Trip) && !m.crowded() {
		m.Surprises -= m.Surprises / 16
		if r.Throttled && r.Free && a.Remaining < m.cost.mean && !m.cost.guessed() {
			m.Surprises += 1. / 16
		}
	}
	if r.Probe && !(passed && m.probe.turn == early) {
		m.adaptPause(r.Trip, a, r.Throttled)
	}
	if r.Throttled && r.Free && !r.AnyProbe && m.Window.Passed && m.mine() {
		m.refused = true
	}

	// After an unexpected change, probe again soon.
	rise := left - m.estimate(now, 0)
	if m.Heard >= 0 && (rise > max(m.Size()/8, 2*m.cost.mean) && !passed || -rise > m.Size()/2+m.units(m.InFlight)) {
		m.pause = min(m.pauseNow(r.Trip), max(firstPause, r.Trip))
	}

	// Responses come out of order, so a higher value counts only if it is newer.
	if first || r.Sent >= m.AsOf || rise < 0 {
		m.cost.guess(min((min(m.most, m.Size())-a.Remaining)/float64(max(r.Requests, 1)), a.Remaining/2), r.Requests)
		if left < 1 && (first || m.remaining >= 1) {
			m.probe.at = now
		}
		m.remaining, m.AsOf = left, now
		if m.levels[0].at == 0 || now-m.levels[0].at >= r.Trip {
			m.levels = [2]level{{now, a.Remaining}, m.levels[0]}
		}
	}

	m.flow.hear(m, served, a, r)
	if !r.Free {
		m.cost.hear(r.Number, a.Remaining)
	}
	m.Heard = now
	return true
}

// A Window is the time up to a reset.
type Window struct {
	Ends   bool          // a reset was announced
	End    time.Duration // when the quota is whole again
	Off    time.Duration // by how much End may be wrong
	Length time.Duration // the longest reset that was announced
	Passed bool          // at least one end has passed
}

// Rounded returns Off, at most a fifth of the length.
func (w *Window) Rounded() time.Duration { return min(w.Length/5, w.Off) }

// hear updates w with a reset. passed reports whether the previous end has passed,
// begins whether the response is the first in a new window, and over whether it
// belongs to a window that is over.
func (w *Window) hear(now, served, reset time.Duration) (passed, begins, over bool) {
	passed = w.Ends && now >= w.End-w.Rounded()
	if reset < 0 {
		w.Ends = false
		return passed, false, false
	}
	off := Rounding(reset)
	if reset == 0 { // less than a second
		reset = off / 2
	}
	end := served + reset
	if w.Ends && end < w.End && end+min(w.Length/5, off) < now {
		return passed, false, true
	}
	w.Length, w.Passed = max(w.Length, reset, off), w.Passed || passed
	rounded := min(w.Length/5, off)
	near := w.Ends && max(end-w.End, w.End-end) <= 5*rounded/2 // both times are rounded
	begins = passed && !near && end > w.End
	if near && now < w.End {
		end = min(w.End, end)
	}
	w.Ends, w.End, w.Off = true, end, off
	return passed, begins, false
}

// Rounding returns by how much a reset may have been rounded.
func Rounding(reset time.Duration) time.Duration {
	if reset%time.Second != 0 {
		return 50 * time.Millisecond
	}
	return time.Second
}
