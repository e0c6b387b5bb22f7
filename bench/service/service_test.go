package main

import (
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/bench/internal/modeled"
	"example.com/awsretry/bench/internal/output"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// short returns a small part of the pages that takes a few seconds.
func short() []page {
	services := []table{{
		title:   "50 requests per second, one client of 16 callers",
		virtual: modeled.Throttled(1, 16, 10*time.Second, 20*time.Second, modeled.Step{Rate: 50}),
		wall:    new(modeled.Throttled(1, 16, 0, 2*time.Second, modeled.Step{Rate: 50})),
	}}
	return pages(services, services,
		closedLoops(128, time.Second, 2*time.Second),
		storms(storm{callers: 20, rate: 5, before: time.Second, outage: 5 * time.Second, after: 10 * time.Second}),
		[]table{budgeted(2000, 2*time.Minute)}, relapsing(20, 20*time.Second, 20*time.Second))
}

// The short run shows, as far as it goes, what the full one does.
func TestShortRun(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates for a minute with the race detector")
	}
	var out strings.Builder
	figures := map[string][]map[string]map[string]float64{} // page, table, library, column
	tables, rows := 0, 0
	for _, p := range short() {
		all, err := p.run(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		p.print(&out, all)
		for i, of := range p.tables {
			found := map[string]map[string]float64{}
			for _, row := range all[i] {
				name := row.Names[0].(string)
				found[name] = map[string]float64{}
				for j, c := range of.columns {
					found[name][c.Name] = row.Figures[0][j]
				}
			}
			figures[p.only] = append(figures[p.only], found)
			tables, rows = tables+1, rows+2+len(all[i]) // with a header and a separator
		}
	}
	// between tests whether a figure is in a range.
	between := func(t *testing.T, of map[string]map[string]float64, library, column string, low, high float64) {
		t.Helper()
		if got, ok := of[library][column]; !ok || !(got >= low && got <= high) {
			t.Errorf("%s: %s is %v, want %v to %v", library, column, got, low, high)
		}
	}
	const any = math.MaxFloat64

	t.Run("throttling", func(t *testing.T) {
		of := figures["throttling"][0]
		between(t, of, naiveName, "goodput", 0.95, any)
		between(t, of, naiveName, "throttled", 0.5, 1)
		between(t, of, naiveName, "calls failed", 0.2, 1)
		for _, name := range []string{adaptiveName, sdkAdaptiveName} {
			between(t, of, name, "goodput", 0.8, 1.02)
			between(t, of, name, "throttled", 0, 0.1)
			// The wall clock's seconds are too few for the limiters to find the rate,
			// and may be too few for a busy machine to find anything.
			between(t, of, name+wallClock, "calls failed", 0, 0.99)
		}
		between(t, of, adaptiveName, "calls failed", 0, 0.02)
		between(t, of, adaptiveName, "Jain, callers", 0.9, 1)
	})
	t.Run("pacing", func(t *testing.T) {
		of := figures["pacing"][0]
		between(t, of, scaledName, "goodput", 0.95, any)
		between(t, of, scaledName, "throttled", 0, 0.05)
		between(t, of, scaledName, "calls failed", 0, 0.02)
		between(t, of, scaledName, "90 % after", 0, 10)
	})
	t.Run("budgets", func(t *testing.T) {
		of := figures["budgets"][0]
		between(t, of, standardName, "load", 1.5, any)
		between(t, of, standardName+", Quota.Share 0.2", "load", 1, 1.2)
		between(t, of, standardName+", Quota.Share 0.2", "calls failed", 0, of[standardName]["calls failed"]+0.01)
	})
	t.Run("clients of the SDK", func(t *testing.T) {
		of := figures["sdk"]
		for name := range of[0] {
			paced := strings.Contains(name, "adaptive") || strings.Contains(name, "Scaled")
			if paced && !strings.HasSuffix(name, wallClock) {
				between(t, of[0], name, "goodput", 0.9, any)
				between(t, of[0], name, "throttled", 0, 0.1)
				between(t, of[0], name, "calls failed", 0, 0.02)
			}
		}
		for _, name := range []string{sdkAdaptiveName, awssdkName} {
			between(t, of[1], name, "recovered after", 0, any)
			between(t, of[1], name, "failed after it", 0, 0.03)
		}
	})
	t.Run("loops", func(t *testing.T) {
		for _, of := range figures["loops"] {
			between(t, of, standardName, "calls failed/s", 5000, any)
			between(t, of, longPollName, "calls failed/s", 150, 300)
		}
	})
	t.Run("storms", func(t *testing.T) {
		refuses, shared, hangs := figures["storms"][0], figures["storms"][1], figures["storms"][2]
		for _, of := range figures["storms"] {
			between(t, of, noRetriesName, "load in the outage", 0.95, 1.05)
			between(t, of, noRetriesName, "load after it", 0.95, 1.05)
			between(t, of, noRetriesName, "failed in the outage", 0.95, 1)
		}
		between(t, refuses, naiveName, "load in the outage", 2.8, 3.05)
		between(t, refuses, naiveName, "recovered after", 0, 2)
		// One retry token bucket for all, and one for each.
		between(t, shared, standardName, "load in the outage", 1, min(2, refuses[standardName]["load in the outage"]-0.01))
		between(t, hangs, naiveName, "recovered after", -1, -1)
		between(t, hangs, naiveName, "load after it", 2, any)
		between(t, hangs, noRetriesName, "recovered after", 1, any) // when the queue is empty
	})
	if got := strings.Count("\n"+out.String(), "\n## "); got != tables {
		t.Errorf("%d tables, want %d", got, tables)
	}
	if got := strings.Count(out.String(), "\n| "); got != rows {
		t.Errorf("%d rows, want %d:\n%s", got, rows, out.String())
	}
}

// Each page has the libraries that its tables name, and valid scenarios.
func TestPages(t *testing.T) {
	for _, pages := range [][]page{full(), short()} {
		for _, p := range pages {
			for _, of := range p.tables {
				if err := of.virtual.Scenario.Validate(); err != nil || len(of.among) == 0 || len(of.columns) == 0 {
					t.Errorf("%s: %s: %v", p.only, of.title, err)
				}
				if of.wall == nil {
					continue
				}
				if err := of.wall.Scenario.Validate(); err != nil {
					t.Errorf("%s: %s on the wall clock: %v", p.only, of.title, err)
				}
			}
		}
	}
}

// The scenarios say what the tables do.
func TestScenarios(t *testing.T) {
	serves := func(c modeled.Case) float64 {
		return simulate.Serves(c.Scenario, scenario.Duration(c.From), c.Scenario.Duration)
	}
	tables := map[string][]table{}
	for _, p := range full() {
		tables[p.only] = p.tables
	}
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"steady", serves(tables["throttling"][0].virtual), 90 * 100},
		{"steps", serves(tables["throttling"][3].virtual), 30*100 + 60*20 + 120*200},
		{"steps on the wall clock", serves(*tables["throttling"][3].wall), 20*100 + 20*20 + 20*200},
		{"far away", serves(tables["pacing"][6].virtual), 540 * 2},
		{"an outage, and its tail", serves(tables["storms"][0].virtual), 90 * 1200},
		{"errors after an outage", serves(tables["sdk"][4].virtual), (10 + 80*0.95) * 1200},
		{"a service that hangs", serves(tables["storms"][2].virtual), 90 * 1500},
	} {
		if math.Abs(tt.got-tt.want) > 1e-6 {
			t.Errorf("%s: the service serves %v requests, want %v", tt.name, tt.got, tt.want)
		}
	}
}

