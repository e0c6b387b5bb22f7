// Command pacing runs the Transport with CubicPacing and with ScaledPacing at
// modeled services that throttle, in virtual time, and prints a table of what
// they reach.
//
//	go run ./pacing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	simulated "example.com/awsretry/simulate/scenario"
)

func main() {
	seeds := flag.Int("seeds", 8, "runs of each scenario, with different random numbers")
	only := flag.String("only", "", "run the scenarios whose names contain this")
	flag.Parse()
	chosen := slices.DeleteFunc(scenarios(), func(s scenario) bool { return !strings.Contains(s.name, *only) })
	if flag.NArg() > 0 || *seeds < 1 || len(chosen) == 0 {
		output.Exit(2, errors.New("there are no arguments, -seeds must be above 0, and -only part of a scenario's name"))
	}
	debug.SetGCPercent(400) // a run makes much garbage and keeps little
	if err := compare(context.Background(), os.Stdout, chosen, *seeds); err != nil {
		output.Exit(1, err)
	}
}

// pacings are compared in each scenario.
var pacings = []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing}

// columns are means of the runs, but for the worst goodput.
var columns = []modeled.Column{
	modeled.Goodput, modeled.P99, modeled.Refused, modeled.Failed,
	modeled.FairClients, orLength(modeled.Begun), orLength(modeled.Stepped),
}

// orLength has the length of the run for what does not happen in it.
func orLength(c modeled.Column) modeled.Column {
	return modeled.Column{Name: c.Name, Show: output.Number("%.0f s"), Of: func(r modeled.Run) float64 {
		if found := c.Of(r); !(found < 0) {
			return found
		}
		return time.Duration(r.Case.Scenario.Duration).Seconds()
	}}
}

// compare prints what the pacings make of each scenario.
func compare(ctx context.Context, w io.Writer, scenarios []scenario, seeds int) error {
	rows := make([]output.Row, len(scenarios)*len(pacings))
	for i := range rows {
		rows[i].Figures = make([][]float64, seeds)
	}
	err := modeled.Each(len(rows)*seeds, 0, func(i int) error {
		row, seed := i/seeds, i%seeds
		s := scenarios[row/len(pacings)]
		run, err := s.run(ctx, pacings[row%len(pacings)], uint64(seed))
		if err == nil {
			rows[row].Figures[seed] = output.Figures(columns, run)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range rows {
		worst := rows[i].Figures[0][0]
		for _, figures := range rows[i].Figures {
			worst = min(worst, figures[0])
		}
		name := ""
		if i%len(pacings) == 0 {
			name = scenarios[i/len(pacings)].name
		}
		rows[i].Names = []any{name, pacings[i%len(pacings)].String(), output.Percent(worst)}
	}
	output.Table(w, []any{"scenario", "pacing", "worst goodput"}, columns, rows, output.Mean)
	fmt.Fprintf(w, "worst goodput: the least of %d runs; all others are the mean of them, as in docs/results/pacing.md;\n"+
		"90 %% after, after a step: the length of the run if that is never\n", seeds)
	return nil
}

// run runs the scenario with a pacing. The same seed gives the same figures.
func (s scenario) run(ctx context.Context, pacing awsretry.Pacing, seed uint64) (modeled.Run, error) {
	s.Scenario.Seed = seed
	if others := s.Scenario.Clients.Count - 1; others > 0 { // real ones do not measure in step
		to := simulated.Duration(time.Second + time.Duration(seed%8)*131*time.Millisecond)
		s.Scenario.Events = []simulated.Event{{Kind: simulated.Join, To: to, Clients: others}}
	}
	setting := simulated.Setting{Use: simulated.UseAdaptive, Pacing: pacing.String()}
	return s.Case.Run(ctx, setting, simulate.Options{})
}
