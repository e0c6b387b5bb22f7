package simulate

import (
	"math"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A pace is the rate of the calls of one client over time, per second.
type pace struct {
	every time.Duration // 0: the first rate lasts
	rates []float64
}

// paceOf returns the rate of each of the clients.
func paceOf(s scenario.Scenario) pace {
	count := float64(s.Clients.Count)
	o := s.OverTime
	if o == nil || len(o.Rate) == 0 {
		return pace{rates: []float64{s.Clients.Rate / count}}
	}
	p := pace{every: time.Duration(o.Every)}
	for _, rate := range o.Rate {
		p.rates = append(p.rates, rate/count)
	}
	return p
}

// next returns when the next call arrives after t, or never. In a Poisson
// process, the number of calls that are expected until then is exponentially
// distributed with the mean 1. x is the random number for it.
func (p pace) next(t time.Duration, x uint64) time.Duration {
	if p.every == 0 {
		return t + exponential(x, float64(time.Second)/p.rates[0])
	}
	expected := -math.Log1p(-unit(x))
	for step := int(t / p.every); step < len(p.rates); step++ {
		end := time.Duration(step+1) * p.every
		if within := p.rates[step] * (end - t).Seconds(); within < expected {
			expected -= within
			t = end
			continue
		}
		return t + span(expected/p.rates[step]*float64(time.Second))
	}
	return never
}
