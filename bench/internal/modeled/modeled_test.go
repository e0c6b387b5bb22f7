package modeled

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

func TestFigures(t *testing.T) {
	r := Run{Case: Throttled(2, 2, 2*time.Second, 4*time.Second, Step{Rate: 2})}
	call := func(client, caller int, start, took time.Duration, good, unfinished bool) {
		r.Calls = append(r.Calls, simulate.Call{
			Client: client, Caller: caller, Start: start * time.Second, Took: took * time.Second, Good: good,
			Unfinished: unfinished,
		})
	}
	call(0, 0, 1, 1, true, false)
	call(0, 1, 1, 2, true, false)
	call(1, 0, 1, 2, false, false)
	call(1, 1, 0, 4, false, true)
	r.Outcome.Series = simulate.Series{
		Attempts: []float64{9, 9, 4, 4}, Throttled: []float64{9, 9, 2, 4}, Good: []float64{0, 0, 2, 2},
	}
	for _, tt := range []struct {
		Column
		want float64
	}{
		{Goodput, 0.5}, {Refused, 0.75}, {Failed, 1. / 3}, {P50, 2}, {P99, 4}, {FairCallers, 0.5},
		{FairClients, 0.5}, {Begun, -1}, {Stepped, math.NaN()},
	} {
		if got := tt.Of(r); !(math.Abs(got-tt.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%s: got %v, want %v", tt.Name, got, tt.want)
		}
	}
}

// The service of a case admits its steps, and a run has the calls from an
// instant on.
func TestRun(t *testing.T) {
	c := Throttled(1, 4, 10*time.Second, 30*time.Second, Step{Rate: 50}, Step{From: 20 * time.Second, Rate: 25})
	if got := simulate.Serves(c.Scenario, scenario.Duration(c.From), c.Scenario.Duration); got != 10*50+10*25 {
		t.Errorf("the service serves %v", got)
	}
	r, err := c.Run(t.Context(), scenario.Setting{Use: scenario.UseAdaptive}, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range r.Calls {
		if call.Start+call.Took < c.From {
			t.Errorf("%+v ended too early", call)
		}
	}
	if got := Goodput.Of(r); got < 0.7 || got > 1.05 {
		t.Errorf("the goodput is %v", got)
	}
	if got := Stepped.Of(r); got < 0 || got > 10 {
		t.Errorf("the rate after the step is found after %v s", got)
	}
}

func TestEach(t *testing.T) {
	var running, most, sum atomic.Int64
	failure := errors.New("one failed")
	err := Each(100, 3, func(i int) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		sum.Add(int64(i))
		running.Add(-1)
		if i == 7 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) || sum.Load() != 4950 || most.Load() > 3 {
		t.Errorf("%v, the sum is %d, %d at a time", err, sum.Load(), most.Load())
	}
}
