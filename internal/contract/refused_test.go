package contract_test

import (
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A Loop reports a refusal as RoundTrip does.
func TestRefusedCallOfALoop(t *testing.T) {
	var seen []awsretry.Attempt
	tr := &transport{
		Quota:   awsretry.QuotaConfig{Capacity: 5, InitialCost: 5},
		Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
	}
	for range 2 {
		loop, err := tr.NewLoop(httpfake.Request(t, t.Context(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		if loop.Wait() == nil {
			loop.Classify(nil, "", errReset)
			loop.Stop(awsretry.StopDisabled)
		}
		loop.End()
	}
	if len(seen) != 2 || seen[1].Number != 0 || seen[1].Stop != awsretry.StopQuota {
		t.Errorf("%+v", seen)
	}
}
