package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A comparison is the figures of a case, by library.
type comparison[C, F any] struct {
	of   C
	rows []row[F]
}

type row[F any] struct {
	library string
	figures F
}

// results are in the order of the cases.
type results struct {
	throttlings []comparison[throttling, throttlingFigures]
	loops       []comparison[loop, loopFigures]
	storms      []comparison[storm, stormFigures]
	pacings     []comparison[throttling, throttlingFigures] // of the pacers
	hourlies    []comparison[hourly, hourlyFigures]         // of the pacers
	fleets      []comparison[fleetSize, simulate.Outcome]   // of the budgets

	sdkThrottlings []comparison[throttling, throttlingFigures] // of the retryers
	sdkStorms      []comparison[storm, stormFigures]           // of the retryers
}

// run runs every library through every case in virtual time, and the pacers and
// the retryers through theirs. The libraries with a rate limiter whose callers
// wait in line run through the throttlings once more on the wall clock: one of
// them needs help in virtual time, and this shows whether the two agree.
func (c cases) run(ctx context.Context, progress io.Writer) (results, error) {
	r := results{
		throttlings: make([]comparison[throttling, throttlingFigures], len(c.throttlings)),
		storms:      make([]comparison[storm, stormFigures], len(c.storms)),
		pacings:     make([]comparison[throttling, throttlingFigures], len(c.pacings)),
		hourlies:    make([]comparison[hourly, hourlyFigures], len(c.hourlies)),
		fleets:      make([]comparison[fleetSize, simulate.Outcome], len(c.fleets)),

		sdkThrottlings: make([]comparison[throttling, throttlingFigures], len(c.sdkThrottlings)),
		sdkStorms:      make([]comparison[storm, stormFigures], len(c.sdkStorms)),
	}
	step := func(name string, among []library) { fmt.Fprintf(progress, "%s, %d libraries\n", name, len(among)) }
	throttlings := func(of []throttling, to []comparison[throttling, throttlingFigures], among []library) error {
		for i, t := range of {
			step(t.name, among)
			to[i].of = t
			if err := to[i].add(among, virtualTime, func(s []scenario.Setting) ([]throttlingFigures, error) {
				return t.virtual.measure(ctx, s, simulate.Options{})
			}); err != nil {
				return err
			}
		}
		return nil
	}
	outages := func(of []storm, to []comparison[storm, stormFigures], among []library) error {
		for i, s := range of {
			step(s.name, among)
			to[i].of = s
			if err := to[i].add(among, virtualTime, func(settings []scenario.Setting) ([]stormFigures, error) {
				return s.measure(ctx, settings, simulate.Options{})
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := throttlings(c.throttlings, r.throttlings, libraries); err != nil {
		return r, err
	}
	if err := r.runLoops(ctx, c.loops, progress); err != nil {
		return r, err
	}
	if err := outages(c.storms, r.storms, libraries); err != nil {
		return r, err
	}
	if err := throttlings(c.pacings, r.pacings, pacers); err != nil {
		return r, err
	}
	for i, h := range c.hourlies {
		step(h.name, hourlyPacers)
		r.hourlies[i].of = h
		if err := r.hourlies[i].add(hourlyPacers, virtualTime, func(s []scenario.Setting) ([]hourlyFigures, error) {
			return h.measure(ctx, s)
		}); err != nil {
			return r, err
		}
	}
	for i, f := range c.fleets {
		step(fmt.Sprintf("processes: %d", f.processes), budgets)
		r.fleets[i].of = f
		if err := r.fleets[i].add(budgets, virtualTime, func(s []scenario.Setting) ([]simulate.Outcome, error) {
			return f.measure(ctx, s)
		}); err != nil {
			return r, err
		}
	}
	if err := throttlings(c.sdkThrottlings, r.sdkThrottlings, retryers); err != nil {
		return r, err
	}
	if err := outages(c.sdkStorms, r.sdkStorms, retryers); err != nil {
		return r, err
	}
	if err := onTheWallClock(ctx, r.throttlings, libraries, progress); err != nil {
		return r, err
	}
	if err := onTheWallClock(ctx, r.pacings, pacers, progress); err != nil {
		return r, err
	}
	return r, onTheWallClock(ctx, r.sdkThrottlings, retryers, progress)
}

// onTheWallClock adds the rows of the wall clock, all at once.
func onTheWallClock(
	ctx context.Context, to []comparison[throttling, throttlingFigures], among []library, progress io.Writer,
) error {
	if len(to) > 0 {
		fmt.Fprintf(progress, "%d throttlings on the wall clock, all at once\n", len(to))
	}
	var all sync.WaitGroup
	failures := make([]error, len(to))
	for i := range to {
		all.Go(func() {
			failures[i] = to[i].add(among, theWallClock, func(s []scenario.Setting) ([]throttlingFigures, error) {
				return to[i].of.wall.measure(ctx, s, simulate.Options{WallClock: true, Parallel: len(s)})
			})
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// A clocking is the clock of a run.
type clocking int

const (
	virtualTime clocking = iota
	theWallClock
)

// wallClock is in the name of a library's row.
const wallClock = " (wall clock)"

// add adds a row for every library that takes part on a clock.
func (c *comparison[C, F]) add(among []library, on clocking, measure func([]scenario.Setting) ([]F, error)) error {
	settings := settingsOn(on, among)
	figures, err := measure(settings)
	if err != nil {
		return err
	}
	for i, s := range settings {
		c.rows = append(c.rows, row[F]{s.Name, figures[i]})
	}
	return nil
}

// settingsOn returns the libraries that take part on a clock.
func settingsOn(on clocking, among []library) []scenario.Setting {
	var settings []scenario.Setting
	for _, lib := range among {
		s := scenario.Setting{Name: lib.name, New: lib.over}
		if on == theWallClock {
			s.Name, s.New = lib.name+wallClock, lib.wall
		}
		if s.New != nil {
			settings = append(settings, s)
		}
	}
	return settings
}
