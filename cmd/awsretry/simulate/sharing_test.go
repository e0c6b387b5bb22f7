package simulate

import "testing"

// The clients of fleet share the service's rate and the tokens of their
// retries.
func TestFleetShares(t *testing.T) {
	throttled := Scenario{
		Name: "throttled", Duration: seconds(15), Seed: 1,
		Clients: Clients{Count: 8, Callers: 4, Think: ms(5)},
		Service: Service{
			Capacity: 1000, Queue: 100, Latency: Latency{Median: ms(10)}, Throttle: &Throttle{Rate: 100, Burst: 20},
		},
		Settings: []Setting{
			{Use: UseAdaptive, Pacing: "scaled"}, {Use: UseFleet, Pacing: "scaled"},
			{Use: UseFleet, Pacing: "scaled", StoreLatency: ms(200), Name: "slow store"},
		},
	}
	down := Scenario{
		Name: "outage", Duration: seconds(10), Seed: 1,
		Clients:  Clients{Count: 200, Rate: 1000, Timeout: seconds(5)},
		Service:  Service{Capacity: 10_000, Queue: 100, Latency: Latency{Median: ms(10)}},
		Events:   []Event{{Kind: Outage}},
		Settings: []Setting{{Use: UseStandard}, {Use: UseFleet}},
	}
	if raceDetector {
		down.Clients.Count, down.Clients.Rate = 40, 200
	}
	t.Run("rate", func(t *testing.T) {
		outcomes := mustRun(t, throttled).Outcomes
		alone, shared, slow := outcomes[0], outcomes[1], outcomes[2]
		t.Logf("fairness %.3f and %.3f, goodput %.1f", alone.Fairness, shared.Fairness, shared.Goodput)
		if shared.Fairness < 0.98 || shared.Fairness <= alone.Fairness {
			t.Errorf("fairness is %.3f, want at least 0.98, and more than %.3f of clients that do not share",
				shared.Fairness, alone.Fairness)
		}
		if shared.Goodput < 90 {
			t.Errorf("goodput is %.1f, want at least 90", shared.Goodput)
		}
		if slow.Calls == shared.Calls && slow.Attempts == shared.Attempts {
			t.Error("a slow store makes no difference")
		}
	})
	t.Run("retries", func(t *testing.T) {
		outcomes := mustRun(t, down).Outcomes
		alone, shared := outcomes[0].Amplification, outcomes[1].Amplification
		t.Logf("amplification %.3f and %.3f", alone, shared)
		if shared > 1.1 || alone < 1.6 {
			t.Errorf("amplification is %.2f shared and %.2f not shared, want at most 1.1 and at least 1.6", shared, alone)
		}
		tokens := outcomes[1].Series.Tokens
		if first, last := tokens[0].Value, tokens[len(tokens)-1].Value; first > 400 || last > 50 {
			t.Errorf("the clients share %v tokens after a second and %v at the end, want most of them used", first, last)
		}
	})
}
