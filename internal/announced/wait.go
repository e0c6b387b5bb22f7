package announced

import "time"

const (
	// ampleShare is the fraction of a quota above which requests are not spaced if no
	// other client uses it.
	ampleShare = 1.0 / 6

	// flowShare is the fraction of the flow that is used. The rest leaves a margin
	// in the quota, and makes processes that share the quota converge to equal rates.
	flowShare = 0.8

	// aloneShare is the same fraction if no other client uses the quota.
	aloneShare = 0.97

	// firstPause is the pause before a probe if there is no reset, or if the limit
	// was contradicted.
	firstPause = time.Second

	// minPause is the shortest pause. If many probes were closer together, the pacing
	// law would find that almost nothing is accepted, before the first throttled
	// response has come.
	minPause = 8 * time.Millisecond

	// maxPause is the longest pause, unless the reset is longer. With a reserve, it is
	// also the shortest initial pause.
	maxPause = 30 * time.Second

	// believed is the longest reset that needs no probe.
	believed = 30 * time.Second

	// longestRefused is the longest window in which, after a throttled probe, what was
	// sent one window ago decides.
	longestRefused = time.Minute

	// longestSpace is the longest space between two requests while their cost
	// remains, if the reset is more than twelve minutes away.
	longestSpace = 5 * time.Second

	// firstPatience is how long other requests wait for the response to a probe while
	// the response time is unknown.
	firstPatience = 10 * time.Second
)

// first is the last probe: a request that goes first, so that its response shows
// whether there is room for others.
type first struct {
	number int           // of the request; 0 if its response has come
	at     time.Duration // when it was sent, or when the limit last ran out
	turn   turn
}

// A turn is the reason for which a request may be sent.
type turn int

const (
	inTurn  turn = iota
	atEnd        // a probe after the end of a window
	early        // a probe before its turn
	against      // a probe although nothing remains
)

// wait returns how long a request has to wait if the requests before it in line cost
// ahead, and why it may be sent then. known is its cost, or 0 if unknown.
func (m *limit) wait(now, trip time.Duration, ahead, known float64) (wait time.Duration, turn turn) {
	room, cost := m.room(now), m.costOf(known)
	if m.unknown(now, trip) || m.free(now, room-ahead-cost) {
		return 0, inTurn
	}
	due := m.due(now, room, ahead, cost)
	if due <= now || ahead == 0 && room >= cost && known == 0 && m.cost.wantsPair() {
		return 0, inTurn
	}
	first, turn := m.firstDue(trip, ahead, room >= cost)
	if turn == atEnd && m.refused && m.window.length <= longestRefused && m.mine() {
		first = max(first, m.sentDue(now, cost))
	}
	if first < due {
		return max(first-now, 0), turn
	}
	return due - now, inTurn
}

// unknown reports whether it is not known when units come back, so that the limit is
// left to the pacing: the limit or its resets contradicted themselves, or it has no
// reset, or a window that is almost over when the next request is served, and what
// comes back is not steady. In windows of a few seconds it never is.
func (m *limit) unknown(now, trip time.Duration) bool {
	w := &m.window
	short := w.ends && w.length <= 4*trip
	return now < m.doubted || w.ends && w.doubtful || short && w.length <= longestSpace || (short || !w.ends) && !m.flow.steady()
}

// free reports whether a request that leaves room need not be spaced: much remains,
// and no request had to wait recently. What other clients may take is not saved for
// later: then there need only be room for twice what they probably have in flight.
func (m *limit) free(now time.Duration, room float64) bool {
	ample := room > m.usable()*ampleShare && (now >= m.held+m.length()/8 || !m.window.ends && room > 2*m.usable()*ampleShare)
	crowd := m.crowd()
	if crowd == 0 {
		return ample
	}
	theirs := 2 * crowd * (m.inFlight.units(m.cost.mean) + m.cost.mean)
	return room >= theirs+m.cost.mean && (ample || m.flow.rate == 0)
}

// due returns when a request may be sent in its turn.
func (m *limit) due(now time.Duration, room, ahead, cost float64) time.Duration {
	missing := ahead + cost - room
	if missing <= 0 {
		pace := m.pace(now, room)
		return max(m.lastTake+seconds((ahead+cost)/pace), now+seconds(ahead/pace))
	}
	due := never
	if back := m.back(); back > 0 {
		due = now + seconds(missing/back)
	}
	w := &m.window
	if w.ends && w.passed && m.mine() {
		sent := m.sentDue(now, ahead+cost)
		if due = min(due, sent); m.refused && w.length <= longestRefused && sent < never {
			due = sent
		}
	}
	if w.ends && ahead > 0 { // a probe is sent at the end, and then requests are spaced
		due = min(due, w.end+w.rounded()+seconds((missing-cost)/m.size()*w.length.Seconds()))
	}
	return due
}

// sentDue returns the first time from the window's end on at which the requests that
// this process sent within one window before leave room for cost.
func (m *limit) sentDue(now time.Duration, cost float64) time.Duration {
	w := &m.window
	return m.sends.clear(max(w.end-w.off, now)-m.cycle(), m.usable()-cost) + m.cycle()
}

// cycle returns how long after a request was sent its units are certainly back, in
// a window that slides: two requests may be served closer together than they were sent.
func (m *limit) cycle() time.Duration {
	return m.window.length + min(m.spread, m.window.length/4)
}

