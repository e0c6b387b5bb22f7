package scenario

import (
	"math"
	"testing"
	"time"
)

func TestWithClients(t *testing.T) {
	for _, name := range Names() {
		s, err := Ready(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, factor := range []float64{2, 10, 100} {
			count := max(int(float64(s.Clients.Count)*factor), 1)
			if count*(s.Clients.Callers+1) > 250_000 { // which Validate refuses
				continue
			}
			changed := s.WithClients(count)
			if got, want := changed.CallRate(), s.CallRate(); math.Abs(got-want) > 1e-6*want {
				t.Errorf("%s with %d clients makes %v calls a second, want %v", name, count, got, want)
			}
			if got, want := herdCalls(changed), herdCalls(s); got != want {
				t.Errorf("%s with %d clients makes %d calls in herds, want %d", name, count, got, want)
			}
			if err := changed.Validate(); err != nil {
				t.Errorf("%s with %d clients: %v", name, count, err)
			}
		}
	}
}

// herdCalls returns how many calls the herds make.
func herdCalls(s Scenario) int {
	n := 0
	for _, e := range s.Events {
		for client := range s.Clients.Count {
			n += e.HerdCalls(client)
		}
	}
	return n
}

func TestCallRate(t *testing.T) {
	loop := func(think float64, l Latency) Scenario {
		return Scenario{
			Duration: seconds(10), Clients: Clients{Count: 2, Callers: 3, Think: ms(think)},
			Service: Service{Capacity: 100, Network: ms(10), Latency: l},
		}
	}
	for _, tt := range []struct {
		name string
		s    Scenario
		want float64
	}{
		{"arriving calls", Scenario{Clients: Clients{Count: 2, Rate: 7}}, 7},
		{"without think time", loop(0, Latency{Median: ms(40)}), 100},
		{"with think time", loop(40, Latency{Median: ms(40)}), 60},
		{"an exponential latency", loop(40, Latency{Distribution: Exponential, Median: ms(40 * math.Ln2)}), 60},
		{"a lognormal latency", loop(40, Latency{Median: ms(40), P99: Duration(100 * time.Millisecond)}), 58.12},
		{"with a body", withBody(loop(40, Latency{Median: ms(40)}), ms(400)), 12},
		{"more clients than the calls need", loop(0, Latency{Median: ms(40)}).WithClients(4), 100},
		{"fewer clients than the calls need", loop(0, Latency{Median: ms(40)}).WithClients(1), 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.CallRate(); math.Abs(got-tt.want) > 0.01 {
				t.Errorf("%v calls a second, want %v", got, tt.want)
			}
		})
	}
}

func withBody(s Scenario, time Duration) Scenario {
	s.Service.Body = &Body{Time: time}
	return s
}
