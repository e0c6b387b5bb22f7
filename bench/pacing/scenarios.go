package main

import (
	"fmt"
	"time"
)

// A scenario is a service and the clients that call it.
type scenario struct {
	name   string
	length time.Duration
	from   time.Duration // figures are of what happens from then on

	// A caller of a client makes its next call when the last one ends. Calls of
	// arrivals, per second and of all clients, do not wait for that.
	clients  []int // callers of each
	arrivals float64
	active   func(client int, now time.Duration) bool // whether callers call; nil: always

	network time.Duration // of a request and its response
	latency time.Duration // of a request that is accepted
	limit   limit
	serve   newService
	random  float64 // share of the requests that are throttled before the service sees them
	others  float64 // requests per second of strangers, at random times

	changes    time.Duration // when the limit does, from which on its search is timed
	retryAfter time.Duration // that throttling responses ask for
	varied     bool          // also run for each value of a constant
}

func (s scenario) isActive(client int, now time.Duration) bool {
	return s.active == nil || s.active(client, now)
}

// served returns how many calls the service could serve of those that callers
// would make.
func (s scenario) served(from, to time.Duration) float64 {
	const step = 10 * time.Millisecond
	sum := 0.0
	for now := from; now < to; now += step {
		rate := s.limit(now) - s.others
		if s.arrivals > 0 {
			rate = min(rate, s.arrivals)
		}
		if s.isActive(0, now) {
			sum += rate * step.Seconds()
		}
	}
	return sum
}

// each returns the callers of n clients.
func each(n, callers int) []int {
	clients := make([]int, n)
	for i := range clients {
		clients[i] = callers
	}
	return clients
}

