package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A throttling is a service that throttles, in virtual time and on the wall
// clock.
type throttling struct {
	name          string
	virtual, wall period
}

// A period is a scenario and the instant from which it is measured. The time
// before it is the search for the rate after the very first throttling, which
// hits all callers at once.
type period struct {
	scenario scenario.Scenario
	from     time.Duration
}

// throttlingFigures are what the callers of a throttling service experience.
type throttlingFigures struct {
	goodput     float64       // successful calls, as a share of those that the service could have served
	refused     float64       // share of the attempts
	failed      float64       // share of the calls
	p50, p99    time.Duration // of a call, successful or not, including its delays and its time in line
	fair        float64       // Jain's index of the callers' successful calls
	fairClients float64       // and of the clients'

	// Seconds until the goodput is nine tenths of what the service serves, from
	// the beginning of the run and, the longest, from a step on. -1: never.
	begun, stepped int
}

func (t throttling) title() string { return t.name }

func (t throttling) measure(ctx context.Context, settings []scenario.Setting) ([]throttlingFigures, error) {
	return t.virtual.measure(ctx, settings, simulate.Options{})
}

// measure runs the libraries.
func (p period) measure(ctx context.Context, settings []scenario.Setting, o simulate.Options) (
	[]throttlingFigures, error,
) {
	p.scenario.Settings = settings
	samples := make([]throttlingSample, len(settings))
	for i := range samples {
		samples[i].succeeded = make([]float64, p.scenario.Clients.Count*p.scenario.Clients.Callers)
	}
	o.Observe = func(setting int, c simulate.Call) { samples[setting].add(p, c) }
	r, err := simulate.Run(ctx, p.scenario, o)
	if err != nil {
		return nil, err
	}
	figures := make([]throttlingFigures, len(settings))
	for i, s := range samples {
		figures[i] = s.figures(p, r.Outcomes[i].Series)
	}
	return figures, nil
}

// A throttlingSample is the measured calls of one library.
type throttlingSample struct {
	took      []time.Duration
	ended     float64
	succeeded []float64 // by caller
}

func (s *throttlingSample) add(p period, c simulate.Call) {
	if c.Start+c.Took < p.from {
		return
	}
	s.took = append(s.took, c.Took) // also of an unfinished call, or a caller that starves would not count
	if !c.Unfinished {
		s.ended++
	}
	if c.Good {
		s.succeeded[c.Client*p.scenario.Clients.Callers+c.Caller]++
	}
}

func (s *throttlingSample) figures(p period, series simulate.Series) throttlingFigures {
	slices.Sort(s.took)
	var perClient []float64
	for callers := range slices.Chunk(s.succeeded, p.scenario.Clients.Callers) {
		perClient = append(perClient, total(callers))
	}
	from := int(p.from / time.Second)
	good := total(s.succeeded)
	stepped := 0
	for _, e := range p.scenario.Events {
		took := simulate.SecondsToTheRate(p.scenario, series.Good, int(time.Duration(e.From)/time.Second))
		if took < 0 || stepped >= 0 && took > stepped {
			stepped = took
		}
	}
	return throttlingFigures{
		goodput:     good / simulate.Serves(p.scenario, scenario.Duration(p.from), p.scenario.Duration),
		refused:     total(series.Throttled[from:]) / total(series.Attempts[from:]),
		failed:      1 - good/s.ended,
		p50:         simulate.Percentile(s.took, 0.50),
		p99:         simulate.Percentile(s.took, 0.99),
		fair:        simulate.Jain(s.succeeded),
		fairClients: simulate.Jain(perClient),
		begun:       simulate.SecondsToTheRate(p.scenario, series.Good, 0),
		stepped:     stepped,
	}
}

// about says when the throttling is measured.
func (t throttling) about(wall bool) string {
	virtual := fmt.Sprintf("Measured from %v to %v", t.virtual.from, t.virtual.scenario.Duration)
	if !wall {
		return virtual + "."
	}
	return fmt.Sprintf("%s in virtual time, from %v to %v on the wall clock.", virtual, t.wall.from, t.wall.scenario.Duration)
}

func total(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum
}
