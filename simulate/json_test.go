package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

// The scenario in a JSON result is a scenario file that gives the same result.
func TestScenarioInJSON(t *testing.T) {
	ran, many := restless(), 300
	if raceDetector {
		ran, many = ran[1:], 30
	}
	for i := range ran {
		ran[i].Settings = append(ran[i].Settings[3:4],
			scenario.Setting{Use: scenario.UseNaive, Name: `"<é & 1>": #`, MaxAttempts: 5, Pause: scenario.Duration(1)},
			scenario.Setting{Use: scenario.UseStandard, Name: "- 1", Capacity: 50, LongPoll: true})
	}
	for i, s := range ran {
		t.Run(fmt.Sprint("run ", i), func(t *testing.T) {
			result := mustRun(t, s)
			if diff := cmp.Diff(result, mustRun(t, throughJSON(t, result).Scenario)); diff != "" {
				t.Error(diff)
			}
		})
	}

	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			s, err := scenario.Ready(name)
			if err != nil {
				t.Fatal(err)
			}
			throughJSON(t, &Result{Scenario: s.WithDefaults()})
		})
	}

	random := rand.New(rand.NewPCG(1, 2))
	for valid := 0; valid < many; {
		s := anyScenario(random)
		if s.Validate() == nil {
			valid++
			throughJSON(t, &Result{Scenario: s})
			throughJSON(t, &Result{Scenario: s.WithDefaults()})
		}
	}
}

// throughJSON writes the result as JSON, reads its scenario, and checks that it
// is the same.
func throughJSON(t *testing.T, r *Result) *Result {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var written struct{ Scenario json.RawMessage }
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse(written.Scenario)
	if err != nil {
		t.Fatalf("%s: %v", written.Scenario, err)
	}
	if diff := cmp.Diff(r.Scenario, s); diff != "" {
		t.Fatalf("%s: %s", written.Scenario, diff)
	}
	return &Result{Scenario: s}
}

// anyScenario returns a scenario that is often valid.
func anyScenario(random *rand.Rand) scenario.Scenario {
	few := func() scenario.Duration { return scenario.Duration(random.Int64N(int64(time.Minute))) }
	maybe := func(v float64) float64 { return v * float64(random.IntN(2)) }
	s := scenario.Scenario{
		Name: string(rune('!' + random.IntN(0x300))), About: string(rune('!'+random.IntN(90))) + " é",
		Duration: seconds(60), Seed: random.Uint64(),
		Clients: scenario.Clients{Count: 1 + random.IntN(9), Rate: random.ExpFloat64(), Timeout: few()},
		Service: scenario.Service{
			Capacity: random.ExpFloat64() * 1e-9, Queue: random.IntN(1e6),
			Latency:    scenario.Latency{Median: few(), P99: scenario.Duration(time.Hour) - few()},
			RefuseCost: random.Float64(),
		},
		Settings: []scenario.Setting{{Use: scenario.UseFleet, Lease: few(), Capacity: random.IntN(1e6)}},
	}
	if random.IntN(2) == 0 {
		s.Service.Latency = scenario.Latency{Distribution: scenario.Exponential, Median: few()}
	}
	for range random.IntN(3) {
		s.Events = append(s.Events, scenario.Event{
			Kind: scenario.Throttling, From: few(), Throttle: &scenario.Throttle{
				Rate: maybe(
					random.ExpFloat64() * 1e5,
				), Share: maybe(random.Float64() * 1e-7), RetryAfter: seconds(3), Code: "e5",
			},
		}, scenario.Event{Kind: scenario.CapacityStep, From: few(), To: few(), Capacity: random.ExpFloat64() * 1e5})
	}
	return s
}
