package simulate

import (
	"cmp"
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

	"example.com/awsretry/simulate/scenario"
)

// Options configure [Run]. The zero value is ready to use.
type Options struct {
	Parallel int                 // settings that run at the same time; 0: GOMAXPROCS
	Getenv   func(string) string // looks up the variables for a profile; nil: os.Getenv

	// Progress is called from time to time, by one goroutine at a time, with
	// the share of the work that is done. It may be nil.
	Progress func(float64)

	// Observe is called for every call, with the index of its setting, when the
	// call or the run ends. For one setting it is called sequentially, for
	// different settings concurrently. It may be nil.
	Observe func(setting int, c Call)

	// WallClock runs in real time, for a RoundTripper that does not work in
	// virtual time, in which the clock advances only while every goroutine waits.
	// The result then depends on the machine.
	WallClock bool
}

// Run simulates s with each of its settings. The same scenario gives the same
// result. Run returns the error of [scenario.Scenario.Validate], the error of a
// setting's file that cannot be read, or ctx's cause if ctx ends first.
func Run(ctx context.Context, s scenario.Scenario, o Options) (*Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if !o.WallClock {
		if err := virtualTime(); err != nil {
			return nil, err
		}
	}
	s = s.WithDefaults()
	makers := make([]maker, len(s.Settings))
	for i, setting := range s.Settings {
		var err error
		if makers[i], err = newMaker(setting, o.Getenv); err != nil {
			return nil, fmt.Errorf("simulate: setting %.60q: %w", setting.Label(), err)
		}
		makers[i].attemptTimeout = time.Duration(setting.AttemptTimeout)
	}

	var simulated atomic.Int64 // seconds, of all settings together
	defer follow(&simulated, int64(ends(s)/slot)*int64(len(makers)), o.Progress)()

	result := &Result{
		Scenario: s, Outcomes: make([]Outcome, len(makers)), Resolution: Span(tickFor(owners(s))),
	}
	turn := make(chan struct{}, max(cmp.Or(o.Parallel, runtime.GOMAXPROCS(0)), 1))
	var runs sync.WaitGroup
	for i, m := range makers {
		turn <- struct{}{}
		runs.Go(func() {
			defer func() { <-turn }()
			var observe func(Call)
			if o.Observe != nil {
				observe = func(c Call) { o.Observe(i, c) }
			}
			record := newRecorder(ends(s), s.Clients.Count, observe)
			r := run{scenario: s, maker: m, record: record, simulated: &simulated, wall: o.WallClock}
			if o.WallClock {
				r.play(ctx)
			} else {
				synctest.Test(new(testing.T), func(*testing.T) { r.play(ctx) })
			}
			result.Outcomes[i] = outcome(s, s.Settings[i], m, record)
		})
	}
	runs.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, nil
}

// virtualTime returns an error if there is no virtual time.
func virtualTime() error {
	const setting = "asynctimerchan="
	godebug := os.Getenv("GODEBUG")
	if !strings.Contains(godebug, setting) || strings.Contains(godebug, setting+"0") {
		return nil
	}
	return fmt.Errorf("simulate: GODEBUG is %.60q; it must not set asynctimerchan, which excludes virtual time",
		godebug)
}

// follow reports to progress how much of the work is done, until the function
// that it returns is called. It must be called outside virtual time.
func follow(done *atomic.Int64, all int64, progress func(float64)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	report := func() { progress(float64(done.Load()) / float64(max(all, 1))) }
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				report()
			}
		}
	})
	return func() { cancel(); following.Wait(); report() }
}

// ends returns when the run and its drain end.
func ends(s scenario.Scenario) time.Duration { return time.Duration(s.Duration + s.Drain) }

// A run is the run of one setting.
type run struct {
	scenario  scenario.Scenario
	maker     maker
	record    *recorder
	simulated *atomic.Int64 // seconds; the run adds its own as they pass
	wall      bool          // Options.WallClock
}

// play lets the clients call until the run's end. If ctx ends, it stops early
// and the record is void. In virtual time it must not wait for anything
// outside.
func (r *run) play(ctx context.Context) {
	duration := ends(r.scenario)
	g := newGrid(owners(r.scenario))
	g.wall = r.wall
	service := newService(r.scenario, g, r.record)
	f := newFleet(r.scenario, r.maker, g, service, r.record)
	f.start()
	every := sampleEvery(duration)
	for t := slot; t <= duration && ctx.Err() == nil; t += slot {
		g.sleepUntil(t) // an instant of the run's own
		if t%every == 0 && t <= time.Duration(r.scenario.Duration) {
			f.sample(t, r.maker)
		}
		r.record.series.Backlog[t/slot-1] = service.backlog(t)
		r.simulated.Add(1)
	}
	f.stop()
	r.record.backlog, r.record.refused = service.most, int64(service.refused)
}

// sampleEvery returns the time between two samples of the buckets, about three
// hundred in a run.
func sampleEvery(duration time.Duration) time.Duration {
	const samples = 300
	return max(duration/samples/slot, 1) * slot
}
