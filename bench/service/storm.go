package main

import (
	"context"
	"fmt"
	"slices"
	"time"

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

// stormFigures are what an outage does.
type stormFigures struct {
	during, peak, after       float64       // attempts per call: in the outage, in the worst second, after the outage
	recovered                 int           // seconds after the outage from which calls succeed again; -1: never
	failedDuring, failedAfter float64       // share of the calls that begin then
	p50, p99                  time.Duration // of a call that begins in the outage, successful or not
}

func (s storm) title() string       { return s.name }
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
		Service: unlimited(capacity),
	}
	event := scenario.Event{Kind: scenario.Outage, From: scenario.Duration(s.before), To: scenario.Duration(s.over())}
	if s.hangs {
		storm.Clients.AttemptTimeout = scenario.Duration(patience)
		storm.Service = scenario.Service{
			Capacity: capacity, Queue: int(capacity * queued.Seconds()), Network: scenario.Duration(latency),
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

// measure runs the libraries.
func (s storm) measure(ctx context.Context, settings []scenario.Setting) ([]stormFigures, error) {
	scenario := s.scenario()
	scenario.Settings = settings
	samples := make([]stormSample, len(settings))
	for i := range samples {
		samples[i] = newStormSample(s)
	}
	observe := func(setting int, c simulate.Call) { samples[setting].add(s, c) }
	r, err := simulate.Run(ctx, scenario, simulate.Options{Observe: observe})
	if err != nil {
		return nil, err
	}
	figures := make([]stormFigures, len(settings))
	for i := range samples {
		figures[i] = samples[i].figures(s, r.Outcomes[i].Series.Attempts)
	}
	return figures, nil
}

// A stormSample is the calls of one library.
type stormSample struct {
	began, succeeded []float64 // calls, by the second in which they begin
	waited           []time.Duration
}

func newStormSample(of storm) stormSample {
	seconds := of.end() / time.Second
	return stormSample{began: make([]float64, seconds), succeeded: make([]float64, seconds)}
}

func (s *stormSample) add(of storm, c simulate.Call) {
	if c.Start >= of.end() {
		return
	}
	second := c.Start / time.Second
	s.began[second]++
	if c.Good {
		s.succeeded[second]++
	}
	if of.before <= c.Start && c.Start < of.over() {
		s.waited = append(s.waited, c.Took)
	}
}

// figures takes the attempts of each second.
func (s *stormSample) figures(of storm, attempts []float64) stormFigures {
	from, to, end := of.before/time.Second, of.over()/time.Second, of.end()/time.Second
	attempts = attempts[:end]
	slices.Sort(s.waited)
	return stormFigures{
		during:       total(attempts[from:to]) / total(s.began[from:to]),
		peak:         slices.Max(attempts[from:]) / of.calls(),
		after:        total(attempts[to:]) / total(s.began[to:]),
		recovered:    recovered(s.began[to:], s.succeeded[to:]),
		failedDuring: 1 - total(s.succeeded[from:to])/total(s.began[from:to]),
		failedAfter:  1 - total(s.succeeded[to:])/total(s.began[to:]),
		p50:          simulate.Percentile(s.waited, 0.50),
		p99:          simulate.Percentile(s.waited, 0.99),
	}
}

// recovered returns the first second from which enough calls succeed for some
// seconds in a row, or -1.
func recovered(began, succeeded []float64) int {
	row := 0
	for second, n := range began {
		if succeeded[second] < good*n {
			row = 0
			continue
		}
		if row++; row == recoverFor {
			return second + 1 - recoverFor
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
