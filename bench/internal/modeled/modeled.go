// Package modeled runs retries in virtual time, against the service that package
// simulate models, and has the figures of services that throttle.
package modeled

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A Case is a scenario without settings, and the instant from which it is
// measured. The time before it is often the search for the rate after the very
// first throttling, which hits all callers at once.
type Case struct {
	Scenario scenario.Scenario
	From     time.Duration
}

// A Run is what happened to the calls of one setting.
type Run struct {
	Case    Case
	Calls   []simulate.Call // without those that ended before From
	Outcome simulate.Outcome
}

// Run runs the case with a setting.
func (c Case) Run(ctx context.Context, setting scenario.Setting, o simulate.Options) (Run, error) {
	r := Run{Case: c}
	c.Scenario.Settings = []scenario.Setting{setting}
	o.Observe = func(_ int, call simulate.Call) {
		if call.Start+call.Took >= c.From {
			r.Calls = append(r.Calls, call)
		}
	}
	result, err := simulate.Run(ctx, c.Scenario, o)
	if err != nil {
		return r, err
	}
	r.Outcome = result.Outcomes[0]
	return r, nil
}

// Each calls f with the numbers below n, so many at a time. 0 means as many as
// there are processors.
func Each(n, atOnce int, f func(int) error) error {
	running := make(chan struct{}, cmp.Or(atOnce, runtime.GOMAXPROCS(0)))
	failures := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		running <- struct{}{}
		all.Go(func() {
			failures[i] = f(i)
			<-running
		})
	}
	all.Wait()
	return errors.Join(failures...)
}
