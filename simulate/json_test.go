package simulate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

// The scenario in a JSON result is a scenario file that gives the same result.
func TestScenarioInJSON(t *testing.T) {
	s := restless()[0]
	s.Settings = []scenario.Setting{
		{Use: scenario.UseNaive, Name: `"<é & 1>": #`, MaxAttempts: 5, Pause: scenario.Duration(1)},
		{Use: scenario.UseStandard, Name: "- 1", Capacity: 50, LongPoll: true},
	}
	result := mustRun(t, s)
	if diff := cmp.Diff(result, mustRun(t, throughJSON(t, result).Scenario)); diff != "" {
		t.Error(diff)
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
