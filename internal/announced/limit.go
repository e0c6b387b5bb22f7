package announced

import (
	"math"
	"time"
)

const (
	// slack is the fraction of a quota that compensates for rounding.
	slack = 1e-9

	// mostSurprises is the share of about the last fewRequests requests in their turn
	// that a limit may refuse before it is left to the pacing.
	mostSurprises = .15
	fewRequests   = 16

	// unknownLength is the assumed length of a limit without a reset.
	unknownLength = 15 * time.Second

	// never is a time that never comes. Adding to it does not overflow.
	never time.Duration = math.MaxInt64 / 4
)

// A limit is the state of one announced limit and of this process's use of it.
type limit struct {
	name    string
	bit     Set     // unique among the limits
	reserve float64 // the fraction of the quota that is left to other clients

	quota, most float64       // the announced quota, or 0, and the most that remained
	remaining   float64       // by the last response that counts, less later requests whose responses did not announce it
	asOf        time.Duration // when that response came
	heard       time.Duration // when the limit was last announced
	heardFrom   int           // the number of the request whose response announced it last
	heardRoute  Route         // of the last such request of this process
	over        bool          // that response was throttled
	levels      levels
	start, own  float64       // what remained when the window began, and what this process used since
	begun       time.Duration // when the limit was first announced
	spread      time.Duration // by how much response times differ
	surprises   float64       // the share of the last requests that were refused in their turn
	doubts      int           // how often the limit contradicted itself
	doubted     time.Duration // until when the limit holds nothing back, because it contradicted itself

	window window
	asked  bool // the end is that of a Retry-After
	unit   unit
	flow   flow
	cost   cost

	sends    sends
	inFlight inFlight
	lastTake time.Duration
	held     time.Duration // when the limit last made a request wait
	pause    time.Duration // before a probe
	first    first
	refused  bool // a probe at an end or a request in its turn was throttled: what was sent a window ago decides
}

// levels has what remained at two times, more than a mean response time apart.
type levels [2]level

type level struct {
	at        time.Duration
	remaining float64
}

func (l *levels) note(now, trip time.Duration, remaining float64) {
	if l[0].at == 0 || now-l[0].at >= trip {
		l[1], l[0] = l[0], level{now, remaining}
	}
}

// before returns what remained at or before a time. ok is false if that is not known.
func (l *levels) before(t time.Duration) (remaining float64, at time.Duration, ok bool) {
	for _, level := range l {
		if level.at <= t && level.at > 0 {
			return level.remaining, level.at, true
		}
	}
	return 0, 0, false
}

// inFlight counts the requests without a response, and their costs.
type inFlight struct {
	known   float64 // the sum of the known costs
	priced  int     // the number of requests with a known cost
	learned int     // the number of the others
}

func (f *inFlight) add(known float64) {
	if known > 0 {
		f.known += known
		f.priced++
	} else {
		f.learned++
	}
}

func (f *inFlight) remove(known float64) {
	if known == 0 {
		f.learned--
	} else if f.priced--; f.priced == 0 {
		f.known = 0 // drops rounding errors
	} else {
		f.known = max(f.known-known, 0)
	}
}

func (f *inFlight) units(mean float64) float64 { return f.known + float64(f.learned)*mean }

// size returns the quota, or the most that remained.
func (m *limit) size() float64 {
	if m.quota > 0 {
		return m.quota
	}
	return max(m.most, 1)
}

// usable returns the part of the size that is not left to other clients.
func (m *limit) usable() float64 { return (1 - m.reserve) * m.size() }

// length returns the length of the window, or unknownLength if there is no reset.
func (m *limit) length() time.Duration {
	if !m.window.ends {
		return unknownLength
	}
	return m.window.length
}

// estimate returns what remains at now, with the units that have come back, minus
// less.
func (m *limit) estimate(now time.Duration, less float64) float64 {
	back := m.back() * max(now-m.asOf, 0).Seconds()
	return min(m.remaining+back-less, max(m.size(), m.remaining))
}

// left returns what remains at now after the requests in flight. It is negative if
// they cost more than remains.
func (m *limit) left(now time.Duration) float64 {
	return m.estimate(now, m.inFlight.units(m.cost.mean))
}

// room returns how much this process may still use. A value that is rounded down
// stands for the mean of what it may be, until a request is throttled.
func (m *limit) room(now time.Duration) float64 {
	rounding := m.cost.rounding() / 2
	if m.over {
		rounding = -rounding
	}
	return m.left(now) + (slack-m.reserve)*m.size() + rounding
}

// costOf returns the room that a request needs. known is its cost, or 0 if unknown.
func (m *limit) costOf(known float64) float64 {
	c := m.cost.of(known)
	if most := m.usable(); most > 0 {
		return min(c, most) // otherwise it would never be sent
	}
	return c
}

// take records a request that is sent. trip is the mean response time.
func (m *limit) take(now, trip time.Duration, number int, known float64, turn turn) {
	c := m.cost.of(known)
	m.sends.add(now, c, m.size())
	near := now-m.lastTake < trip/closeShare
	m.flow.take(number, known, near)
	m.cost.take(number, known)
	m.inFlight.add(known)
	m.lastTake = now
	if turn != inTurn {
		m.first = first{number, now, turn}
	}
}

// settle ends a request in flight. counted reports whether the service may have
// counted it, and said whether its response announced the limit.
func (m *limit) settle(number int, known float64, counted, said bool) {
	c := m.cost.of(known)
	m.inFlight.remove(known)
	switch {
	case !counted:
		m.flow.giveBack(number, known)
		m.sends.giveBack(c)
	default:
		if m.own += c; !said {
			m.remaining = max(m.remaining-c, 0)
		}
	}
	m.flow.lose(number)
	if m.first.number == number {
		m.first.number = 0
	}
}

// contradict leaves the limit to the pacing for two windows, and each time for twice
// as many.
func (m *limit) contradict(now time.Duration) {
	if now >= m.doubted {
		m.doubts = min(m.doubts+1, 6)
	}
	m.doubted = now + m.length()<<m.doubts
}

// judge counts a request in its turn, for which the limit had room, and that was
// refused or not. A limit that is often wrong is left to the pacing.
func (m *limit) judge(now time.Duration, refused bool) {
	wrong := 0.
	if refused {
		wrong = 1
	}
	if m.surprises += (wrong - m.surprises) / fewRequests; m.surprises > mostSurprises {
		m.contradict(now)
		m.surprises = 0
	}
}

// until returns when a limit that is no longer announced stops counting.
func (m *limit) until() time.Duration {
	if m.window.ends {
		return m.window.end
	}
	return m.heard + unknownLength
}

// stale reports whether the limit has not been announced for so long that it may no
// longer exist.
func (m *limit) stale(now time.Duration) bool {
	return now > max(m.window.end, m.heard)+max(2*m.window.length, forgetTime)
}

// seconds returns s seconds, rounded up, at least 0 and at most longestReset.
func seconds(s float64) time.Duration {
	if !(s < longestReset.Seconds()) {
		return longestReset
	}
	return max(time.Duration(math.Ceil(s*float64(time.Second))), 0)
}