// scenarios returns all scenarios. What one does not set is one client of 64
// callers, 10 ms of network, 300 s of which the first 30 s are the start, and a
// token bucket with the burst of a tenth of a second.
func scenarios() []scenario {
	all := []scenario{
		// One client.
		{name: "100/s", limit: constant(100), length: 120 * time.Second, varied: true},
		{name: "20/s", limit: constant(20), varied: true},
		{name: "5/s", limit: constant(5), length: 600 * time.Second, varied: true},
		{name: "1/s", limit: constant(1), length: 1200 * time.Second, from: time.Minute, varied: true},
		{name: "1/s, burst of 5", limit: constant(1), serve: burst(5 * time.Second),
			length: 1200 * time.Second, from: time.Minute},
		{name: "0.2/s, below the least rate", limit: constant(0.2), clients: each(1, 16),
			length: 6000 * time.Second, from: 600 * time.Second},
		{name: "10000/s", limit: constant(10_000), clients: each(1, 1000),
			length: time.Minute, from: 20 * time.Second},
		{name: "100/s, burst of 300", limit: constant(100), serve: burst(3 * time.Second)},
		{name: "100/s, burst of 1", limit: constant(100), serve: burst(0), varied: true},
		{name: "50/s, network of 300 ms", limit: constant(50), network: 300 * time.Millisecond, varied: true},
		{name: "50/s, latency of 290 ms", limit: constant(50), latency: 290 * time.Millisecond},
		{name: "2/s, network of 5 s", limit: constant(2), network: 5 * time.Second,
			length: 900 * time.Second, from: time.Minute, varied: true},
		{name: "2/s, latency of 5 s", limit: constant(2), latency: 5 * time.Second,
			length: 900 * time.Second, from: time.Minute},
		{name: "100/s, Retry-After of 1 s", limit: constant(100), retryAfter: time.Second},

		// A limit or a load that changes.
		{name: "100/s, 20/s, 200/s", limit: steps(time.Minute, 100, 20, 200),
			length: 240 * time.Second, varied: true},
		{name: "100/s, 20/s, 200/s, burst of 1 s", limit: steps(time.Minute, 100, 20, 200), serve: burst(time.Second),
			length: 240 * time.Second},
		{name: "20/s, 200/s", limit: steps(time.Minute, 20, 200), length: 180 * time.Second},
		{name: "20/s to 180/s in 30 s", limit: wave(100, 80, time.Minute), varied: true},
		{name: "20/s to 180/s in 60 s", limit: wave(100, 80, 2*time.Minute), length: 360 * time.Second},
		{name: "30/s and 90/s in turn", limit: square(20*time.Second, 30, 90), varied: true},
		{name: "100/s doubles", limit: steps(time.Minute, 100, 200), length: 90 * time.Second,
			from: time.Minute, changes: time.Minute, varied: true},
		{name: "5/s doubles", limit: steps(2*time.Minute, 5, 10), length: 240 * time.Second,
			from: 2 * time.Minute, changes: 2 * time.Minute, varied: true},
		{name: "200/s halves", limit: steps(time.Minute, 200, 100), length: 90 * time.Second, from: time.Minute},
		{name: "100/s, strangers take 40/s", limit: constant(100), others: 40},
		{name: "100/s, 60 s busy, 30 s idle", limit: constant(100),
			active: func(_ int, now time.Duration) bool { return now%(90*time.Second) < time.Minute }},
		{name: "80/s of 100/s, at random times", limit: constant(100), arrivals: 80, clients: []int{0}, varied: true},

		// Several clients.
		{name: "100/s, eight clients", limit: constant(100), clients: each(8, 8), varied: true},
		{name: "100/s, eight clients, burst of 100", limit: constant(100), clients: each(8, 8),
			serve: burst(time.Second)},
		{name: "37/s, three clients", limit: constant(37), clients: each(3, 21), varied: true},
		{name: "1000/s, twenty clients", limit: constant(1000), clients: each(20, 20), length: 120 * time.Second},
		{name: "100/s, clients of 2, 8 and 32", limit: constant(100), clients: []int{2, 8, 32}, varied: true},
		{name: "100/s, a second client after 100 s", limit: constant(100), clients: each(2, 32),
			active: func(client int, now time.Duration) bool { return client == 0 || now > 100*time.Second }},
		{name: "15/s, six clients", limit: constant(15), clients: each(6, 10)},
		{name: "15/s, six clients of 64", limit: constant(15), clients: each(6, 64)},
		{name: "15/s, six clients, burst of 15", limit: constant(15), clients: each(6, 10),
			serve: burst(time.Second), varied: true},

		// Throttling that does not depend on the rate.
		{name: "100/s, 5 % at random", limit: constant(100), random: 0.05},
		{name: "80/s of 1000/s, 5 % at random", limit: constant(1000), random: 0.05, arrivals: 80, clients: []int{0}},
		{name: "80/s, 5 % at random, latency of 1 s", limit: constant(80), random: 0.05,
			latency: time.Second, clients: each(1, 256)},
		{name: "500/s, 2 % at random", limit: constant(500), random: 0.02},
		{name: "500/s, 8 % at random, eight clients", limit: constant(500), random: 0.08, clients: each(8, 16)},

		// Other rate limiters.
		{name: "nginx, 200/s, no burst", limit: constant(200), serve: nginx(0)},
		{name: "nginx, 200/s, burst of 20", limit: constant(200), serve: nginx(20)},
		{name: "HAProxy, 200/s in 1 s", limit: constant(200), serve: haproxy(time.Second),
			from: time.Minute, varied: true},
		{name: "HAProxy, 200/s in 10 s", limit: constant(200), serve: haproxy(10 * time.Second), from: time.Minute},
		{name: "windows of 1 s, 200/s", limit: constant(200), serve: fixed(time.Second), from: time.Minute},
		{name: "windows of 60 s, 10/s", limit: constant(10), serve: fixed(time.Minute), clients: each(1, 20),
			length: 900 * time.Second, from: 120 * time.Second},
	}
	for _, share := range []float64{0.03, 0.05, 0.08, 0.2} {
		for _, rate := range []float64{20, 80, 200, 500} {
			all = append(all, scenario{name: fmt.Sprintf("%v/s, %v %% at random", rate, 100*share),
				limit: constant(rate), random: share, varied: rate == 80 || rate == 500 && share == 0.08})
		}
	}
	for i := range all {
		all[i].setDefaults()
	}
	return all
}

func (s *scenario) setDefaults() {
	if s.length == 0 {
		s.length = 300 * time.Second
	}
	if s.from == 0 {
		s.from = 30 * time.Second
	}
	if s.clients == nil {
		s.clients = each(1, 64)
	}
	if s.network == 0 {
		s.network = 10 * time.Millisecond
	}
	if s.serve == nil {
		s.serve = burst(100 * time.Millisecond)
	}
}
