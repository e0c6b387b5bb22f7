package main

import (
	"slices"
	"time"

	"example.com/awsretry/simulate/scenario"
)

const (
	scaledName = "awsretry adaptive, ScaledPacing"
	limitsName = "awsretry adaptive, Limits"
)

var scaledPacing = library{name: scaledName, over: ours(adaptive, scaled)}

// pacers are compared in finding the rate of a service, in virtual time.
var pacers = slices.Concat(
	named(adaptiveName), []library{scaledPacing}, named(sdkAdaptiveName, "rehttp, ExpJitterDelay"),
)

// hourlyPacers are compared where the service says what is left.
var hourlyPacers = slices.Concat(
	named(standardName, adaptiveName),
	[]library{scaledPacing},
	named(sdkAdaptiveName, "go-retryablehttp", "rehttp, ExpJitterDelay"),
	[]library{{name: limitsName, over: ours(adaptive, scaled, limits)}},
)

// named returns libraries. Only the AWS SDK runs on the wall clock.
func named(names ...string) []library {
	var found []library
	for _, lib := range libraries {
		if !slices.Contains(names, lib.name) {
			continue
		}
		if lib.name != sdkAdaptiveName {
			lib.wall = nil
		}
		found = append(found, lib)
	}
	return found
}

// pacings are services of all sizes.
var pacings = []throttling{
	steady("100 requests per second, one client of 64 callers", 100, 1, 64, 2*time.Minute),
	steady("100 requests per second, eight clients of 8 callers", 100, 8, 8, 5*time.Minute),
	steady("5 requests per second, one client of 64 callers", 5, 1, 64, 5*time.Minute),
	stepped,
	steady("50 requests per second, 300 ms away, one client of 64 callers", 50, 1, 64, 3*time.Minute).
		with(func(s *scenario.Scenario) { s.Service.Network = scenario.Duration(300 * time.Millisecond) }),
	steady("1 request per second, one client of 64 callers", 1, 1, 64, 5*time.Minute).after(time.Minute),
	steady("2 requests per second, 5 s away, one client of 64 callers", 2, 1, 64, 10*time.Minute).after(time.Minute).
		with(func(s *scenario.Scenario) { s.Service.Network = scenario.Duration(5 * time.Second) }),
	steady("15 requests per second in bursts of 15, six clients of 10 callers", 15, 6, 10, 5*time.Minute).
		with(func(s *scenario.Scenario) { s.Service.Throttle.Burst = 15 }),
	steady("500 requests per second, and 8 % refused at random, one client of 64 callers", 500, 1, 64, 5*time.Minute).
		with(func(s *scenario.Scenario) { s.Service.Throttle.Share = 0.08 }),
	steady("80 requests per second, and 5 % refused at random, one client of 64 callers", 80, 1, 64, 5*time.Minute).
		with(func(s *scenario.Scenario) { s.Service.Throttle.Share = 0.05 }),
}

// with changes both scenarios.
func (t throttling) with(change func(*scenario.Scenario)) throttling {
	change(&t.virtual.scenario)
	change(&t.wall.scenario)
	return t
}

// after measures from another instant on, and as long on the wall clock.
func (t throttling) after(from time.Duration) throttling {
	t.wall.scenario.Duration += scenario.Duration(from - t.wall.from)
	t.virtual.from, t.wall.from = from, from
	return t
}
