package main

import (
	"math/rand/v2"
	"time"

	"example.com/awsretry/internal/pacing"
)

// A simulation is one run of a scenario.
type simulation struct {
	queue
	ledger
	scenario scenario
	service  service
	random   *rand.Rand
}

// A newLaw returns the law of a client that is made at start. The law may use
// the random numbers of the run.
type newLaw func(start time.Time, random *rand.Rand) pacing.Law

// run runs a scenario. The same seed gives the same figures.
func (s scenario) run(seed uint64, law newLaw) figures {
	m := &simulation{scenario: s, random: rand.New(rand.NewPCG(seed, 0))}
	m.ledger = newLedger(s)
	m.service = s.serve(s.limit)
	if s.random > 0 {
		m.service = moodyService{m.service, s.random, m.random}
	}
	// The clocks of the clients are those of one machine, which does not begin
	// with a whole second.
	start := time.Unix(1_000_000, m.random.Int64N(int64(time.Second)))
	for number, callers := range s.clients {
		c := &client{simulation: m, number: number, law: law(start, m.random), quota: quotaSize, line: line{queue: &m.queue}}
		if s.arrivals > 0 {
			m.open(c, s.arrivals/float64(len(s.clients)))
		}
		for range callers {
			m.after(1+m.upTo(time.Millisecond), func() { m.loop(c) })
		}
	}
	if s.others > 0 {
		m.strangers()
	}
	m.until(s.length)
	return m.figures(s)
}

// loop makes calls one after the other.
func (m *simulation) loop(c *client) {
	if !m.scenario.isActive(c.number, m.now) {
		m.after(100*time.Millisecond, func() { m.loop(c) })
		return
	}
	c.call(func() { m.loop(c) })
}

// open makes calls at random times, at a rate per second.
func (m *simulation) open(c *client, rate float64) {
	m.after(1+seconds(m.random.ExpFloat64()/rate), func() {
		m.open(c, rate)
		c.call(func() {})
	})
}

// strangers send requests at random times.
func (m *simulation) strangers() {
	m.after(1+seconds(m.random.ExpFloat64()/m.scenario.others), func() {
		m.service.accepts(m.now)
		m.strangers()
	})
}

// send sends one request. It returns whether it is throttled, and the time
// until its response.
func (m *simulation) send() (throttled bool, trip time.Duration) {
	throttled = !m.service.accepts(m.now)
	m.countSent(m.now, throttled)
	trip = m.scenario.network
	if !throttled {
		trip += m.scenario.latency
	}
	return throttled, trip
}

func (m *simulation) record(client int, begin time.Duration, succeeded bool) {
	m.countCall(client, begin, m.now, succeeded)
}

// upTo returns a random duration below d.
func (m *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(m.random.Int64N(int64(d)))
}