func TestStormFigures(t *testing.T) {
	s := storm{clients: 2, callers: 1, rate: 1, before: time.Second, outage: 2 * time.Second, after: 6 * time.Second}
	var r modeled.Run
	for second := range 10 { // the last second is not measured
		start, took := time.Duration(second)*time.Second+1, time.Duration(second)*time.Second
		r.Calls = append(r.Calls, simulate.Call{Start: start, Took: took, Good: second != 2 && second != 3},
			simulate.Call{Start: start, Took: took, Good: second == 0 || second > 3})
	}
	r.Outcome.Series.Attempts = []float64{2, 2, 6, 4, 2, 2, 2, 2, 2, 9}
	got := output.Figures(s.table(nil).columns, r)
	want := []float64{2, 3, 14.0 / 12, 1, 0.75, 2.0 / 12, 1, 2}
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLoopFigures(t *testing.T) {
	r := modeled.Run{Case: modeled.Throttled(1, 1, time.Second, 3*time.Second, modeled.Step{Rate: 1})}
	r.Outcome.Series = simulate.Series{
		Attempts: []float64{9, 6, 10}, Throttled: []float64{9, 6, 2}, Good: []float64{0, 0, 8}, Bad: []float64{9, 4, 2},
	}
	if got := output.Figures(loopColumns, r); !slices.Equal(got, []float64{8, 0.5, 4, 3, 2}) {
		t.Errorf("got %v", got)
	}
	r.Outcome.Series.Good[2] = 0
	if got := perSuccess(r); !math.IsNaN(got) {
		t.Errorf("%v attempts for each success where there is none", got)
	}
}

func TestRecovered(t *testing.T) {
	for _, tt := range []struct {
		name      string
		succeeded []float64
		want      float64
	}{
		{"at once", []float64{100, 99, 100, 100, 100, 0}, 0},
		{"after two seconds", []float64{0, 98, 99, 100, 100, 100, 100}, 2},
		{"a relapse", []float64{100, 100, 100, 100, 98, 100, 100, 100, 100, 100}, 5},
		{"too short", []float64{100, 100, 100, 100}, -1},
		{"nothing", nil, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := slices.Repeat([]float64{100}, len(tt.succeeded))
			if got := recovered(began, tt.succeeded); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
