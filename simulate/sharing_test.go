package simulate

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// The clients of fleet share the service's rate.
func TestFleetSharesTheRate(t *testing.T) {
	s := scenario.Scenario{
		Name: "throttled", Duration: seconds(15), Seed: 1,
		Clients: scenario.Clients{Count: 8, Callers: 4, Think: ms(5)},
		Service: scenario.Service{
			Capacity: 1000, Queue: 100, Latency: scenario.Latency{Median: ms(10)},
			Throttle: &scenario.Throttle{Rate: 100, Burst: 20},
		},
		Settings: []scenario.Setting{
			{Use: scenario.UseAdaptive},
			{Use: scenario.UseFleet},
			{Use: scenario.UseFleet, StoreLatency: ms(450)},
			{Use: scenario.UseFleet, Lease: seconds(2)},
		},
	}
	s.Settings[2].Name, s.Settings[3].Name = "a store that is too slow", "a long lease"
	outcomes := mustRun(t, s).Outcomes
	alone, shared, slow, long := outcomes[0], outcomes[1], outcomes[2], outcomes[3]
	if long.Renewals < shared.Renewals/8 || long.Renewals > shared.Renewals/3 {
		t.Errorf("with a lease of 2 s there are %d renewals, with 400 ms %d", long.Renewals, shared.Renewals)
	}
	goodput := mean(shared.Series.Good[5:])
	t.Logf("goodput %.1f, fairness %.3f and alone %.3f", goodput, shared.Fairness, alone.Fairness)
	if goodput < 90 {
		t.Errorf("goodput is %.1f, want at least 90", goodput)
	}
	if shared.Fairness < 0.98 || shared.Fairness <= alone.Fairness {
		t.Errorf("fairness is %.3f, want at least 0.98, and more than %.3f of clients that do not share",
			shared.Fairness, alone.Fairness)
	}
	for _, tt := range []struct {
		of   Outcome
		want float64
	}{{shared, 8}, {slow, 0}, {long, 8}} {
		if members := tt.of.Series.Members; math.Round(members[len(members)-1].Value) != tt.want {
			t.Errorf("%s has %v members at the end, want %v", tt.of.Setting, members[len(members)-1].Value, tt.want)
		}
	}
}

// The clients of fleet share their retry tokens, so that they add little to the
// load in an outage.
func TestFleetSharesTheTokens(t *testing.T) {
	s := scenario.Scenario{
		Name: "outage", Duration: seconds(5), Seed: 1,
		Clients:  scenario.Clients{Count: 200, Rate: 2000, Timeout: seconds(5)},
		Service:  scenario.Service{Capacity: 10_000, Queue: 100, Latency: scenario.Latency{Median: ms(10)}},
		Events:   []scenario.Event{{Kind: scenario.Outage}},
		Settings: []scenario.Setting{{Use: scenario.UseStandard}, {Use: scenario.UseFleet}},
	}
	most := 1.1
	if raceDetector { // the tokens are more of a smaller load
		s.Clients.Count, s.Clients.Rate, most = 20, 300, 1.15
	}
	outcomes := mustRun(t, s).Outcomes
	alone, shared := outcomes[0].Amplification, outcomes[1].Amplification
	t.Logf("%.3f attempts for each call, alone %.3f", shared, alone)
	if shared > most || alone < 1.6 {
		t.Errorf("%.2f attempts for each call, alone %.2f, want at most %v and at least 1.6", shared, alone, most)
	}
	tokens := outcomes[1].Series.Tokens
	if first, last := tokens[0].Value, tokens[len(tokens)-1].Value; first > 400 || last > 50 {
		t.Errorf("the clients share %v tokens after a second and %v at the end, want most of them used", first, last)
	}
}

// In real time a renewal waits for nothing else at its instant.
func TestFleetOnTheWallClock(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseFleet})
	s.Duration = seconds(1)
	result, err := Run(t.Context(), s, Options{WallClock: true})
	if err != nil {
		t.Fatal(err)
	}
	if o := result.Outcomes[0]; o.Good == 0 || o.Renewals == 0 {
		t.Errorf("%d calls succeed and %d renewals are made", o.Good, o.Renewals)
	}
}

// Clients that share adapt to a service whose responses take seconds. They are
// throttled no more often than clients that do not share, and exceed the limit by
// half as much.
func TestFleetOnASlowService(t *testing.T) {
	if raceDetector || testing.Short() {
		t.Skip("it takes long, and minutes with the race detector; make check runs it without")
	}
	const limit, clients, from = 100, 20, time.Minute // the rate is found by then
	throttle := limitedTo(limit)
	s := scenario.Scenario{
		Duration: scenario.Duration(2 * from), Seed: 1,
		Clients: scenario.Clients{Count: clients, Callers: 40},
		Service: scenario.Service{
			Capacity: scenario.MaxRate, Queue: scenario.MaxClients, Throttle: &throttle, Network: seconds(3),
		},
	}
	for _, pacing := range []string{"", "scaled"} {
		run := func(use string) (above float64, m measure) {
			s.Settings = []scenario.Setting{{Use: use, Pacing: pacing}}
			attempts := mustRun(t, s).Outcomes[0].Series.Attempts
			return slices.Max(attempts[int(from.Seconds()):])/limit - 1, measured(t, s, from)
		}
		aloneAbove, alone := run(scenario.UseAdaptive)
		above, shared := run(scenario.UseFleet)
		if shared.throttled > alone.throttled || above > aloneAbove/2 ||
			shared.goodput < 0.8 || shared.failed > alone.failed+0.01 {
			t.Errorf("%q: alone %.2f and %+.3v, shared %.2f and %+.3v", pacing, aloneAbove, alone, above, shared)
		}
	}
}

// A renewal is at an instant that no caller owns, close to when it is due.
func TestInstantsOfRenewals(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l := &member{link: link{grid: newGrid(1000), seed: 1, owner: 77}}
		time.Sleep(1234567 * time.Nanosecond)
		for range 1000 {
			for _, due := range []time.Duration{0, 1, 200 * time.Millisecond} {
				delay := l.RenewIn(due)
				if low, high := due-due/20, due+due/20+2*l.grid.tick; delay < low || delay > high {
					t.Fatalf("a renewal that is due in %v is in %v, want from %v to %v", due, delay, low, high)
				}
				if again := l.RenewIn(due); again != delay {
					t.Fatalf("a renewal that is due in %v is in %v and in %v", due, delay, again)
				}
				time.Sleep(delay)
				if now := l.grid.now(); !l.grid.owns(l.owner, now-1) {
					t.Fatalf("a renewal is at %d, want one nanosecond after an instant of its owner", now)
				}
			}
		}
	})
}
