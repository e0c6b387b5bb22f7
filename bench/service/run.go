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
	w := &runner{ctx, progress, nil}
	r := results{
		throttlings: compare(w, c.throttlings, libraries),
		loops:       compare(w, c.loops, inLoops()),
		storms:      compare(w, c.storms, libraries),
		pacings:     compare(w, c.pacings, pacers),
		hourlies:    compare(w, c.hourlies, hourlyPacers),
		fleets:      compare(w, c.fleets, budgets),

		sdkThrottlings: compare(w, c.sdkThrottlings, retryers),
		sdkStorms:      compare(w, c.sdkStorms, retryers),
	}
	w.onTheWallClock(r.throttlings, libraries)
	w.onTheWallClock(r.sdkThrottlings, retryers)
	return r, w.err
}

// A runner does nothing after its first error.
type runner struct {
	ctx      context.Context
	progress io.Writer
	err      error
}

// A measured case has figures of type F.
type measured[F any] interface {
	title() string
	measure(context.Context, []scenario.Setting) ([]F, error) // in virtual time
}

// compare runs the libraries through the cases.
func compare[C measured[F], F any](w *runner, of []C, among []library) []comparison[C, F] {
	var all []comparison[C, F]
	for _, c := range of {
		if w.err != nil {
			break
		}
		fmt.Fprintf(w.progress, "%s, %d libraries\n", c.title(), len(among))
		one := comparison[C, F]{of: c}
		w.err = one.add(among, virtualTime, func(s []scenario.Setting) ([]F, error) { return c.measure(w.ctx, s) })
		all = append(all, one)
	}
	return all
}

// onTheWallClock adds the rows of the wall clock, all at once.
func (w *runner) onTheWallClock(to []comparison[throttling, throttlingFigures], among []library) {
	if w.err != nil || len(to) == 0 {
		return
	}
	fmt.Fprintf(w.progress, "%d throttlings on the wall clock, all at once\n", len(to))
	var all sync.WaitGroup
	failures := make([]error, len(to))
	for i := range to {
		all.Go(func() {
			failures[i] = to[i].add(among, theWallClock, func(s []scenario.Setting) ([]throttlingFigures, error) {
				return to[i].of.wall.measure(w.ctx, s, simulate.Options{WallClock: true, Parallel: len(s)})
			})
		})
	}
	all.Wait()
	w.err = errors.Join(failures...)
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
