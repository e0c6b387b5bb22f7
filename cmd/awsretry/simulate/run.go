package simulate

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Options of [Run]. The zero value is ready to use.
type Options struct {
	Parallel int                 // settings that run at the same time; 0: GOMAXPROCS
	Getenv   func(string) string // looks up the variables that a profile is read with; nil: os.Getenv
	Progress func(float64)       // called now and then, from one goroutine at a time, with the part of the work that is done, 0 to 1; nil: not called
}

// Run simulates s with each of its settings and returns what became of it. The same scenario gives the same result. The errors are
// those of [Scenario.Validate], of a setting's file that cannot be read, and ctx's cause where it ends first.
func Run(ctx context.Context, s Scenario, o Options) (*Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if godebug := os.Getenv("GODEBUG"); strings.Contains(godebug, "asynctimerchan=") && !strings.Contains(godebug, "asynctimerchan=0") {
		return nil, fmt.Errorf("simulate: GODEBUG is %s; it must not set asynctimerchan, which excludes virtual time", clipped(godebug))
	}
	s = s.withDefaults()
	makers := make([]maker, len(s.Settings))
	for i, setting := range s.Settings {
		var err error
		if makers[i], err = setting.maker(o.Getenv); err != nil {
			return nil, fmt.Errorf("simulate: setting %s: %w", clipped(setting.Label()), err)
		}
	}

	var simulated atomic.Int64 // seconds, of all settings together
	defer follow(&simulated, int64(time.Duration(s.Duration)/slot)*int64(len(makers)), o.Progress)()

	result := &Result{Scenario: s, Outcomes: make([]Outcome, len(makers))}
	turn := make(chan struct{}, max(orElse(o.Parallel, runtime.GOMAXPROCS(0)), 1))
	var runs sync.WaitGroup
	for i, m := range makers {
		turn <- struct{}{}
		runs.Go(func() {
			defer func() { <-turn }()
			result.Outcomes[i] = outcome(s, s.Settings[i], m, simulate(ctx, s, m, &simulated))
		})
	}
	runs.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, nil
}

// follow tells progress how much of the work is done, until the function that it returns is called. It stands outside
// of virtual time.
func follow(done *atomic.Int64, all int64, progress func(float64)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	end := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				progress(float64(done.Load()) / float64(max(all, 1)))
				return
			case <-tick.C:
				progress(float64(done.Load()) / float64(max(all, 1)))
			}
		}
	})
	return func() { close(end); following.Wait() }
}

// simulate runs one setting, and adds the seconds of virtual time to simulated as they pass. Once ctx has ended it ends early, and
// what it returns means nothing.
func simulate(ctx context.Context, s Scenario, m maker, simulated *atomic.Int64) *recorder {
	duration := time.Duration(s.Duration)
	record := newRecorder(duration, s.Clients.Count)
	synctest.Test(new(testing.T), func(*testing.T) {
		g := newGrid(owners(s))
		f := newFleet(s, m, g, newService(s, g, record), record)
		running, stop := context.WithCancel(context.Background())
		f.start(running)
		every := sampleEvery(duration)
		for t := slot; t <= duration && ctx.Err() == nil; t += slot {
			g.sleepUntil(t) // an instant of the run's own: nobody else acts
			if t%every == 0 {
				f.sample(t, m)
			}
			simulated.Add(1)
		}
		if ctx.Err() == nil {
			g.sleepUntil(duration)
		}
		stop()
		f.calls.Wait()
	})
	record.sortLatencies()
	return record
}

// sampleEvery is the time between two looks into the buckets: about three hundred in a run.
func sampleEvery(duration time.Duration) time.Duration {
	const samples = 300
	return max(duration/samples/slot, 1) * slot
}
