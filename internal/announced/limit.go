package announced

import (
	"math"
	"time"
)

const (
	// slack is the part of a quota that compensates rounding.
	slack = 1e-9

	// unknownLength stands in for the length of a limit without a reset.
	unknownLength = 15 * time.Second

	// never is a time that does not come. Sums with it do not overflow.
	never time.Duration = math.MaxInt64 / 4
)

// A limit is what is known of one limit, and what this process took of it.
type limit struct {
	name    string
	bit     Set     // which no other limit has
	reserve float64 // the part of the quota that is left to others
	since   time.Duration

	quota, most float64       // the quota if it was announced, and the most that remained
	remaining   float64       // as of the last response that counts, less what requests took since whose responses did not say
	asOf        time.Duration // when that response came
	heard       time.Duration // when the limit was last announced
	heardFrom   int           // number of the request whose response announced it last

	window window
	unit   unit
	flow   flow
	cost   cost

	sends    sends
	inFlight inFlight
	lastTake time.Duration
	held     time.Duration // when the limit last made a request wait
	pause    time.Duration // before a request goes first
	first    first
	refused  bool          // so that what was sent decides: one went first at an end, or was in its turn, and was throttled
	adapted  time.Duration // when the pause was adapted last
}

// inFlight has the requests without a response, at the cost that is known or
// learned.
type inFlight struct {
	known   float64 // sum of the known costs
	priced  int     // number of requests with a known cost
	learned int     // number of the others
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
		f.known = 0 // drops what rounding left
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

// usable returns the part of the size that is not left to others.
func (m *limit) usable() float64 { return (1 - m.reserve) * m.size() }

// length returns the time in which the quota comes back, as far as it is known.
func (m *limit) length() time.Duration {
	if !m.window.ends {
		return unknownLength
	}
	return m.window.length
}

// estimate returns what remains at now, with what came back meanwhile and less that
// much.
func (m *limit) estimate(now time.Duration, less float64) float64 {
	back := max(m.back(), 0) * max(now-m.asOf, 0).Seconds()
	return min(m.remaining+back-less, max(m.size(), m.remaining))
}

// left returns what remains at now with what is in flight taken off. It is negative
// if that is more than remains.
func (m *limit) left(now time.Duration) float64 {
	return m.estimate(now, m.inFlight.units(m.cost.mean))
}

// room returns what this process may still use.
func (m *limit) room(now time.Duration) float64 { return m.left(now) + (slack-m.reserve)*m.size() }

// costOf returns what a request has to find. known is its cost, or 0 if unknown.
// Then it is more than the mean.
func (m *limit) costOf(known float64) float64 {
	c := known
	if known == 0 {
		c = m.cost.most
	}
	if most := m.usable(); most > 0 {
		return min(c, most) // or else it would never be sent
	}
	return c
}

// take counts a request that is sent. trip is how long a response takes.
func (m *limit) take(now, trip time.Duration, number int, known float64, turn turn) {
	c := known
	if known == 0 {
		c = m.cost.mean
	}
	m.sends.add(now, c, m.size())
	near := now-m.lastTake < trip/closeShare
	m.flow.take(number, known, near)
	m.cost.take(number, known, near)
	m.inFlight.add(known)
	m.lastTake = now
	if turn != inTurn {
		m.first = first{number, now, turn}
	}
}

// settle ends a request in flight. counted reports whether the service may have
// counted it, said whether its response announced the limit.
func (m *limit) settle(number int, known float64, counted, said bool) {
	c := known
	if known == 0 {
		c = m.cost.mean
	}
	m.inFlight.remove(known)
	switch {
	case !counted:
		m.flow.giveBack(number, known)
		m.sends.giveBack(c)
	case !said:
		m.remaining = max(m.remaining-c, 0)
	}
	m.flow.lose(number)
	if m.first.number == number {
		m.first.number = 0
	}
}

// until returns how long a limit is believed that is not announced any more.
func (m *limit) until() time.Duration {
	if m.window.ends {
		return m.window.end
	}
	return m.heard + unknownLength
}

// stale reports whether nobody announced the limit for so long that it may be
// gone.
func (m *limit) stale(now time.Duration) bool {
	return now > max(m.window.end, m.heard)+max(2*m.window.length, forgetTime)
}

// seconds returns that many seconds, at most the longest reset.
func seconds(s float64) time.Duration {
	if !(s < longestReset.Seconds()) {
		return longestReset
	}
	return max(time.Duration(math.Ceil(s*float64(time.Second))), 0)
}
