package simulate

import (
	"math"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// OverTime takes effect in the steps of the scenario.
func TestOverTime(t *testing.T) {
	s := scenario.Scenario{
		Duration: seconds(40), Seed: 1,
		Clients: scenario.Clients{Count: 4, Rate: 1, MaxInFlight: 500},
		Service: scenario.Service{
			Capacity: 1e5, Queue: 1000, Latency: scenario.Latency{Median: ms(10)},
			Throttle: &scenario.Throttle{Share: 0.5, Code: "SlowDown"},
		},
		OverTime: &scenario.OverTime{
			Every:     seconds(10),
			Rate:      []float64{100, 0, 400, 200},
			Throttled: []float64{0, 0, 0.25, 0},
			Errors:    []float64{0.2, 0, 0, 1},
			Latency:   []float64{1, 1, 1, 3},
		},
		Events:   []scenario.Event{{Kind: scenario.Errors, Share: 0.5, From: seconds(35)}},
		Settings: []scenario.Setting{{Use: scenario.UseNone}},
	}
	series := mustRun(t, s).Outcomes[0].Series
	for _, tt := range []struct {
		from, to                   int
		started, throttled, failed float64 // per second
	}{
		{0, 10, 100, 0, 20},
		{11, 20, 0, 0, 0},
		{20, 30, 400, 100, 0},
		{30, 35, 200, 0, 200},
		{36, 40, 200, 0, 100},
	} {
		for name, of := range map[string]struct {
			series []float64
			want   float64
		}{
			"calls": {series.Started, tt.started}, "429": {series.Throttled, tt.throttled}, "500": {series.Errors, tt.failed},
		} {
			got := mean(of.series[tt.from:tt.to])
			if math.Abs(got-of.want) > 0.15*of.want+0.5 {
				t.Errorf("from %d s to %d s: %.1f of %s per second, want about %.1f", tt.from, tt.to, got, name, of.want)
			}
		}
	}
}

// A rate that does not change gives the same arrivals in steps and without.
func TestPace(t *testing.T) {
	steady := pace{rates: []float64{5}}
	steps := pace{every: time.Second, rates: []float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}}
	var a, b time.Duration
	for n := range uint64(30) {
		a, b = steady.next(a, random(1, n)), steps.next(b, random(1, n))
		if a >= 10*time.Second {
			if b != never {
				t.Errorf("there is a call at %v, after the last step", b)
			}
			return
		}
		if d := a - b; d < -time.Microsecond || d > time.Microsecond {
			t.Fatalf("call %d comes at %v and %v", n, a, b)
		}
	}
}
