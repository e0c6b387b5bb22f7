package main

import (
	"fmt"
	"math"
	"time"

	"example.com/awsretry/bench/internal/modeled"
	simulated "example.com/awsretry/simulate/scenario"
)

// A scenario is a service and the clients that call it.
type scenario struct {
	name string
	modeled.Case
}

// at returns a service that admits so many requests per second, with a bucket
// for those of a tenth of a second, 10 ms away. One client of 64 callers calls
// it for five minutes, of which the first 30 s are the start, unless a change
// says otherwise.
func at(name string, rate float64, changes ...func(*scenario)) scenario {
	return stepped(name, 5*time.Minute, []modeled.Step{{Rate: rate}}, changes...)
}

// stepped returns a service whose rate changes.
func stepped(name string, length time.Duration, steps []modeled.Step, changes ...func(*scenario)) scenario {
	s := scenario{name: name, Case: modeled.Throttled(1, 64, 30*time.Second, length, steps...)}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func clients(n, callers int) func(*scenario) {
	return func(s *scenario) { s.Scenario.Clients.Count, s.Scenario.Clients.Callers = n, callers }
}

func during(from, to time.Duration) func(*scenario) {
	return func(s *scenario) { s.From, s.Scenario.Duration = from, simulated.Duration(to) }
}

func network(d time.Duration) func(*scenario) {
	return func(s *scenario) { s.Scenario.Service.Network = simulated.Duration(d) }
}

func latency(d time.Duration) func(*scenario) {
	return func(s *scenario) { s.Scenario.Service.Latency.Median = simulated.Duration(d) }
}

// throttle changes the throttle, of a service that keeps its rate.
func throttle(change func(*simulated.Throttle)) func(*scenario) {
	return func(s *scenario) { change(s.Scenario.Service.Throttle) }
}

func burst(n float64) func(*scenario) {
	return throttle(func(t *simulated.Throttle) { t.Burst = n })
}

func atRandom(share float64) func(*scenario) {
	return throttle(func(t *simulated.Throttle) { t.Share = share })
}

func windows(d time.Duration) func(*scenario) {
	return throttle(func(t *simulated.Throttle) { t.Burst, t.Window = 0, simulated.Duration(d) })
}

// inTurn returns steps of equal length that take each rate in turn.
func inTurn(each, length time.Duration, rates ...float64) []modeled.Step {
	var steps []modeled.Step
	for from := time.Duration(0); from < length; from += each {
		steps = append(steps, modeled.Step{From: from, Rate: rates[len(steps)%len(rates)]})
	}
	return steps
}

// scenarios returns all scenarios.
func scenarios() []scenario {
	const second, minute = time.Second, time.Minute
	var swing []float64 // of a minute
	for i := range 12 {
		swing = append(swing, 100+80*math.Sin(2*math.Pi*(float64(i)+0.5)/12))
	}
	all := []scenario{
		// One client.
		at("100/s", 100, during(30*second, 2*minute)),
		at("20/s", 20),
		at("5/s", 5, during(30*second, 10*minute)),
		at("1/s", 1, during(minute, 20*minute)),
		at("1/s, burst of 5", 1, burst(5), during(minute, 20*minute)),
		at("0.2/s, below the least rate", 0.2, clients(1, 16), during(10*minute, 100*minute)),
		at("10000/s", 10_000, clients(1, 1000), during(20*second, minute)),
		at("100/s, burst of 300", 100, burst(300)),
		at("100/s, burst of 1", 100, burst(1)),
		at("50/s, network of 300 ms", 50, network(300*time.Millisecond)),
		at("50/s, latency of 290 ms", 50, latency(290*time.Millisecond)),
		at("2/s, network of 5 s", 2, network(5*second), during(minute, 15*minute)),
		at("2/s, latency of 5 s", 2, latency(5*second), during(minute, 15*minute)),

		// A limit or a load that changes.
		stepped("100/s, 20/s, 200/s", 4*minute, inTurn(minute, 3*minute, 100, 20, 200)),
		stepped("20/s, 200/s", 3*minute, inTurn(minute, 2*minute, 20, 200)),
		stepped("20/s to 180/s and back in a minute", 5*minute, inTurn(5*second, 5*minute, swing...)),
		stepped("30/s and 90/s in turn", 5*minute, inTurn(20*second, 5*minute, 30, 90)),
		stepped("100/s doubles", 90*second, inTurn(minute, 2*minute, 100, 200), during(minute, 90*second)),
		stepped("5/s doubles", 4*minute, inTurn(2*minute, 4*minute, 5, 10), during(2*minute, 4*minute)),
		stepped("200/s halves", 90*second, inTurn(minute, 2*minute, 200, 100), during(minute, 90*second)),

		// Several clients.
		at("100/s, eight clients", 100, clients(8, 8)),
		at("100/s, eight clients, burst of 100", 100, clients(8, 8), burst(100)),
		at("37/s, three clients", 37, clients(3, 21)),
		at("1000/s, twenty clients", 1000, clients(20, 20), during(30*second, 2*minute)),
		at("15/s, six clients", 15, clients(6, 10)),
		at("15/s, six clients, burst of 15", 15, clients(6, 10), burst(15)),

		// Throttling that does not depend on the rate.
		at("100/s, 5 % at random", 100, atRandom(0.05)),
		at("80/s, 5 % at random, latency of 1 s", 80, atRandom(0.05), latency(second), clients(1, 256)),
		at("500/s, 2 % at random", 500, atRandom(0.02)),
		at("500/s, 8 % at random, eight clients", 500, atRandom(0.08), clients(8, 16)),

		// Windows.
		at("windows of 1 s, 200/s", 200, windows(second), during(minute, 5*minute)),
		at("windows of 60 s, 10/s", 10, windows(minute), clients(1, 20), during(2*minute, 15*minute)),
	}
	for _, share := range []float64{0.03, 0.05, 0.08, 0.2} {
		for _, rate := range []float64{20, 80, 200, 500} {
			all = append(all, at(fmt.Sprintf("%v/s, %v %% at random", rate, 100*share), rate, atRandom(share)))
		}
	}
	return all
}
