package announced

import (
	"math"
	"time"
)

const (
	// ampleShare is the part of a quota above which requests are not spaced.
	ampleShare = 1.0 / 3

	// The spacing of a limit that refills aims at a part of it that is left, so
	// that every process that reads the same Remaining sends as much. A window
	// that slides is not used as far as that part, so it is smaller there.
	refillShare  = 0.1
	slidingShare = 0.015

	// slidingPace is how much faster than the quota allows on average a window
	// that slides is used.
	slidingPace = 1.1

	// unknownRefill is the time in which a limit of which nothing else is known is
	// used, down to what comes back.
	unknownRefill = 15 * time.Second

	// firstPause is the pause before a request that goes first if nothing says
	// when there is room. It is doubled and shortened within the other two.
	firstPause = time.Second
	minPause   = 20 * time.Millisecond
	maxPause   = 30 * time.Second

	// mostGrain is how much later than said a window ends at most: what is said is
	// rounded to seconds.
	mostGrain = time.Second

	// fewestForGuess is how many requests must have been sent, as at a start with
	// many callers, for what is used of a quota to say something of their cost.
	fewestForGuess = 8

	// longestReset is the longest reset that is believed.
	longestReset = 24 * time.Hour

	mostLies   = 3 // no two of them more than three windows apart
	mostBarren = 2 // windows in a row

	// lieTimeout is how long a limit that lies is ignored, and how long one that
	// nobody hears of is believed after its end.
	lieTimeout = 10 * time.Minute

	// slack is the part of a quota that compensates rounding.
	slack = 1e-9
)

// A limit is what is known of one limit.
type limit struct {
	name    string
	reserve float64

	known     bool // the fields below are from a response
	quota     float64
	top       float64 // the most that was left
	refills   bool    // as said, unless it is seen to end
	stands    bool    // the end that is said does not move as units are used
	firstEnd  time.Duration
	firstLeft float64 // when firstEnd was said
	onSuccess bool    // it was said by a response that was not throttled

	remaining float64
	toldBy    time.Duration // send time of the request whose response said remaining
	from      sighting      // the last that the cost was learned from
	changed   time.Duration // when that was
	heard     time.Duration // when it was last said

	ends   bool          // the end is known
	end    time.Duration // of the window; or when the quota is whole
	begun  time.Duration // send time of the first request of the window
	again  bool          // it is not the first window
	window time.Duration // the longest reset that was said
	busy   bool          // the window before was used up, or nearly
	rate   float64       // units that come back per second; 0: not known

	reset    time.Duration // as said last
	resetAt  time.Duration // when that was said first
	constant bool          // the reset that is said is the length of the window

	evidence   int           // how often it moved as no window does
	flows      bool          // it has no window that ends
	pause      time.Duration // before a request that goes first, if only that can tell
	lies       int
	lied       time.Duration // when it lied last
	barren     int           // windows in a row that began with nothing left
	mistrusted time.Duration // until then

	price     float64 // of the requests in flight whose cost is known
	priced    int     // number of these
	unpriced  int     // number of the others in flight
	lastTake  time.Duration
	takes     int
	cost      cost
	heardFrom int // number of the request whose response said it last
	requests  int // how many were sent, to any limit
}

func (l Limit) valid() bool {
	return l.Remaining >= 0 && !math.IsInf(l.Remaining, 0) && l.Quota >= 0 && !math.IsInf(l.Quota, 0) &&
		(l.Remaining >= 1 || l.Reset <= longestReset)
}

// size returns the quota, or the most that was left.
func (m *limit) size() float64 {
	if m.quota > 0 {
		return m.quota
	}
	return max(m.top, 1)
}

func (m *limit) inFlight() float64 { return m.price + float64(m.unpriced)*m.cost.mean }

func (m *limit) idle() bool { return m.priced == 0 && m.unpriced == 0 }

// estimate returns what is left at now, with what came back meanwhile.
func (m *limit) estimate(now time.Duration) float64 {
	age := max(now-m.changed, 0).Seconds()
	if m.rate == 0 && !m.flowing() {
		return m.remaining
	}
	return min(m.remaining+m.rate*age, max(m.size(), m.remaining))
}

// room returns what this process may still use.
func (m *limit) room(now time.Duration) float64 {
	room := m.estimate(now) - m.inFlight() + (slack-m.reserve)*m.size()
	if m.idle() && !m.flowing() { // nobody else would tell
		room = max(room, min(m.remaining-m.reserve*m.size(), m.cost.most))
	}
	return room
}

func (m *limit) ignored(now time.Duration) bool { return !m.known || now < m.mistrusted }

// ample reports whether requests are not spaced.
func (m *limit) ample(now time.Duration, room float64) bool {
	return m.ignored(now) || room > m.spaced()
}

// spaced returns how much is left when requests begin to be spaced. If the
// window before was used up, that is from the start.
func (m *limit) spaced() float64 {
	if m.busy && !m.flowing() {
		return math.Inf(1)
	}
	return (1 - m.reserve) * m.size() * ampleShare
}

func (m *limit) trusted() bool { return m.heard >= m.mistrusted }

// flowing reports whether units come back one by one instead of all at once.
func (m *limit) flowing() bool {
	return m.refills || !m.ends || m.flows
}

