package main

import (
	"fmt"
	"slices"
	"time"

	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A storm is an outage of a service that callers call at a rate that does not
// depend on the responses, as if each call were made for a user of theirs.
type storm struct {
	name             string
	clients, callers int           // callers of each client
	rate             float64       // calls per second of each caller
	before           time.Duration // the outage
	outage, after    time.Duration
	tail             time.Duration // in which the calls continue unmeasured, for the retries of earlier ones
	hangs            bool          // in the outage it does not respond; otherwise it responds with 503 at once
	headroom         float64       // capacity of the service, as a multiple of the calls
	errors           float64       // share of the responses that are 500 after the outage
}

const (
	patience   = time.Second     // a connection waits so long for a response
	queued     = 2 * time.Second // a service that hangs queues as much work
	recoverFor = 5               // seconds in a row that must be good
	good       = 0.99            // of the calls
)

// storms returns three kinds of the same storm.
func storms(s storm) []table {
	refuses, shared, hangs := s, s, s
	refuses.name = "The service answers 503 at once, each client is a process of its own"
	refuses.clients, refuses.callers, refuses.headroom = s.callers, 1, 1.2
	shared.name = "The service answers 503 at once, all clients are callers in one process"
	shared.clients, shared.headroom = 1, 1.2
	hangs.name = "The service hangs, each client is a process of its own"
	hangs.clients, hangs.callers, hangs.headroom, hangs.hangs = s.callers, 1, 1.5, true
	return []table{refuses.table(libraries), shared.table(libraries), hangs.table(libraries)}
}

// relapsing is an outage after which some responses are still errors.
func relapsing(clients int, outage, after time.Duration) storm {
	return storm{
		name:    "The service answers 503 at once, and then 500 to 5 % of the requests",
		clients: clients, callers: 1, rate: 5, headroom: 1.2, errors: 0.05,
		before: 10 * time.Second, outage: outage, after: after, tail: 20 * time.Second,
	}
}

func (s storm) calls() float64      { return float64(s.clients*s.callers) * s.rate } // per second
func (s storm) end() time.Duration  { return s.before + s.outage + s.after }
func (s storm) over() time.Duration { return s.before + s.outage }

func (s storm) scenario() scenario.Scenario {
	const inFlight = 40 // seconds' worth of calls, more than any library keeps waiting
	capacity := s.headroom * s.calls()
	storm := scenario.Scenario{
		Duration: scenario.Duration(s.end() + s.tail), Seed: 1,
		Clients: scenario.Clients{
			Count: s.clients, Rate: s.calls(), MaxInFlight: int(inFlight * s.rate * float64(s.callers)),
		},
		Service: modeled.Unlimited(capacity),
	}
	event := scenario.Event{Kind: scenario.Outage, From: scenario.Duration(s.before), To: scenario.Duration(s.over())}
	if s.hangs {
		storm.Clients.AttemptTimeout = scenario.Duration(patience)
		storm.Service = scenario.Service{
			Capacity: capacity, Queue: int(capacity * queued.Seconds()), Network: scenario.Duration(modeled.Latency),
		}
		event.Kind, event.Capacity = scenario.CapacityStep, 1e-9 // requests wait, and hardly any passes
	}
	storm.Events = []scenario.Event{event}
	if s.errors > 0 {
		storm.Events = append(storm.Events, scenario.Event{
			Kind: scenario.Errors, From: scenario.Duration(s.over()), Share: s.errors,
		})
	}
	return storm
}

func (s storm) table(among []library) table {
	from, to, end := int(s.before/time.Second), int(s.over()/time.Second), int(s.end()/time.Second)
	load := func(from, to int) func(modeled.Run) float64 {
		return func(r modeled.Run) float64 {
			began, _ := s.bySecond(r)
			return modeled.Total(r.Outcome.Series.Attempts[from:to]) / modeled.Total(began[from:to])
		}
	}
	failed := func(from, to int) func(modeled.Run) float64 {
		return func(r modeled.Run) float64 {
			began, succeeded := s.bySecond(r)
			return 1 - modeled.Total(succeeded[from:to])/modeled.Total(began[from:to])
		}
	}
	times, never := output.Number("%.2f×"), fmt.Sprintf("> %.0f s", s.after.Seconds())
	return table{
		title: s.name, text: s.about(), virtual: modeled.Case{Scenario: s.scenario()}, among: among,
		columns: []modeled.Column{
			{Name: "load in the outage", Of: load(from, to), Show: times},
			{Name: "worst second", Show: times, Of: func(r modeled.Run) float64 {
				return slices.Max(r.Outcome.Series.Attempts[from:end]) / s.calls()
			}},
			{Name: "load after it", Of: load(to, end), Show: times},
			{Name: "recovered after", Show: output.Unless(never, "%.0f s"), Of: func(r modeled.Run) float64 {
				began, succeeded := s.bySecond(r)
				return recovered(began[to:], succeeded[to:])
			}},
			{Name: "failed in the outage", Of: failed(from, to), Show: output.Percent},
			{Name: "failed after it", Of: failed(to, end), Show: output.Percent},
			s.inTheOutage(modeled.Took("p50 in the outage", 0.5)),
			s.inTheOutage(modeled.P99),
		},
	}
}

// bySecond returns the calls, and those that succeed, by the second in which they
// begin.
func (s storm) bySecond(r modeled.Run) (began, succeeded []float64) {
	began, succeeded = make([]float64, s.end()/time.Second), make([]float64, s.end()/time.Second)
	for _, c := range r.Calls {
		if c.Start >= s.end() {
			continue
		}
		began[c.Start/time.Second]++
		if c.Good {
			succeeded[c.Start/time.Second]++
		}
	}
	return began, succeeded
}

// inTheOutage is a column of the calls that begin in the outage.
func (s storm) inTheOutage(of modeled.Column) modeled.Column {
	all := of.Of
	of.Of = func(r modeled.Run) float64 {
		r.Calls = slices.DeleteFunc(slices.Clone(r.Calls), func(c simulate.Call) bool {
			return c.Start < s.before || c.Start >= s.over()
		})
		return all(r)
	}
	return of
}

// recovered returns the first second from which enough calls succeed for some
// seconds in a row, or -1.
func recovered(began, succeeded []float64) float64 {
	row := 0
	for second, n := range began {
		if succeeded[second] < good*n {
			row = 0
			continue
		}
		if row++; row == recoverFor {
			return float64(second + 1 - recoverFor)
		}
	}
	return -1
}

// about says what the storm is.
func (s storm) about() string {
	capacity := fmt.Sprintf("It serves %.0f requests per second and throttles the rest", s.headroom*s.calls())
	if s.hangs {
		capacity = fmt.Sprintf("It serves %.0f requests per second in their order, keeps %v worth of them waiting and "+
			"answers 503 to more; callers give up an attempt after %v, which it does not learn",
			s.headroom*s.calls(), queued, patience)
	}
	return fmt.Sprintf("%d callers with %v calls per second each, whatever the response; "+
		"an outage of %v after %v; measured until %v after it. %s.",
		s.clients*s.callers, s.rate, s.outage, s.before, s.after, capacity)
}
