// Package remaining tracks what remains of one announced limit, and decides when the
// next request may take from it.
//
// A response shows what remained when its request was served. A value counts if it
// is lower than expected or newer than the last one. Between responses, the package
// measures the flow: the units that come back without a reset. docs/LIMITS.md has the rules.
package remaining

import (
	"math"
	"slices"
	"time"

	"example.com/awsretry/internal/limitheaders"
)

const (
	// slack is the fraction of a quota that compensates for rounding.
	slack = 1e-9

	// never is a time that never comes. Adding to it does not overflow.
	never time.Duration = math.MaxInt64 / 4
)

// A Limit is the state of one announced limit and of this process's use of it. All
// times are on one clock.
type Limit struct {
	Quota  float64       // as announced, or 0
	Heard  time.Duration // when the limit was last announced
	AsOf   time.Duration // when the last response that counts came
	Window Window

	// Surprises is the share that was refused of about the last 16 requests that had room.
	Surprises float64

	// The caller sets these.
	InFlight Use           // by the requests without a response
	Doubted  time.Duration // until when the limit is left to the pacing

	reserve   float64          // the fraction of the quota that is left to other clients
	most      float64          // the most that remained
	remaining float64          // as of AsOf, less later requests whose responses did not announce it
	levels    [2]level         // more than a mean response time apart
	start     float64          // what may have remained when the window began
	foreign   float64          // what others took since, as far as rounded values show
	own       Use              // by this process since, without the request that began it
	starts    int              // the number of the request whose response began the window
	unsure    time.Duration    // when the last request was sent for which the limit may have had no room
	spreads   [2]time.Duration // by how much response times differed at most, in this window and the last
	doubtful  bool             // the end does not tell when units come back
	asked     bool             // the end is that of a Retry-After
	refills   bool             // units come back before the end

	flow     flow
	cost     cost
	sends    sends
	lastTake time.Duration
	pause    time.Duration // before a probe
	probe    probe
	refused  bool // see slides
}

// New returns the limit that a announces for the first time at now. It leaves
// a fraction of the quota, the reserve, to other clients. Hear has to follow.
func New(now time.Duration, a limitheaders.Limit, reserve float64) Limit {
	return Limit{
		Quota: a.Quota, Heard: -1,
		reserve: reserve, most: a.Remaining, unsure: now, cost: cost{mean: 1},
	}
}

// A level is what remained at a time.
type level struct {
	at        time.Duration
	remaining float64
}

// Level returns what remained at t or before, and when, if that is known.
func (m *Limit) Level(t time.Duration) (remaining float64, at time.Duration, ok bool) {
	for _, level := range m.levels {
		if level.at <= t && level.at > 0 {
			return level.remaining, level.at, true
		}
	}
	return 0, 0, false
}

// Size returns the quota, or the most that remained.
func (m *Limit) Size() float64 {
	if m.Quota > 0 {
		return m.Quota
	}
	return max(m.most, 1)
}

// usable returns the part of the size that is not left to other clients.
func (m *Limit) usable() float64 { return (1 - m.reserve) * m.Size() }

// Length returns the length of the window. Without a reset, 15 s are assumed.
func (m *Limit) Length() time.Duration {
	if !m.Window.Ends {
		return 15 * time.Second
	}
	return m.Window.Length
}

// Rate returns how many units come back per second without a reset.
func (m *Limit) Rate() float64 { return m.flow.rate }

// estimate returns what remains at now, with the units that came back, minus less.
func (m *Limit) estimate(now time.Duration, less float64) float64 {
	back := m.back() * max(now-m.AsOf, 0).Seconds()
	return min(m.remaining+back-less, max(m.Size(), m.remaining))
}

// Left returns what remains at now after the requests in flight, below 0 if too little.
func (m *Limit) Left(now time.Duration) float64 { return m.estimate(now, m.units(m.InFlight)) }

// room returns how much this process may still use.
func (m *Limit) room(now time.Duration) float64 {
	return m.Left(now) + (slack-m.reserve)*m.Size() - m.hidden()
}

// Cost returns a known cost of a request, or the mean instead of 0.
func (m *Limit) Cost(known float64) float64 {
	if known > 0 {
		return known
	}
	return m.cost.mean
}

// units returns what some requests cost, as far as it is known now.
func (m *Limit) units(u Use) float64 { return u.Units(m.cost.mean) }

// CopyCost copies the cost that was learned of another limit.
func (m *Limit) CopyCost(other *Limit) {
	m.cost = other.cost
	m.cost.samples = slices.Clone(other.cost.samples)
	m.cost.latest, m.cost.pair = 0, pair{}
}

// Take records a request that is sent. trip is the mean response time.
func (m *Limit) Take(now, trip time.Duration, number int, known float64, turn Turn) {
	m.AddSent(now, known)
	m.flow.take(number, known, now-m.lastTake < trip/16)
	m.cost.take(number, known)
	m.lastTake = now
	if turn != InTurn {
		m.probe = probe{number, now, turn}
	} else if m.room(now) < m.Cost(known) {
		m.unsure = now
	}
}

// Settle ends a request in flight. counted reports whether the service may have
// counted it, and said whether its response announced the limit.
func (m *Limit) Settle(number int, known float64, counted, said bool) {
	if counted {
		if number != m.starts {
			m.own.Add(1, known)
		}
		if !said {
			m.remaining = max(m.remaining-m.Cost(known), 0)
		}
	} else {
		m.flow.giveBack(number, known)
		m.sends.giveBack(known)
	}
	m.Drop(number)
}

// Drop ends a request in flight to which the limit no longer applies.
func (m *Limit) Drop(number int) {
	m.cost.settle(number)
	if m.flow.mark.number == number {
		m.flow.mark = point{}
	}
	if m.probe.number == number {
		m.probe.number = 0
	}
}

// AddSent adds a request to those that were sent, without one in flight.
func (m *Limit) AddSent(at time.Duration, known float64) {
	m.sends.add(at, known, m.cost.mean, m.Size())
}

// Sent returns how many units this process sent after t, or slightly more.
func (m *Limit) Sent(t time.Duration) float64 { return m.sends.since(t, m.cost.mean) }

// SentAtLeast is Sent as if each request whose cost is learned had cost one unit.
func (m *Limit) SentAtLeast(t time.Duration) float64 { return m.sends.since(t, 1) }

// Probe returns the number of the request that is a probe and in flight, or 0.
func (m *Limit) Probe() int { return m.probe.number }

// seconds returns s seconds, rounded up, at least 0 and at most the longest reset.
func seconds(s float64) time.Duration {
	if !(s < limitheaders.LongestReset.Seconds()) {
		return limitheaders.LongestReset
	}
	return max(time.Duration(math.Ceil(s*float64(time.Second))), 0)
}
