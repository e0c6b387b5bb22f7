package main

import "time"

// cases are what is run through every library.
type cases struct {
	throttlings []throttling
	storms      []storm
}

var full = cases{
	throttlings: []throttling{
		constant("100 requests per second, one client of 64 callers", 100, 1, 64, 2*time.Minute),
		constant("100 requests per second, eight clients of 8 callers", 100, 8, 8, 3*time.Minute),
		constant("5 requests per second, one client of 64 callers", 5, 1, 64, 5*time.Minute),
		{
			name:    "100, then 20, then 200 requests per second, one client of 64 callers",
			clients: 1, callers: 64,
			virtual: period{schedule{{0, 100}, {time.Minute, 20}, {2 * time.Minute, 200}}, 30 * time.Second, 4 * time.Minute},
			wall:    period{schedule{{0, 100}, {wallFrom + wallLength/3, 20}, {wallFrom + 2*wallLength/3, 200}}, wallFrom, wallFrom + wallLength},
		},
	},
	storms: storms(storm{callers: 200, rate: 5, before: 10 * time.Second, outage: 30 * time.Second, after: time.Minute, tail: 20 * time.Second}),
}

const wallFrom, wallLength = 30 * time.Second, time.Minute

func constant(name string, rate float64, clients, callers int, to time.Duration) throttling {
	s := schedule{{0, rate}}
	return throttling{name, clients, callers, period{s, 30 * time.Second, to}, period{s, wallFrom, wallFrom + wallLength}}
}

// short is a small part of full, for a few seconds.
var short = cases{
	throttlings: []throttling{{
		"50 requests per second, one client of 16 callers", 1, 16,
		period{schedule{{0, 50}}, 10 * time.Second, 20 * time.Second},
		period{schedule{{0, 50}}, time.Second, 4 * time.Second},
	}},
	storms: storms(storm{callers: 10, rate: 5, before: time.Second, outage: 5 * time.Second, after: 8 * time.Second}),
}

// storms are three kinds of the same one.
func storms(s storm) []storm {
	refuses, shared, hangs := s, s, s
	refuses.name = "The service answers 503 at once, each client is a process of its own"
	refuses.clients, refuses.callers, refuses.headroom = s.callers, 1, 1.2
	shared.name = "The service answers 503 at once, all clients are callers in one process"
	shared.clients, shared.headroom = 1, 1.2
	hangs.name = "The service hangs, each client is a process of its own"
	hangs.clients, hangs.callers, hangs.headroom, hangs.hangs = s.callers, 1, 1.5, true
	return []storm{refuses, shared, hangs}
}
