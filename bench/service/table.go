package main

import (
	"context"
	"fmt"
	"io"

	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// A page is a file in docs/results.
type page struct {
	only, file, title string
	intro             string
	terms             string // what the columns mean
	tables            []table
}

// A table compares libraries in a case, in virtual time.
type table struct {
	title, text string
	virtual     modeled.Case
	wall        *modeled.Case // on the wall clock; nil: not run on it
	among       []library
	columns     []modeled.Column
}

// about says what is measured.
func (t table) about() string {
	switch {
	case t.text != "" || t.virtual.From == 0:
		return t.text
	case t.wall == nil:
		return fmt.Sprintf("Measured from %v to %v.", t.virtual.From, t.virtual.Scenario.Duration)
	}
	return fmt.Sprintf("Measured from %v to %v in virtual time, from %v to %v on the wall clock.",
		t.virtual.From, t.virtual.Scenario.Duration, t.wall.From, t.wall.Scenario.Duration)
}

// wallClock is in the name of a library's row.
const wallClock = " (wall clock)"

// run returns the rows of each table. The libraries with a rate limiter whose
// callers wait in line run once more on the wall clock: one of them needs help
// in virtual time, and this shows whether the two agree. Those of all tables run
// at once, because they do little but wait.
func (p page) run(ctx context.Context, progress io.Writer) ([][]output.Row, error) {
	tables := make([][]output.Row, len(p.tables))
	var waiting []func() error
	for i, t := range p.tables {
		fmt.Fprintf(progress, "%s, %d libraries\n", t.title, len(t.among))
		tables[i] = make([]output.Row, len(t.among))
		err := modeled.Each(len(t.among), 0, func(n int) (err error) {
			setting := scenario.Setting{Name: t.among[n].name, New: t.among[n].over}
			tables[i][n], err = t.row(ctx, t.virtual, setting, simulate.Options{})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, lib := range t.among {
			if t.wall == nil || lib.wall == nil {
				continue
			}
			n := len(tables[i])
			tables[i] = append(tables[i], output.Row{})
			waiting = append(waiting, func() (err error) {
				setting := scenario.Setting{Name: lib.name + wallClock, New: lib.wall}
				tables[i][n], err = t.row(ctx, *t.wall, setting, simulate.Options{WallClock: true})
				return err
			})
		}
	}
	if err := modeled.Each(len(waiting), len(waiting), func(i int) error { return waiting[i]() }); err != nil {
		return nil, err
	}
	return tables, nil
}

func (t table) row(ctx context.Context, c modeled.Case, s scenario.Setting, o simulate.Options) (output.Row, error) {
	run, err := c.Run(ctx, s, o)
	if err != nil {
		return output.Row{}, err
	}
	return output.Row{Names: []any{s.Name}, Figures: [][]float64{output.Figures(t.columns, run)}}, nil
}
