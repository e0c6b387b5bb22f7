package simulate

import (
	"slices"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A measure is what callers of a throttling service experience from an instant
// on. The first seconds, in which the limiter searches for the rate after a
// throttling that hits all callers at once, are better left out.
type measure struct {
	goodput           float64       // successful calls, as a share of those that the service could have served
	throttled         float64       // share of the attempts
	failed            float64       // share of the calls that ended
	p50, p99, longest time.Duration // of a call, including its delays and its time in line
	fairness          float64       // Jain's index of the clients' successful calls

	// Seconds until the goodput is nine tenths of what the service serves, from
	// the beginning of the run and, the longest, from an event on. -1: never.
	begun, stepped int
}

// measured runs s, which has one setting.
func measured(t *testing.T, s scenario.Scenario, from time.Duration) measure {
	t.Helper()
	var took []time.Duration
	ended := 0.0
	perClient := make([]float64, s.Clients.Count)
	r, err := Run(t.Context(), s, Options{Observe: func(_ int, c Call) {
		if c.Start+c.Took < from {
			return
		}
		took = append(took, c.Took) // also of an unfinished call, or a caller that starves would not count
		if !c.Unfinished {
			ended++
		}
		if c.Good {
			perClient[c.Client]++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	series := r.Outcomes[0].Series
	second := int(from / time.Second)
	good := total(perClient)
	m := measure{
		goodput:   good / Serves(s, scenario.Duration(from), s.Duration),
		throttled: total(series.Throttled[second:]) / total(series.Attempts[second:]),
		failed:    1 - good/ended,
		p50:       Percentile(took, 0.50),
		p99:       Percentile(took, 0.99),
		longest:   Percentile(took, 1),
		fairness:  Jain(perClient),
		begun:     SecondsToTheRate(s, series.Good, 0),
	}
	for _, e := range s.Events {
		m.stepped = later(m.stepped, SecondsToTheRate(s, series.Good, int(time.Duration(e.From)/time.Second)))
	}
	return m
}

// later returns the later of two numbers of seconds, of which -1 is never.
func later(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

func total(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// log writes the measure to the test's log.
func (m measure) log(t *testing.T) {
	t.Helper()
	t.Logf("goodput %.1f %%, throttled %.2f %%, failed %.2f %%, a call's p50 %.2f s, p99 %.2f s and longest %.1f s, "+
		"fairness %.3f, nine tenths of the rate after %d s and %d s", 100*m.goodput, 100*m.throttled, 100*m.failed,
		m.p50.Seconds(), m.p99.Seconds(), m.longest.Seconds(), m.fairness, m.begun, m.stepped)
}

// limitedTo is a throttle with a bucket for a tenth of a second.
func limitedTo(rate float64) *scenario.Throttle {
	return &scenario.Throttle{Rate: rate, Burst: max(rate/10, 1), Code: "ProvisionedThroughputExceededException"}
}

// What adaptive mode makes of a service that admits so many requests
// per second.
func TestAdaptiveFindsTheRate(t *testing.T) {
	for _, tt := range []struct {
		name             string
		rate             float64
		events           []scenario.Event
		clients, callers int
		length           scenario.Duration
		goodput          float64       // at least
		throttled        float64       // less than; 1: whatever it is
		p99              time.Duration // less than
		fairness         float64       // more than
	}{
		{
			name: "100 per second, one Transport", rate: 100, clients: 1, callers: 64, length: seconds(120),
			goodput: 0.96, throttled: 0.005, p99: time.Second,
		}, {
			name: "100 per second, eight Transports", rate: 100, clients: 8, callers: 8, length: seconds(150),
			goodput: 0.98, throttled: 1, p99: 3 * time.Second, fairness: 0.95,
		}, {
			name: "5 per second", rate: 5, clients: 1, callers: 64, length: seconds(600),
			goodput: 0.72, throttled: 1, p99: 55 * time.Second,
		}, {
			name: "100, 20, then 200 per second", rate: 100, clients: 1, callers: 64, length: seconds(240),
			events: []scenario.Event{
				{Kind: scenario.Throttling, From: seconds(60), To: seconds(120), Throttle: limitedTo(20)},
				{Kind: scenario.Throttling, From: seconds(120), Throttle: limitedTo(200)},
			},
			goodput: 0.90, throttled: 1, p99: 4 * time.Second,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // in virtual time nothing depends on how busy the processors are
			got := measured(t, scenario.Scenario{
				Duration: tt.length,
				Clients:  scenario.Clients{Count: tt.clients, Callers: tt.callers},
				Service: scenario.Service{
					Capacity: scenario.MaxRate,
					Queue:    scenario.MaxClients,
					Network:  ms(10),
					Throttle: limitedTo(tt.rate),
				},
				Events:   tt.events,
				Settings: []scenario.Setting{{Use: scenario.UseAdaptive}},
			}, 30*time.Second)
			got.log(t)
			if got.goodput < tt.goodput {
				t.Errorf("goodput is %.4f, want at least %v", got.goodput, tt.goodput)
			}
			// A call may end in the measured time whose request was admitted
			// before, and there is the burst.
			if got.goodput > 1.01 {
				t.Errorf("goodput is %.4f: the service admits more than it should", got.goodput)
			}
			if got.throttled >= tt.throttled {
				t.Errorf("%.4f of the attempts are throttled, want less than %v", got.throttled, tt.throttled)
			}
			if got.p99 >= tt.p99 {
				t.Errorf("p99 is %v, want less than %v", got.p99, tt.p99)
			}
			// Unlucky retries make a long tail. This is for a caller that is
			// never served.
			if most := 10 * tt.p99; got.longest >= most {
				t.Errorf("the longest call took %v, want less than %v", got.longest, most)
			}
			if got.fairness <= tt.fairness {
				t.Errorf("fairness is %.4f, want more than %v", got.fairness, tt.fairness)
			}
		})
	}
}
