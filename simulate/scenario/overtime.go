package scenario

import (
	"fmt"
	"time"
)

// OverTime is how the load and the service change in steps of equal length. A list
// has one number for each step, up to the end of the run; an empty one changes
// nothing. An event that sets the same value overrides OverTime while it lasts.
type OverTime struct {
	Every Duration `yaml:"every" json:"every"` // the length of a step

	// Rate is the calls per second of all clients together, in place of
	// Clients.Rate.
	Rate []float64 `yaml:"rate,flow,omitempty" json:"rate,omitempty"`

	// Throttled is the share of the requests that are refused at random, in
	// place of Service.Throttle.Share.
	Throttled []float64 `yaml:"throttled,flow,omitempty" json:"throttled,omitempty"`

	// Errors is the share of the responses that are 500.
	Errors []float64 `yaml:"errors,flow,omitempty" json:"errors,omitempty"`

	// Latency multiplies the latencies.
	Latency []float64 `yaml:"latency,flow,omitempty" json:"latency,omitempty"`
}

// steps returns how many steps a run has.
func (o *OverTime) steps(run Duration) int {
	return int((run + o.Every - 1) / o.Every)
}

// Starts returns when the steps of a run begin.
func (o *OverTime) Starts(run Duration) []time.Duration {
	if o == nil {
		return nil
	}
	all := make([]time.Duration, o.steps(run))
	for i := range all {
		all[i] = time.Duration(i) * time.Duration(o.Every)
	}
	return all
}

// arriving returns how many calls per second arrive at most, and how many arrive in
// the whole run on average.
func (s Scenario) arriving() (most, inAll float64) {
	o := s.OverTime
	if o == nil || len(o.Rate) == 0 {
		return s.Clients.Rate, s.Clients.Rate * time.Duration(s.Duration).Seconds()
	}
	for _, rate := range o.Rate {
		most = max(most, rate)
		inAll += rate * time.Duration(o.Every).Seconds()
	}
	return most, inAll
}

func (c *checker) overTime(s Scenario) {
	o := s.OverTime
	if o == nil {
		return
	}
	c.within("over_time.every", o.Every, Duration(100*time.Millisecond), Duration(maxDuration))
	if o.Every <= 0 || s.Duration <= 0 {
		return
	}
	steps := o.steps(min(s.Duration, Duration(maxDuration)))
	c.check(steps <= maxSteps, "over_time.every", o.Every,
		"longer: the run would have %d steps, and at most %d are allowed", steps, maxSteps)
	for _, list := range []struct {
		field  string
		values []float64
		most   float64
	}{
		{"over_time.rate", o.Rate, maxRate},
		{"over_time.throttled", o.Throttled, 1},
		{"over_time.errors", o.Errors, 1},
		{"over_time.latency", o.Latency, maxRate},
	} {
		c.check(len(list.values) == 0 || len(list.values) == steps, list.field, fmt.Sprintf("%d numbers", len(list.values)),
			"%d, one for each step of the run, or none", steps)
		for i, v := range list.values[:min(len(list.values), maxSteps)] {
			c.number(fmt.Sprintf("%s[%d]", list.field, i), v, list.most)
		}
	}
	c.check(len(o.Rate) == 0 || s.Clients.Rate > 0, "over_time.rate", "set",
		"left out if clients.rate is 0: it takes the place of it")
	c.check(len(o.Throttled) == 0 || s.Service.Throttle != nil, "over_time.throttled", "set",
		"left out without service.throttle, whose share it changes")
}
