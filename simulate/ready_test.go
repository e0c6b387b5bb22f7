package simulate

import (
	"math"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// The ready scenarios show what their files say, with these figures.
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
	type figure struct {
		name   string
		of     func(Outcome) float64
		want   []float64 // for each setting
		within float64   // of each figure, as a share of it
	}
	for name, figures := range map[string][]figure{
		"retry-after": {
			{"429 responses", of429, []float64{200, 200, 12, 12}, 0.2},
			{"503 responses", of503, []float64{149, 0, 149, 0}, 0.05},
		},
		"workers": {{"failed calls, %", failed, []float64{47.5, 88.2, 15.5, 0, 0.07}, 0.1}},
		"slow": {
			{"goodput", goodput, []float64{19.5, 19.4, 13.3, 17.6}, 0.1},
			{"failed calls, %", failed, []float64{63.4, 57.7, 2.7, 2.4}, 0.2},
		},
		"random-429": {{"goodput", goodput, []float64{184, 200, 200, 200, 60, 151}, 0.1}},
		"fleet": {
			{"throttled attempts, %", throttled, []float64{10.1, 16, 3.2, 3.7}, 0.3},
			{"fairness", fairness, []float64{0.95, 0.83, 1, 1}, 0.1},
		},
		"announced": {
			{"throttled attempts, %", throttled, []float64{10.8, 13.1, 0.2, 0.3}, 0.3},
			{"failed calls, %", failed, []float64{0.3, 2.2, 0, 0}, 0.5},
		},
		"broken-bodies": {
			{"failed calls, %", failed, []float64{30.6, 30.6, 0, 0}, 0.05},
			{"attempts per call", attempts, []float64{1, 1, 1.35, 1.35}, 0.05},
			{"p99, s", tail, []float64{10.2, 10.2, 11.6, 10.3}, 0.05},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Ready(name)
			if err != nil {
				t.Fatal(err)
			}
			outcomes := mustRun(t, s).Outcomes
			for _, f := range figures {
				for i, want := range f.want {
					got := f.of(outcomes[i])
					if most := f.within*want + 0.05; math.Abs(got-want) > most {
						t.Errorf("%s of %s is %.4g, want %v, and at most %.2g more or less",
							f.name, outcomes[i].Setting, got, want, most)
					}
				}
			}
		})
	}
}

// Processes that read the same limits share them evenly, and nearly nothing is
// throttled, whatever the random numbers.
func TestAnnouncedIsShared(t *testing.T) {
	if raceDetector {
		t.Skip("it takes long with the race detector; make test runs it without")
	}
	s, err := scenario.Ready("announced")
	if err != nil {
		t.Fatal(err)
	}
	s.Settings = s.Settings[2:] // those that read limits
	for s.Seed = range 8 {
		for _, o := range mustRun(t, s).Outcomes {
			if o.Fairness < .9 || o.ThrottledShare > .005 || o.FailedShare > 0 {
				t.Errorf("seed %d, %s: fairness %.2f, %.1f %% throttled, %.1f %% failed",
					s.Seed, o.Setting, o.Fairness, 100*o.ThrottledShare, 100*o.FailedShare)
			}
		}
	}
}
