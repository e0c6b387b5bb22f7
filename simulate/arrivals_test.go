package simulate

import (
	"math"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// As many calls arrive as the scenario says, and they take as long, however few
// clients make the calls and however many may be under way.
func TestArrivalsAreNotCut(t *testing.T) {
	const rate, response = 8000, 7 * time.Millisecond
	with := func(clients int, timeout float64) scenario.Scenario {
		return scenario.Scenario{
			Duration: seconds(1), Seed: 1,
			Clients: scenario.Clients{Count: clients, Rate: rate, Timeout: seconds(timeout)},
			Service: scenario.Service{
				Capacity: 1e6, Queue: 1e6, Network: ms(2),
				Latency: scenario.Latency{Distribution: scenario.Constant, Median: ms(5)},
			},
			Settings: []scenario.Setting{{Use: scenario.UseNone}},
		}
	}
	herd := with(1, 10)
	herd.Clients.Rate = 0
	herd.Events = []scenario.Event{{Kind: scenario.Herd, From: seconds(0.5), To: seconds(0.625), Calls: 1000}}
	for _, tt := range []struct {
		name  string
		s     scenario.Scenario
		calls float64
	}{
		{"a long time-out", with(1, 15), rate},
		{"many clients with a long time-out", with(400, 15), rate},
		{"a herd", herd, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if raceDetector && tt.s.Clients.Count > 1 {
				t.Skip("the race detector makes many owners slow")
			}
			sum, n := time.Duration(0), 0
			last := time.Duration(0)
			result, err := Run(t.Context(), tt.s, Options{Observe: func(_ int, c Call) {
				if c.Good {
					sum += c.Took
					n++
				}
				last = max(last, c.Start)
			}})
			if err != nil {
				t.Fatal(err)
			}
			if got := float64(result.Outcomes[0].Calls); math.Abs(got-tt.calls) > 0.03*tt.calls {
				t.Errorf("%v calls, want %v", got, tt.calls)
			}
			if got := sum / time.Duration(max(n, 1)); math.Abs(float64(got-response)) > 0.01*float64(response) {
				t.Errorf("a call takes %v, want %v", got, response)
			}
			if len(tt.s.Events) > 0 && last > time.Duration(tt.s.Events[0].To)+time.Millisecond {
				t.Errorf("the last call of the herd begins at %v", last)
			}
		})
	}
}

func TestOwnersOfAClientDiffer(t *testing.T) {
	for arrivals := 1; arrivals < 9; arrivals++ {
		for inFlight := range 20 {
			c := &client{first: 3, arrivals: series{5, 1 + inFlight/arrivals, arrivals}}
			owners := map[int]bool{3: true, 4: true}
			for i := range arrivals {
				owners[5+i*c.arrivals.step] = true
			}
			for i := range inFlight {
				owners[c.arriving(i)] = true
			}
			for owner := 3; owner < 3+len(owners); owner++ {
				if !owners[owner] || len(owners) != 2+arrivals+inFlight {
					t.Fatalf("%d arrivals, %d in flight: owners %v", arrivals, inFlight, owners)
				}
			}
		}
	}
}