// costOf returns what a request has to find, which is more than the mean if its
// cost is not known.
func (m *limit) costOf(told float64) float64 {
	c := told
	if told == 0 {
		c = m.cost.most
	}
	if most := (1 - m.reserve) * m.size(); most > 0 {
		return min(c, most) // or else it would never be sent
	}
	return c
}

// wait returns how long a request has to wait. told is its cost, or 0 if it is
// learned. probe is true if the request may be sent only while no other one that
// goes first is on its way.
func (m *limit) wait(now time.Duration, told float64) (wait time.Duration, probe bool) {
	room, cost := m.room(now), m.costOf(told)
	if m.ignored(now) || m.ample(now, room) && room >= cost {
		return 0, false
	}
	if !m.flowing() {
		switch {
		case now >= m.end:
			return 0, true
		case room < cost:
			return m.end - now, false
		}
		// The room is spread over the rest of the window: since the last request,
		// the part of the rest must have passed that the cost is of the room.
		if told == 0 && m.pairs() {
			return 0, false
		}
		part, end := cost/room, m.end-m.grain(m.reset)
		due := (m.lastTake.Seconds() + part*end.Seconds()) / (1 + part)
		due = max(due, m.lastTake.Seconds()+part*min(1, m.window.Seconds()/60))
		return seconds(due - now.Seconds()), false
	}
	if room >= cost && told == 0 && m.pairs() {
		return 0, false
	}
	if room >= cost {
		return max(m.lastTake+m.gap(cost, room)-now, 0), false
	}
	switch silent := max(m.end, m.heard) + lieTimeout; {
	case m.rate > 0 && now < silent:
		return min(max(seconds((cost-room)/m.rate), time.Millisecond), silent-now), false
	case !m.idle() && now < m.lastTake+probePatience: // a response will tell
		return m.lastTake + probePatience - now, false
	}
	pause := m.pause
	if m.ends && m.window > 0 { // a unit comes back in that time on average
		pause = max(pause, seconds(cost*m.window.Seconds()/m.size()))
	}
	return max(m.heard+pause-now, 0), true
}

// pairs reports whether the next request follows the last one at once, which
// tells the cost: others take next to nothing in between.
func (m *limit) pairs() bool {
	often := 8
	if !m.flowing() { // one sample may be enough
		often = 2
	}
	return m.cost.mean > 1 && m.takes%often == 1
}

// gap returns the time between two requests of a limit that refills.
func (m *limit) gap(cost, room float64) time.Duration {
	switch {
	case m.rate > 0:
		return seconds(cost / room * refillShare * m.size() / m.rate)
	case m.ends && m.window > 0:
		share := max(slidingShare, 1/m.size())
		return max(seconds(cost/room*share*m.window.Seconds()),
			seconds(cost*m.window.Seconds()/m.size()/slidingPace))
	}
	return seconds(cost / room * min(unknownRefill.Seconds(), m.size())) // a small one is taken for a fast one
}

// expected returns how long a request is expected to wait if those in line
// before it cost that much. told is as for wait.
func (m *limit) expected(now time.Duration, ahead, told float64) time.Duration {
	room, cost := m.room(now), m.costOf(told)
	free, total := max(room-m.spaced(), 0), ahead+cost
	first, _ := m.wait(now, told)
	rest := max(m.end-now, 0)
	switch {
	case m.ignored(now), m.ample(now, room) && total <= free:
		return 0
	case m.flowing() && m.rate == 0 && room < cost && ahead == 0:
		return max(m.heard+m.pause-now, 0)
	case ahead == 0:
		return first
	case m.flowing():
		rate := m.rate
		if rate <= 0 && m.ends && m.window > 0 {
			rate = m.size() / m.window.Seconds()
		}
		if rate <= 0 {
			rate = 1 // a guess: nothing is said
		}
		return max(first, seconds((total-max(room, 0))/rate))
	case total <= room:
		return max(first, seconds(rest.Seconds()*(total-free)/(room-free)))
	}
	return rest + seconds((total-max(room, 0)-cost)/m.size()*m.window.Seconds())
}

// take counts a request that is sent. told is its cost, or 0 if it is learned.
func (m *limit) take(now time.Duration, told float64) {
	m.lastTake = now
	m.takes++
	m.count(told)
}

// count counts a request in flight.
func (m *limit) count(told float64) {
	if told > 0 {
		m.price += told
		m.priced++
	} else {
		m.unpriced++
	}
}

// settle ends a request in flight. used says that the service may have counted
// it and has not said so.
func (m *limit) settle(told float64, used bool) {
	c := told
	if told > 0 {
		m.price = max(m.price-told, 0)
		if m.priced--; m.priced == 0 {
			m.price = 0 // drops what rounding left
		}
	} else {
		m.unpriced--
		c = m.cost.mean
	}
	if used && m.known {
		m.remaining = max(m.remaining-c, 0)
	}
}

// until returns how long a limit is believed that is not said any more.
func (m *limit) until() time.Duration {
	if m.ends {
		return m.end
	}
	return m.heard + unknownRefill
}

// stale reports whether nobody said the limit for so long that it may be gone.
func (m *limit) stale(now time.Duration) bool {
	return m.known && now > max(m.end, m.heard)+max(2*m.window, lieTimeout)
}

func seconds(s float64) time.Duration {
	if !(s < longestReset.Seconds()) {
		return longestReset
	}
	return max(time.Duration(math.Ceil(s*float64(time.Second))), 0)
}
