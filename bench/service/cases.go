package main

import (
	"fmt"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// cases are what every library goes through.
type cases struct {
	throttlings []throttling
	loops       []loop
	storms      []storm
	pacings     []throttling // for the pacers
	hourlies    []hourly     // for the pacers
	fleets      []fleetSize  // for the budgets

	sdkThrottlings []throttling // for the retryers
	sdkStorms      []storm      // for the retryers
}

// only returns the cases of some tables: throttling, loops, storms, pacing,
// budgets or sdk. "" means all.
func (c cases) only(tables string) (cases, error) {
	switch tables {
	case "":
		return c, nil
	case "throttling":
		return cases{throttlings: c.throttlings}, nil
	case "loops":
		return cases{loops: c.loops}, nil
	case "storms":
		return cases{storms: c.storms}, nil
	case "pacing":
		return cases{pacings: c.pacings, hourlies: c.hourlies}, nil
	case "budgets":
		return cases{fleets: c.fleets}, nil
	case "sdk":
		return cases{sdkThrottlings: c.sdkThrottlings, sdkStorms: c.sdkStorms}, nil
	}
	return cases{}, fmt.Errorf("-only is %q; it must be throttling, loops, storms, pacing, budgets or sdk", tables)
}

var full = cases{
	throttlings: services,
	loops:       closedLoops(256, 30*time.Second, time.Minute),
	storms: storms(storm{
		callers: 200, rate: 5,
		before: 10 * time.Second, outage: 30 * time.Second, after: time.Minute, tail: 20 * time.Second,
	}),
	pacings:  pacings,
	hourlies: []hourly{heroku},
	fleets:   []fleetSize{{10_000, 10 * time.Minute}, {1000, 10 * time.Minute}, {100, 10 * time.Minute}, {1, 10 * time.Minute}},

	sdkThrottlings: services,
	sdkStorms:      []storm{relapsing(200, 30*time.Second, time.Minute)},
}

// services throttle at the same rate all the time, or in steps.
var services = []throttling{
	steady("100 requests per second, one client of 64 callers", 100, 1, 64, 2*time.Minute),
	steady("100 requests per second, eight clients of 8 callers", 100, 8, 8, 3*time.Minute),
	steady("5 requests per second, one client of 64 callers", 5, 1, 64, 5*time.Minute),
	stepped,
}

// short is a small part of full that takes a few seconds.
var short = cases{
	throttlings: fifty(""),
	loops:       closedLoops(128, time.Second, 2*time.Second),
	storms:      storms(storm{callers: 20, rate: 5, before: time.Second, outage: 5 * time.Second, after: 10 * time.Second}),
	pacings:     fifty(", for those that pace"),
	hourlies: []hourly{{
		name: "3600 requests per hour", limit: 3600, clients: 2, callers: 2,
		settle: 15 * time.Second, steady: time.Minute, slow: 10, slowed: 10 * time.Second, within: 30 * time.Second,
	}},
	fleets: []fleetSize{{2000, 2 * time.Minute}},

	sdkThrottlings: fifty(", for clients of the SDK"),
	sdkStorms:      []storm{relapsing(20, 20*time.Second, 20*time.Second)},
}

// fifty is a throttling of a few seconds, for these libraries.
func fifty(libraries string) []throttling {
	return []throttling{{
		name:    "50 requests per second, one client of 16 callers" + libraries,
		virtual: throttled(1, 16, 10*time.Second, 20*time.Second, step{0, 50}),
		wall:    throttled(1, 16, 0, 2*time.Second, step{0, 50}),
	}}
}

// stepped is a throttling whose rate falls, and then rises tenfold.
var stepped = throttling{
	name: "100, then 20, then 200 requests per second, one client of 64 callers",
	virtual: throttled(1, 64, 30*time.Second, 4*time.Minute,
		step{0, 100}, step{time.Minute, 20}, step{2 * time.Minute, 200}),
	wall: throttled(1, 64, 30*time.Second, 90*time.Second,
		step{0, 100}, step{50 * time.Second, 20}, step{70 * time.Second, 200}),
}

// steady is a throttling whose rate does not change.
func steady(name string, rate float64, clients, callers int, to time.Duration) throttling {
	return throttling{
		name:    name,
		virtual: throttled(clients, callers, 30*time.Second, to, step{0, rate}),
		wall:    throttled(clients, callers, 30*time.Second, 90*time.Second, step{0, rate}),
	}
}

// A step is the requests per second that a service admits, from an instant on.
type step struct {
	from time.Duration
	rate float64
}

// throttled is a service that throttles all requests above a rate, and callers
// that call again almost at once. A tenth of a call's latency is a random time
// before the call: callers would otherwise stay in step, and the same ones
// would get the service's tokens. It is measured from an instant on. The first
// step begins at 0.
func throttled(clients, callers int, from, to time.Duration, steps ...step) period {
	s := scenario.Scenario{
		Duration: scenario.Duration(to), Seed: 1,
		Clients: scenario.Clients{Count: clients, Callers: callers, Think: scenario.Duration(latency / 10)},
		Service: unlimited(steps[0].rate),
	}
	s.Service.Network -= s.Clients.Think
	for i, step := range steps[1:] {
		event := scenario.Event{
			Kind: scenario.Throttling, From: scenario.Duration(step.from), Throttle: throttle(step.rate),
		}
		if next := i + 2; next < len(steps) {
			event.To = scenario.Duration(steps[next].from)
		}
		s.Events = append(s.Events, event)
	}
	return period{s, from}
}

// latency is the mean time of a call that nothing delays.
const latency = 10 * time.Millisecond

// unlimited is a service that is limited by its throttle alone.
func unlimited(rate float64) scenario.Service {
	return scenario.Service{
		Capacity: scenario.MaxRate, Queue: scenario.MaxClients,
		Network: scenario.Duration(latency), Throttle: throttle(rate),
	}
}

// throttle returns a bucket for a tenth of a second's requests, at least one.
// Every library knows its status, and the AWS ones look for its code.
func throttle(rate float64) *scenario.Throttle {
	return &scenario.Throttle{Rate: rate, Burst: max(rate/10, 1), Code: "ProvisionedThroughputExceededException"}
}

// storms returns three kinds of the same storm.
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
