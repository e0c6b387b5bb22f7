package remaining

import (
	"cmp"
	"math"
	"time"

	"example.com/awsretry/internal/limitheaders"
)

const (
	// ampleShare is the fraction of a quota above which requests are not spaced.
	ampleShare = 1.0 / 3

	// flowShare is the fraction of the flow that is used if others take some. With more,
	// processes that share a quota do not converge to equal rates; with less, others take it.
	flowShare = 0.97

	// firstPause is the pause before a probe without a reset, or after a contradiction.
	firstPause = time.Second

	// minPause is the shortest pause, so that the pacing hears of something accepted.
	minPause = 8 * time.Millisecond

	// maxPause is the longest pause, or the reset if longer. It is also the first one with
	// a reserve, or if the reset is not longer.
	maxPause = 30 * time.Second

	// unpunctual is by how much later than expected a window may end, or a request arrive.
	unpunctual = 10 * time.Millisecond

	// longestSpace is the longest space between two requests for which there is room.
	longestSpace = 5 * time.Second
)

// A probe is a request that goes first, to show whether there is room for others.
type probe struct {
	number int           // of the request; 0 if its response has come
	at     time.Duration // when it was sent, or when the limit last ran out
	turn   Turn
}

// A Turn is the reason for which a request may be sent.
type Turn int

const (
	InTurn  Turn = iota
	atEnd        // a probe after the end of a window
	early        // a probe before its turn
	against      // a probe although nothing remains
)

// Wait returns how long a request has to wait if the requests before it in line cost
// ahead, and why it may be sent then. known is its cost, or 0 if unknown.
func (m *Limit) Wait(now, trip time.Duration, ahead, known float64) (wait time.Duration, turn Turn) {
	room, cost := m.room(now), min(m.Cost(known), m.usable()) // one that costs more would never be sent
	if m.unknown(now, trip) || m.free(room-ahead-cost) {
		return 0, InTurn
	}
	due := m.due(now, room, ahead, cost)
	if due <= now || ahead == 0 && room >= cost && known == 0 && m.cost.wantsPair() {
		return 0, InTurn
	}
	probe, turn := m.probeDue(trip, ahead, room >= cost)
	if turn == atEnd && m.slides() && m.mine() {
		probe = max(probe, m.sentDue(now, cost))
	}
	if probe < due {
		return max(probe-now, 0), turn
	}
	return due - now, InTurn
}

// unknown reports whether it is not known when units come back: the limit or its resets
// contradicted themselves, or it has no reset, or a window that is almost over when the
// next request is served, and what comes back differs. In windows of a few seconds it
// always does.
func (m *Limit) unknown(now, trip time.Duration) bool {
	w := &m.Window
	short := w.Ends && w.Length <= 4*trip
	return now < m.Doubted || w.Ends && m.doubtful || short && w.Length <= longestSpace ||
		(short || !w.Ends) && m.flow.off >= m.flow.rate || m.coarse()
}

// coarse reports whether what comes back is a matter of luck: the limit is of a few
// requests, or its window short compared with the rounding of its resets, and others use
// it or it has no reset. At first, others may be this process before a restart.
func (m *Limit) coarse() bool {
	w, few := &m.Window, m.Quota > 0 && m.Quota < fewest*m.cost.mean
	small := few && w.Passed || w.Length < 3*w.Off && (w.Passed || !m.asked)
	return m.reserve == 0 && (few && !w.Ends || small && w.Length <= time.Minute && m.others() >= max(m.cost.mean/2, 1))
}

// free reports whether so much remains that a request that leaves room is not spaced.
func (m *Limit) free(room float64) bool { return room > m.usable()*ampleShare }

// Spaces reports whether the limit makes a request wait, or spaces requests.
func (m *Limit) Spaces(now time.Duration) bool { return !m.free(m.room(now)) }

// due returns when a request may be sent in its turn.
func (m *Limit) due(now time.Duration, room, ahead, cost float64) time.Duration {
	missing := ahead + cost - room
	if missing <= 0 {
		pace := m.pace(now, room)
		return max(m.lastTake+seconds((ahead+cost)/pace), now+seconds(ahead/pace))
	}
	due := never
	if back := m.back(); back > 0 {
		due = now + seconds(missing/back)
	}
	w := &m.Window
	if w.Ends && w.Passed && m.mine() {
		sent := m.sentDue(now, ahead+cost)
		if due = min(due, sent); m.slides() && sent < never {
			due = sent
		}
	}
	if w.Ends && ahead > 0 { // a probe is sent at the end, and then requests are spaced
		due = min(due, w.End+w.Rounded()+seconds((missing-cost)/m.Size()*w.Length.Seconds()))
	}
	return due
}

