package main

import (
	"fmt"
	"time"

	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/simulate/scenario"
)

// full returns the pages in docs/results.
func full() []page {
	services := []table{
		steady("100 requests per second, one client of 64 callers", 100, 1, 64, 2*time.Minute),
		steady("100 requests per second, eight clients of 8 callers", 100, 8, 8, 3*time.Minute),
		steady("5 requests per second, one client of 64 callers", 5, 1, 64, 5*time.Minute),
		stepped(),
	}
	var fleets []table
	for _, processes := range []int{10_000, 1000, 100, 1} {
		fleets = append(fleets, budgeted(processes, 10*time.Minute))
	}
	return pages(services, paced(),
		closedLoops(256, 30*time.Second, time.Minute),
		storms(storm{
			callers: 200, rate: 5,
			before: 10 * time.Second, outage: 30 * time.Second, after: time.Minute, tail: 20 * time.Second,
		}),
		fleets, relapsing(200, 30*time.Second, time.Minute))
}

func pages(services, paced, loops, storms, fleets []table, relapse storm) []page {
	return []page{
		{only: "throttling", file: "throttling.md", title: "A modeled service that throttles", terms: ofCalls,
			tables: throttlings(services, libraries, false)},
		{only: "loops", file: "loops.md", title: "Closed loops", terms: ofLoops, tables: loops},
		{only: "storms", file: "outages.md", title: "A service that is down for 30 s", terms: ofOutages, tables: storms},
		{only: "pacing", file: "pacing.md", title: "Services of every size", terms: ofCalls + ofSearch,
			tables: throttlings(paced, pacers, true)},
		{only: "budgets", file: "budgets.md", title: "An outage, and retries of one process to 10,000", terms: ofBudgets,
			tables: fleets, intro: "300 calls a second by so many processes, to a service of 360 requests a second that " +
				"is gone for 30 s:\nthe scenario outage of `awsretry simulate`. Each process has a budget of its own.\n\n"},
		{only: "sdk", file: "awssdk.md", title: "The retryers of the AWS SDK for Go and of awssdk", terms: ofCalls + ofOutages,
			tables: append(throttlings(services, retryers, false), relapse.table(retryers))},
	}
}

// throttlings returns tables of these libraries at services that throttle. For
// pacing they are of virtual time alone, and have the time that it takes to find the
// rate.
func throttlings(services []table, among []library, pacing bool) []table {
	var tables []table
	for _, t := range services {
		t.among = among
		t.columns = []modeled.Column{modeled.Goodput, modeled.Refused, modeled.Failed, modeled.P50, modeled.P99}
		t.columns = append(t.columns, modeled.FairCallers)
		if t.virtual.Scenario.Clients.Count > 1 {
			t.columns = append(t.columns, modeled.FairClients)
		}
		if pacing {
			t.wall = nil
			t.columns = append(t.columns, modeled.Begun)
		}
		if pacing && len(t.virtual.Scenario.Events) > 0 {
			t.columns = append(t.columns, modeled.Stepped)
		}
		tables = append(tables, t)
	}
	return tables
}

// steady is a service whose rate does not change.
func steady(title string, rate float64, clients, callers int, to time.Duration) table {
	step := modeled.Step{Rate: rate}
	return table{
		title:   title,
		virtual: modeled.Throttled(clients, callers, 30*time.Second, to, step),
		wall:    new(modeled.Throttled(clients, callers, 30*time.Second, 90*time.Second, step)),
	}
}

// stepped is a service whose rate falls, and then rises tenfold.
func stepped() table {
	at := func(to, first, second time.Duration) modeled.Case {
		return modeled.Throttled(1, 64, 30*time.Second, to,
			modeled.Step{Rate: 100}, modeled.Step{From: first, Rate: 20}, modeled.Step{From: second, Rate: 200})
	}
	return table{
		title:   "100, then 20, then 200 requests per second, one client of 64 callers",
		virtual: at(4*time.Minute, time.Minute, 2*time.Minute),
		wall:    new(at(90*time.Second, 50*time.Second, 70*time.Second)),
	}
}

// paced returns services of all sizes.
func paced() []table {
	network := func(d time.Duration) func(*scenario.Service) {
		return func(s *scenario.Service) { s.Network = scenario.Duration(d) }
	}
	share := func(refused float64) func(*scenario.Service) {
		return func(s *scenario.Service) { s.Throttle.Share = refused }
	}
	return []table{
		steady("100 requests per second, one client of 64 callers", 100, 1, 64, 2*time.Minute),
		steady("100 requests per second, eight clients of 8 callers", 100, 8, 8, 5*time.Minute),
		steady("5 requests per second, one client of 64 callers", 5, 1, 64, 5*time.Minute),
		stepped(),
		steady("50 requests per second, 300 ms away, one client of 64 callers", 50, 1, 64, 3*time.Minute).
			with(network(300 * time.Millisecond)),
		steady("1 request per second, one client of 64 callers", 1, 1, 64, 5*time.Minute).after(time.Minute),
		steady("2 requests per second, 5 s away, one client of 64 callers", 2, 1, 64, 10*time.Minute).after(time.Minute).
			with(network(5 * time.Second)),
		steady("15 requests per second in bursts of 15, six clients of 10 callers", 15, 6, 10, 5*time.Minute).
			with(func(s *scenario.Service) { s.Throttle.Burst = 15 }),
		steady("500 requests per second, and 8 % refused at random, one client of 64 callers", 500, 1, 64, 5*time.Minute).
			with(share(0.08)),
		steady("80 requests per second, and 5 % refused at random, one client of 64 callers", 80, 1, 64, 5*time.Minute).
			with(share(0.05)),
	}
}

// with changes the service in virtual time.
func (t table) with(change func(*scenario.Service)) table {
	change(&t.virtual.Scenario.Service)
	return t
}

// after measures from another instant on.
func (t table) after(from time.Duration) table {
	t.virtual.From = from
	return t
}

// closedLoops returns a service that throttles, and one that is down, and
// callers that never rest.
func closedLoops(callers int, from, to time.Duration) []table {
	throttles := modeled.Throttled(1, callers, from, to, modeled.Step{Rate: 100})
	down := throttles
	down.Scenario.Events = []scenario.Event{{Kind: scenario.Outage}}
	return []table{
		{title: fmt.Sprintf("The service admits 100 requests per second, %d callers", callers), virtual: throttles,
			among: inLoops(), columns: loopColumns},
		{title: fmt.Sprintf("The service answers 503 to everything, %d callers", callers), virtual: down,
			among: inLoops(), columns: loopColumns},
	}
}
