package announced

import "time"

// hear learns from what a response says.
func (m *limit) hear(now, sent time.Duration, number int, a Limit, throttled bool) {
	if a.Reset > longestReset {
		a.Reset = -1
	}
	m.noteReset(now, a.Reset)
	m.noteEnd(now, &a)
	m.heard, m.heardFrom = now, number
	m.onSuccess = m.onSuccess || !throttled
	m.refills = a.Refills
	if a.Quota > 0 {
		m.quota = a.Quota
	}
	m.top = max(m.top, a.Remaining)
	m.window = max(m.window, a.Reset)
	m.adaptPause(throttled)
	grain := m.grain(a.Reset)
	end := sent + (now-sent)/2 + max(a.Reset, 0) + grain // the service said so in between
	later := sent >= m.toldBy
	switch {
	case !m.known:
		m.begin(now, sent, a, end)
	case a.Refills || a.Reset < 0:
		m.hearRefill(now, sent, a)
	case m.ends && sent < m.begun && end < m.end-grain:
		return // of the window before
	case later && m.newWindow(now, sent, end, grain, a):
		m.accuse(a, throttled)
		m.begin(now, sent, a, end)
	case !m.constant && later && absolute(end-m.end) > noise(grain):
		if rise := a.Remaining - m.remaining; sent >= m.changed && rise >= m.size()/2 {
			m.jumped(now, rise)
		}
		m.flow()
		m.accept(now, sent, a)
		m.end = end
	case throttled && a.Remaining < 1 && sent >= m.end: // the window ends later than was said
		m.end = end
		m.accept(now, sent, a)
	default:
		if !m.constant {
			m.end = min(m.end, end)
		}
		rise := a.Remaining - m.remaining
		switch {
		case rise <= 0 || sent >= m.changed || m.follows(now, sent) && m.flowing():
			if later && rise >= 1 && sent >= m.changed {
				m.jumped(now, rise)
			}
			m.accept(now, sent, a)
		}
	}
	m.learn(now, sent, number, a, throttled)
}

// noteEnd finds out whether a limit of which it is said that it refills is a
// window: the end of a refill moves as units are used, by the time in which they
// come back.
func (m *limit) noteEnd(now time.Duration, a *Limit) {
	if !a.Refills || a.Reset < 0 {
		return
	}
	end := now + a.Reset
	switch used := m.firstLeft - a.Remaining; {
	case now >= m.firstEnd || used < 0:
		m.firstEnd, m.firstLeft = end, a.Remaining
	case used >= m.size()/2:
		m.stands = absolute(end-m.firstEnd) < max(m.window, a.Reset)/4
	}
	a.Refills = !m.stands
}

// grain returns how much a reset may have been rounded.
func (m *limit) grain(reset time.Duration) time.Duration {
	if reset%time.Second != 0 {
		return min(m.window/5, 50*time.Millisecond)
	}
	return min(m.window/5, mostGrain)
}

// noise returns how much the end of one window may differ from one response to
// another, because two times are rounded.
func noise(grain time.Duration) time.Duration { return 5 * grain / 2 }

// noteReset finds out whether the reset that is said is no countdown.
func (m *limit) noteReset(now, reset time.Duration) {
	switch {
	case reset != m.reset || now-m.heard > reset/2:
		m.reset, m.resetAt, m.constant = reset, now, false
	case reset > 0 && now-m.resetAt > 2*time.Second:
		m.constant = true
	}
}

// newWindow reports whether a response is of a later window than the last.
func (m *limit) newWindow(now, sent, end, grain time.Duration, a Limit) bool {
	jump := a.Remaining-m.remaining > max(m.size()/2, m.inFlight()+m.cost.most)
	if m.constant {
		return jump && now >= m.begun+m.window/4 || now >= m.end && sent >= m.end
	}
	moved := end > m.end+noise(grain)
	return moved && (now >= m.end-noise(grain) || jump)
}

// begin begins a window.
func (m *limit) begin(now, sent time.Duration, a Limit, end time.Duration) {
	if m.remaining <= m.size()*ampleShare && a.Remaining > 0.9*m.size() { // all at once
		m.flows = false
		m.window = max(a.Reset, m.window/2)
	}
	if !m.known || sent-m.begun >= m.window/2 {
		m.busy = m.known && m.remaining <= (1-m.reserve)*m.size()*ampleShare
	}
	m.again = m.known
	m.known = true
	m.ends = a.Reset >= 0
	m.end, m.begun = end, sent
	m.evidence = 0
	m.from = sighting{}
	m.accept(now, sent, a)
	m.setRate(a)
}