// pace returns the rate, in units per second, at which the room and the flow last
// until the end of the window.
func (m *limit) pace(now time.Duration, room float64) float64 {
	left := unknownLength
	if m.window.ends {
		left = max(m.window.end-now-m.late(), min(m.window.off/2, m.window.length/8))
	}
	even := (room + m.cost.mean/2) / left.Seconds() // the last request is sent half a space before the end
	pace := m.back() + even
	if m.window.ends && m.flow.rate > 0 && m.alone() {
		pace = max(pace, m.sends.sustained(now, m.cycle(), room))
	}
	return pace
}

// late returns by how much the end is too late on average, because resets are
// rounded. It returns 0 for a quota of a few units, whose last unit would be sent too
// early.
func (m *limit) late() time.Duration {
	w := &m.window
	if m.size() < fewest {
		return 0
	}
	return min(w.off/2, seconds(w.off.Seconds()*w.off.Seconds()/w.length.Seconds()))
}

// back returns how many units certainly come back per second.
func (m *limit) back() float64 {
	rate := m.flow.rate
	back := m.share() * rate
	if whole := m.size() / m.length().Seconds(); m.flow.has && rate > .9*whole { // other clients take nothing
		back = max(back, min(rate, aloneShare*whole))
	}
	return back
}

func (m *limit) share() float64 {
	if m.alone() {
		return aloneShare
	}
	return flowShare
}

// alone reports whether the missing units are about those that this process sent
// within the last window.
func (m *limit) alone() bool {
	others := m.others()
	return max(others, -others) <= m.few()
}

// others returns how many units are missing beyond those that this process sent
// within the last window.
func (m *limit) others() float64 {
	return m.size() - m.remaining - m.sends.since(m.asOf-m.window.length)
}

// mine reports whether this process certainly used all of the missing units.
func (m *limit) mine() bool { return m.others() < 1 && m.crowd() == 0 }

// crowd returns how many times as much as this process other clients have used since
// the window began, or 0 if that is little. If units come back, so that this is not
// known, it returns 1.
func (m *limit) crowd() float64 {
	if !m.window.ends {
		return 0
	}
	others, own := m.start-m.remaining-m.own, m.own
	if m.flow.rate > 0 {
		others = m.others() + m.inFlight.units(m.cost.mean)
		own = others
	}
	if others <= m.few() {
		return 0
	}
	return others / max(own, 1)
}

// few returns how many units are about none, compared to the quota.
func (m *limit) few() float64 { return max(m.size()/slotsPerQuota, 1) }

// firstDue returns when a request may be sent as a probe before its turn, and why.
// fits reports whether there is room for it.
func (m *limit) firstDue(trip time.Duration, ahead float64, fits bool) (due time.Duration, turn turn) {
	w, pause := &m.window, m.pauseNow(trip)
	if fits {
		pause = min(pause, longestSpace)
	} else if m.remaining >= 1 {
		pause = max(pause, firstPause, trip)
	}
	if m.asked {
		pause = max(pause, w.end+w.rounded()-m.heard)
	}
	due, turn = max(m.heard, m.lastTake)+pause, early
	if m.remaining < 1 {
		due, turn = m.first.at+pause, against
	}
	if !fits && w.ends && due+trip >= w.end-w.rounded() {
		due, turn = min(due, w.end+w.rounded()), atEnd
	}
	if m.first.number != 0 && (turn != against || pause >= trip) {
		due = m.first.at + patience(trip)
	}
	return due + seconds(ahead/m.cost.mean*pause.Seconds()), turn
}

// patience returns how long other requests wait for the response to a probe, before
// one of them becomes the next probe.
func patience(trip time.Duration) time.Duration {
	if trip == 0 {
		return firstPatience
	}
	return max(firstPause, 4*trip)
}

// pauseNow returns the pause before the next probe.
func (m *limit) pauseNow(trip time.Duration) time.Duration {
	if m.pause > 0 {
		return m.pause
	}
	pause := max(firstPause, trip, min(m.window.length/8, longestSpace))
	if m.window.ends && m.window.end-m.heard <= believed {
		pause = max(pause, believed)
	}
	if m.reserve > 0 { // the probe would take from what is left to other clients
		pause = max(pause, maxPause)
	}
	return pause
}

// adaptPause adapts the pause to the response to a probe. A response that confirms the
// limit lengthens the pause, up to the reset. A response that contradicts the limit
// shortens it.
func (m *limit) adaptPause(trip time.Duration, a Limit, throttled bool) {
	most := maxPause
	if a.Reset >= 0 {
		most = max(a.Reset, maxPause, trip)
	}
	whole := a.Reset >= m.window.length/2 && m.size() >= 4*m.cost.mean
	pause := m.pauseNow(trip)
	if m.first.turn == atEnd {
		m.refused = throttled
	}
	switch turn := m.first.turn; {
	case throttled && turn != atEnd, turn == early && a.Remaining < m.remaining:
		m.pause = min(4*pause, most)
	case !throttled && (turn != atEnd || a.Remaining < 1 && whole): // the probe was served nevertheless
		m.pause = max(min(pause, max(firstPause, trip))*3/4, minPause)
	}
}
