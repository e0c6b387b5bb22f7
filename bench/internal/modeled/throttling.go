package modeled

import (
	"math"
	"slices"
	"time"

	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// Latency is the mean time of a call that nothing delays.
const Latency = 10 * time.Millisecond

// A Step is the requests per second that a service admits, from an instant on.
type Step struct {
	From time.Duration
	Rate float64
}

// Throttled is a service that throttles all requests above a rate, and callers
// that call again almost at once. A tenth of a call's latency is a random time
// before the call: callers would otherwise stay in step, and the same ones
// would get the service's tokens. The first step begins at 0.
func Throttled(clients, callers int, from, to time.Duration, steps ...Step) Case {
	s := scenario.Scenario{
		Duration: scenario.Duration(to), Seed: 1,
		Clients: scenario.Clients{Count: clients, Callers: callers, Think: scenario.Duration(Latency / 10)},
		Service: Unlimited(steps[0].Rate),
	}
	s.Service.Network -= s.Clients.Think
	for i, step := range steps[1:] {
		event := scenario.Event{
			Kind: scenario.Throttling, From: scenario.Duration(step.From), Throttle: Throttle(step.Rate),
		}
		if next := i + 2; next < len(steps) {
			event.To = scenario.Duration(steps[next].From)
		}
		s.Events = append(s.Events, event)
	}
	return Case{Scenario: s, From: from}
}

// Unlimited is a service that is limited by its throttle alone.
func Unlimited(rate float64) scenario.Service {
	return scenario.Service{
		Capacity: scenario.MaxRate, Queue: scenario.MaxClients,
		Network: scenario.Duration(Latency), Throttle: Throttle(rate),
	}
}

// Throttle returns a bucket for a tenth of a second's requests, at least one.
// Every library knows its status, and the AWS ones look for its code.
func Throttle(rate float64) *scenario.Throttle {
	return &scenario.Throttle{Rate: rate, Burst: max(rate/10, 1), Code: "ProvisionedThroughputExceededException"}
}

// A Column has a figure of a run.
type Column = output.Column[Run]

// The figures of callers of a service that throttles.
var (
	Goodput     = Column{Name: "goodput", Of: Run.goodput, Show: output.Percent}
	Refused     = Column{Name: "throttled", Of: Run.refused, Show: output.Percent}
	Failed      = Column{Name: "calls failed", Of: Run.failed, Show: output.Percent}
	P50         = Took("p50", 0.5)
	P99         = Took("p99", 0.99)
	FairCallers = Column{Name: "Jain, callers", Of: func(r Run) float64 { return simulate.Jain(r.succeeded()) }, Show: index}
	FairClients = Column{Name: "Jain, clients", Of: func(r Run) float64 { return simulate.Jain(r.byClient()) }, Show: index}
	Begun       = Column{Name: "90 % after", Of: func(r Run) float64 { return r.foundAfter(0) }, Show: found}
	Stepped     = Column{Name: "after a step", Of: Run.stepped, Show: found}

	index   = output.Number("%.3f")
	found   = output.Unless("never", "%.0f s")
	seconds = output.Number("%.2f s")
)

// Took is the time that a share of the calls take at most, successful or not,
// with their delays and their time in line. An unfinished call counts too, or a
// caller that starves would not.
func Took(name string, share float64) Column {
	return Column{Name: name, Show: seconds, Of: func(r Run) float64 {
		var took []time.Duration
		for _, c := range r.Calls {
			took = append(took, c.Took)
		}
		slices.Sort(took)
		return simulate.Percentile(took, share).Seconds()
	}}
}

// goodput is the successful calls, as a share of those that the service could
// have served.
func (r Run) goodput() float64 {
	serves := simulate.Serves(r.Case.Scenario, scenario.Duration(r.Case.From), r.Case.Scenario.Duration)
	return Total(r.succeeded()) / serves
}

func (r Run) refused() float64 {
	return r.Since(r.Outcome.Series.Throttled) / r.Since(r.Outcome.Series.Attempts)
}

func (r Run) failed() float64 {
	ended := 0.0
	for _, c := range r.Calls {
		if !c.Unfinished {
			ended++
		}
	}
	return 1 - Total(r.succeeded())/ended
}

// succeeded returns each caller's successful calls.
func (r Run) succeeded() []float64 {
	callers := r.Case.Scenario.Clients.Callers
	succeeded := make([]float64, r.Case.Scenario.Clients.Count*callers)
	for _, c := range r.Calls {
		if c.Good {
			succeeded[c.Client*callers+c.Caller]++
		}
	}
	return succeeded
}

func (r Run) byClient() []float64 {
	var clients []float64
	for callers := range slices.Chunk(r.succeeded(), r.Case.Scenario.Clients.Callers) {
		clients = append(clients, Total(callers))
	}
	return clients
}

// foundAfter returns the seconds from a second on until the goodput is nine
// tenths of what the service serves, or -1.
func (r Run) foundAfter(second int) float64 {
	return float64(simulate.SecondsToTheRate(r.Case.Scenario, r.Outcome.Series.Good, second))
}

// stepped returns the longest of the times from a step on, -1, or NaN if there
// is no step.
func (r Run) stepped() float64 {
	longest := math.NaN()
	for _, e := range r.Case.Scenario.Events {
		took := r.foundAfter(int(time.Duration(e.From) / time.Second))
		switch {
		case e.Kind != scenario.Throttling:
		case took < 0:
			return took
		case !(longest > took):
			longest = took
		}
	}
	return longest
}

// Since returns the sum of a series from From on.
func (r Run) Since(series []float64) float64 { return Total(series[int(r.Case.From/time.Second):]) }

// Total returns the sum of the values.
func Total(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum
}