// slides reports whether what was sent one window ago decides: the service refused
// a probe at an end or a request in its turn, and the window is not long.
func (m *Limit) slides() bool { return m.refused && m.Window.Length <= time.Minute }

// sentDue returns the first time from the window's end on at which the requests that
// this process sent within one window before leave room for cost.
func (m *Limit) sentDue(now time.Duration, cost float64) time.Duration {
	return m.sends.clear(max(m.Window.End-m.Window.Off, now)-m.cycle(), m.usable()-cost, m.cost.mean) + m.cycle()
}

// cycle returns how long after a request was sent its units are certainly back, in
// a window that slides: two requests may be served closer together than they were sent.
func (m *Limit) cycle() time.Duration {
	return m.Window.Length + min(max(m.spreads[0], m.spreads[1])+unpunctual, m.Window.Length/4)
}

// pace returns the rate, in units per second, at which the room and the flow last
// until the end of the window.
func (m *Limit) pace(now time.Duration, room float64) float64 {
	left := m.Length()
	if w := &m.Window; w.Ends {
		late := min(w.Off/2, seconds(w.Off.Seconds()*w.Off.Seconds()/w.Length.Seconds())) // on average, as resets are rounded
		if m.Size() < fewest {
			late = 0 // the last of a few units would be sent too early
		}
		left = max(w.End-now-late, min(w.Off/2, w.Length/8))
	}
	even := (room + m.cost.mean/2) / left.Seconds() // the last request is sent half a space before the end
	pace := m.back() + even
	if m.Window.Ends && m.flow.rate > 0 && math.Abs(m.others()) <= m.few() { // others take about nothing
		pace = max(pace, m.sends.sustained(now, m.cycle(), room, m.cost.mean))
	}
	return pace
}

// back returns how many units per second come back, and may be used.
func (m *Limit) back() float64 {
	rate := m.flow.rate
	back := flowShare * rate
	if whole := m.Size() / m.Length().Seconds(); m.Window.Ends && m.flow.has && rate > .9*whole { // other clients take nothing
		back = max(back, min(rate, whole))
	}
	return back
}

// probeDue returns when a request may be sent as a probe before its turn, and why.
// fits reports whether there is room for it.
func (m *Limit) probeDue(trip time.Duration, ahead float64, fits bool) (due time.Duration, turn Turn) {
	w, pause := &m.Window, m.pauseNow(trip)
	if fits {
		pause = min(pause, longestSpace)
	} else if m.remaining >= 1 {
		pause = max(pause, firstPause, trip)
	}
	if m.asked {
		pause = max(pause, w.End+w.Rounded()-m.Heard)
	}
	due, turn = max(m.Heard, m.lastTake)+pause, early
	if m.remaining < 1 {
		due, turn = m.probe.at+pause, against
	}
	if !fits && w.Ends && due+trip >= w.End-w.Rounded() {
		due, turn = min(due, w.End+w.Rounded()), atEnd
	}
	if m.probe.number != 0 && (turn != against || pause >= trip) { // wait for its response
		due = m.probe.at + max(firstPause, cmp.Or(4*trip, 10*time.Second))
	}
	return due + seconds(ahead/m.cost.mean*pause.Seconds()), turn
}

// pauseNow returns the pause before the next probe.
func (m *Limit) pauseNow(trip time.Duration) time.Duration {
	if m.pause > 0 {
		return m.pause
	}
	pause := max(firstPause, trip, min(m.Window.Length/8, longestSpace))
	if m.reserve > 0 || m.Window.Ends && m.Window.End-m.Heard <= maxPause {
		pause = max(pause, maxPause) // a reserve is what a probe would take
	}
	return pause
}

// adaptPause lengthens the pause, up to the reset, if the response to a probe confirms
// the limit, and shortens it if the response contradicts the limit.
func (m *Limit) adaptPause(trip time.Duration, a limitheaders.Limit, throttled bool) {
	most := maxPause
	if a.Reset >= 0 {
		most = max(a.Reset, maxPause, trip)
	}
	whole := a.Reset >= m.Window.Length/2 && m.Size() >= 4*m.cost.mean
	turn, pause := m.probe.turn, m.pauseNow(trip)
	if turn == atEnd {
		m.refused = throttled
	}
	switch {
	case throttled && turn != atEnd, turn == early && a.Remaining < m.remaining:
		m.pause = min(4*pause, most)
	case !throttled && (turn != atEnd || a.Remaining < 1 && whole): // the probe was served nevertheless
		m.pause = max(min(pause, max(firstPause, trip))*3/4, minPause)
	}
}
