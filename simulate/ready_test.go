package simulate

import (
	"math"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// What the ready scenarios show, as docs/SIMULATE.md says it.
func TestReadyScenarios(t *testing.T) {
	if raceDetector {
		t.Skip("it takes a minute with the race detector; make test runs it without")
	}
	goodput := func(o Outcome) float64 { return o.Goodput }
	failed := func(o Outcome) float64 { return 100 * o.FailedShare }
	throttled := func(o Outcome) float64 { return 100 * o.ThrottledShare }
	attempts := func(o Outcome) float64 { return o.Amplification }
	of429 := func(o Outcome) float64 { return float64(o.Throttled) }
	of503 := func(o Outcome) float64 { return float64(o.Refused) }
	fairness := func(o Outcome) float64 { return o.Fairness }
	tail := func(o Outcome) float64 { return time.Duration(o.P99).Seconds() }
	for _, tt := range []struct {
		scenario string
		figure   string
		of       func(Outcome) float64
		want     []float64 // for each setting
		within   float64   // of each figure, as a share of it
	}{
		{"retry-after", "429 responses", of429, []float64{200, 200, 12, 12}, 0.2},
		{"retry-after", "503 responses", of503, []float64{149, 0, 149, 0}, 0.05},
		{"workers", "failed calls, %", failed, []float64{47.5, 88.2, 15.5, 0, 0}, 0.1},
		{"slow", "goodput", goodput, []float64{19.5, 19.4, 13.3, 16.4}, 0.1},
		{"slow", "failed calls, %", failed, []float64{63.4, 57.7, 2.7, 2.2}, 0.2},
		{"random-429", "goodput", goodput, []float64{184, 200, 200, 200, 62, 83}, 0.1},
		{"fleet", "throttled attempts, %", throttled, []float64{10.1, 9.3, 1.5, 1.6}, 0.3},
		{"fleet", "fairness", fairness, []float64{0.95, 0.68, 1, 1}, 0.1},
		{"announced", "throttled attempts, %", throttled, []float64{10.8, 7.8, 0.2, 0.2}, 0.3},
		{"announced", "failed calls, %", failed, []float64{0.3, 0.6, 0, 0}, 0.5},
		{"announced", "fairness", fairness, []float64{1, 1, 1, 1}, 0.05},
		{"broken-bodies", "failed calls, %", failed, []float64{30.6, 30.6, 0, 0}, 0.05},
		{"broken-bodies", "attempts per call", attempts, []float64{1, 1, 1.35, 1.35}, 0.05},
		{"broken-bodies", "p99, s", tail, []float64{10.2, 10.2, 11.6, 10.3}, 0.05},
	} {
		t.Run(tt.scenario+" "+tt.figure, func(t *testing.T) {
			outcomes := readyOutcomes(t, tt.scenario)
			if len(outcomes) != len(tt.want) {
				t.Fatalf("%d settings, want %d", len(outcomes), len(tt.want))
			}
			for i, o := range outcomes {
				got := tt.of(o)
				t.Logf("%s: %.3g", o.Setting, got)
				if most := tt.within*tt.want[i] + 0.05; math.Abs(got-tt.want[i]) > most {
					t.Errorf("%s: got %.4g, want %v, and at most %.2g more or less", o.Setting, got, tt.want[i], most)
				}
			}
		})
	}
}

var readyRuns = map[string][]Outcome{} // by the scenario's name

// readyOutcomes runs a ready scenario once.
func readyOutcomes(t *testing.T, name string) []Outcome {
	t.Helper()
	if readyRuns[name] == nil {
		s, err := scenario.Ready(name)
		if err != nil {
			t.Fatal(err)
		}
		readyRuns[name] = mustRun(t, s).Outcomes
	}
	return readyRuns[name]
}