func (m *limit) setRate(a Limit) {
	m.rate = 0
	if missing := a.Quota - a.Remaining; a.Refills && missing > 0 && a.Reset > 0 {
		m.rate = missing / a.Reset.Seconds()
	}
}

// hearRefill is hear for a limit that refills, as the response says, or whose
// end is not said.
func (m *limit) hearRefill(now, sent time.Duration, a Limit) {
	m.ends = a.Reset >= 0
	if m.ends {
		m.end = now + a.Reset
	}
	if m.follows(now, sent) || a.Remaining < m.estimate(now) {
		m.accept(now, sent, a)
		m.setRate(a)
	}
}

// follows reports whether a request was sent so much later than the one that told
// what remains that the service certainly served it later.
func (m *limit) follows(now, sent time.Duration) bool { return sent > m.toldBy+(now-sent)/8 }

// accept takes over what is left, and learns what the requests since cost.
func (m *limit) accept(now, sent time.Duration, a Limit) {
	if used := a.Quota - a.Remaining; used > 0 && m.requests >= fewestForGuess && !m.again {
		m.cost.guess(max(min(used/float64(m.requests), a.Remaining/2), 1))
	}
	m.remaining, m.changed = a.Remaining, now
	m.toldBy = max(m.toldBy, sent)
}

// learn learns the cost from two responses in the order of their requests, the
// last and this one.
func (m *limit) learn(now, sent time.Duration, number int, a Limit, throttled bool) {
	if throttled { // it cost nothing
		m.from = sighting{}
		return
	}
	this := sighting{number: number, sent: sent, heard: now, begun: m.begun, remaining: a.Remaining}
	first, second := m.from, this
	if number == first.number-1 {
		first, second = this, m.from // in the other order
	} else {
		m.from = this
	}
	requests, gap := second.number-first.number, second.sent-first.sent
	if m.window > 0 && gap > m.window/12 { // others have taken too much in between
		return
	}
	if first.number == 0 || requests <= 0 || gap <= 0 || first.begun != second.begun ||
		requests > 1 && second.sent < first.heard {
		return
	}
	drop := first.remaining - second.remaining + m.rate*gap.Seconds()
	switch each := drop / float64(requests); {
	case each >= max(m.size()/2, 2) && gap < m.window/4: // so much for one request
		m.lie(now)
	case each >= 0:
		m.cost.learn(sample{each, gap / time.Duration(requests), now}, m.rate == 0 && !m.flowing())
	}
}

// A sighting is what remained when a request was served.
type sighting struct {
	number             int // of the request; 0: not known
	sent, heard, begun time.Duration
	remaining          float64
}

// flow notes that the limit moves as no window that ends does.
func (m *limit) flow() {
	const enough = 6
	if m.evidence++; m.evidence >= enough {
		m.flows = true
	}
}

// jumped notes that units came back within a window.
func (m *limit) jumped(now time.Duration, rise float64) {
	if rise < m.size()/2 {
		m.flow()
		return
	}
	m.lie(now)
}

// lie notes that most of the quota came back at once, and not at the end, or that
// one request took as much: these are two limits under one name, such as those
// of two routes.
func (m *limit) lie(now time.Duration) {
	if now-m.lied > 3*m.window {
		m.lies = 0
	}
	m.lied = now
	if m.lies++; m.lies >= mostLies {
		m.distrust(now)
	}
}

// accuse notes a window that is said to have nothing left although its first
// request succeeded.
func (m *limit) accuse(a Limit, throttled bool) {
	switch {
	case a.Remaining >= 1 || a.Quota == 1:
		m.barren = 0
	case !throttled:
		if m.barren++; m.barren >= mostBarren {
			m.distrust(m.heard)
		}
	}
}

// distrust ignores the limit for a while: what it says cannot be true.
func (m *limit) distrust(now time.Duration) {
	m.lies, m.barren = 0, 0
	m.mistrusted = now + lieTimeout
}

// adaptPause adapts the pause before a request that goes first because nothing
// says when there is room.
func (m *limit) adaptPause(throttled bool) {
	switch {
	case m.pause == 0 && m.reserve > 0: // it takes from what is left to others
		m.pause = maxPause
	case m.pause == 0:
		m.pause = firstPause
	case throttled:
		m.pause = min(2*m.pause, maxPause)
	case m.reserve > 0:
	case m.ends:
		m.pause = max(m.pause*9/10, minPause)
	default: // nothing says how fast units come back
		m.pause = max(m.pause/2, minPause)
	}
}

func absolute(d time.Duration) time.Duration { return max(d, -d) }
