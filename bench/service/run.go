package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"example.com/awsretry/cmd/awsretry/simulate"
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
}

// run runs every library through every case in virtual time. The libraries with
// a rate limiter whose callers wait in line run through the throttlings once
// more on the wall clock: one of them needs help in virtual time, and this
// shows whether the two agree.
func (c cases) run(ctx context.Context, progress io.Writer) (results, error) {
	r := results{
		throttlings: make([]comparison[throttling, throttlingFigures], len(c.throttlings)),
		storms:      make([]comparison[storm, stormFigures], len(c.storms)),
	}
	step := func(name string) { fmt.Fprintf(progress, "%s, %d libraries\n", name, len(libraries)) }
	for i, t := range c.throttlings {
		step(t.name)
		r.throttlings[i].of = t
		if err := r.throttlings[i].add(virtualTime, func(s []simulate.Setting) ([]throttlingFigures, error) {
			return t.virtual.measure(ctx, s, simulate.Options{})
		}); err != nil {
			return r, err
		}
	}
	if err := r.runLoops(ctx, c.loops, progress); err != nil {
		return r, err
	}
	for i, s := range c.storms {
		step(s.name)
		r.storms[i].of = s
		if err := r.storms[i].add(virtualTime, func(settings []simulate.Setting) ([]stormFigures, error) {
			return s.measure(ctx, settings, simulate.Options{})
		}); err != nil {
			return r, err
		}
	}
	fmt.Fprintln(progress, "the throttlings on the wall clock, all at once")
	var all sync.WaitGroup
	failures := make([]error, len(c.throttlings))
	for i, t := range c.throttlings {
		all.Go(func() {
			failures[i] = r.throttlings[i].add(theWallClock, func(s []simulate.Setting) ([]throttlingFigures, error) {
				return t.wall.measure(ctx, s, simulate.Options{WallClock: true, Parallel: len(s)})
			})
		})
	}
	all.Wait()
	for _, err := range failures {
		if err != nil {
			return r, err
		}
	}
	return r, nil
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
func (c *comparison[C, F]) add(on clocking, measure func([]simulate.Setting) ([]F, error)) error {
	settings := settingsOn(on)
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
func settingsOn(on clocking) []simulate.Setting {
	var settings []simulate.Setting
	for _, lib := range libraries {
		s := simulate.Setting{Name: lib.name, New: lib.over}
		if on == theWallClock {
			s.Name, s.New = lib.name+wallClock, lib.wall
		}
		if s.New != nil {
			settings = append(settings, s)
		}
	}
	return settings
}
