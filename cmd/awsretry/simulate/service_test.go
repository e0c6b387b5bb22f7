package simulate

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// served returns when the answers to requests that arrive at the given seconds come, in seconds, and their status: 0 where the
// connection breaks, and an infinite time where none comes.
func served(s Scenario, arrivals ...float64) (at []float64, status []int) {
	v := newService(s.withDefaults(), grid{}, nil)
	for i, arrival := range arrivals {
		f := v.arrive(time.Duration(seconds(arrival)), &call{id: uint64(i), client: i % 2, attempts: 1})
		answered := math.Round(f.at.Seconds()*1e4) / 1e4
		if f.at == never {
			answered = math.Inf(1)
		}
		at, status = append(at, answered), append(status, f.status)
	}
	return at, status
}

func TestService(t *testing.T) {
	// Ten requests a second, two may wait; 0.5 s behind the queue; network left out of the calculation by its smallness.
	base := Scenario{
		Duration: seconds(60), Clients: Clients{Count: 2, Rate: 1},
		Service: Service{Capacity: 10, Queue: 2, Latency: Latency{Median: ms(500)}, Network: Duration(time.Nanosecond)},
	}
	with := func(events ...Event) Scenario {
		s := base
		s.Events = events
		return s
	}
	for _, test := range []struct {
		name     string
		scenario Scenario
		arrivals []float64
		at       []float64
		status   []int
	}{
		{"one after the other through the queue", base, []float64{0, 0, 0}, []float64{0.6, 0.7, 0.8}, []int{200, 200, 200}},
		{"a full queue refuses, and takes again what it has passed", base, []float64{0, 0, 0, 0, 0.101}, []float64{0.6, 0.7, 0.8, 0, 0.9}, []int{200, 200, 200, 503, 200}},
		{"less capacity slows what waits already", with(Event{Kind: CapacityStep, Capacity: 1, From: seconds(0.15)}),
			[]float64{0, 0, 0}, []float64{0.6, 1.15, 2.15}, []int{200, 200, 200}},
		{"and more capacity hurries it", with(Event{Kind: CapacityStep, Capacity: 1, From: 0, To: seconds(0.5)}),
			[]float64{0, 0}, []float64{1.05, 1.15}, []int{200, 200}},
		{"an outage refuses, and ends what is under way", with(Event{Kind: Outage, From: seconds(1), To: seconds(2)}),
			[]float64{0, 0.95, 1, 1.5, 2}, []float64{0.6, 1, 1, 1.5, 2.6}, []int{200, 503, 503, 503, 200}},
		{"connections break", with(Event{Kind: Outage, How: outageReset, From: seconds(1), To: seconds(2)}),
			[]float64{0.95, 1.5}, []float64{1, 1.5}, []int{0, 0}},
		{"nothing answers", with(Event{Kind: Outage, How: outageHang, From: seconds(1), To: seconds(2)}),
			[]float64{0.95, 1.5, 2}, []float64{math.Inf(1), math.Inf(1), 2.6}, []int{0, 0, 200}},
		{"every answer an error", with(Event{Kind: Errors, Share: 1, From: seconds(1), To: seconds(2)}),
			[]float64{0, 1, 2}, []float64{0.6, 1.6, 2.6}, []int{200, 500, 200}},
		{"slow", with(Event{Kind: SlowLatency, Factor: 3, From: seconds(1), To: seconds(2)}),
			[]float64{0, 1, 2}, []float64{0.6, 2.6, 2.6}, []int{200, 200, 200}},
		{"throttled together", with(Event{Kind: Throttling, Throttle: &Throttle{Rate: 1, Burst: 2}, From: seconds(1)}),
			[]float64{0.5, 1, 1.1, 1.2, 2.25}, []float64{1.1, 1.6, 1.7, 1.2, 2.85}, []int{200, 200, 200, 429, 200}},
		{"throttled each", with(Event{Kind: Throttling, Throttle: &Throttle{Rate: 1, PerClient: true}, From: seconds(1)}),
			[]float64{1, 1.1, 1.2, 1.3, 2.05}, []float64{1.6, 1.7, 1.2, 1.3, 2.65}, []int{200, 200, 429, 429, 200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			at, status := served(test.scenario, test.arrivals...)
			if diff := cmp.Diff(test.status, status); diff != "" {
				t.Error("status", diff)
			}
			if diff := cmp.Diff(test.at, at); diff != "" {
				t.Error("seconds", diff)
			}
		})
	}
}

func TestRefusingTakesCapacity(t *testing.T) {
	s := Scenario{Duration: seconds(10), Clients: Clients{Count: 1, Rate: 1},
		Service: Service{Capacity: 10, Queue: 0, RefuseCost: 0.5, Network: Duration(time.Nanosecond)}}
	at, status := served(s, 0, 0.05, 0.09, 0.12, 0.3)
	// Served to 0.1; two refused, 0.05 s each: busy to 0.2; refused a third: to 0.25.
	if want := []int{200, 503, 503, 503, 200}; !slices.Equal(status, want) {
		t.Errorf("status %v, want %v", status, want)
	}
	if at[4] != 0.4 {
		t.Errorf("served at %v, want 0.4", at[4])
	}
}

func TestRetryAfterIsSent(t *testing.T) {
	s := Scenario{Duration: seconds(10), Clients: Clients{Count: 1, Rate: 1},
		Service: Service{Capacity: 10, Throttle: &Throttle{Rate: 1, RetryAfter: seconds(3)}}}
	v := newService(s.withDefaults(), grid{}, nil)
	v.arrive(0, &call{})
	f := v.arrive(1, &call{})
	if f.status != http.StatusTooManyRequests || f.header.Get("Retry-After") != "3" {
		t.Errorf("answer %+v, want 429 with Retry-After 3", f)
	}
}

func TestLatencies(t *testing.T) {
	for _, test := range []struct {
		latency     Latency
		median, p99 Duration
	}{
		{Latency{Median: ms(20)}, ms(20), ms(20)},
		{Latency{Median: ms(20), P99: ms(200)}, ms(20), ms(200)},
		{Latency{Distribution: exponentially, Median: ms(20)}, ms(20), ms(20 * math.Log2(100))},
	} {
		s := Scenario{Duration: seconds(10), Clients: Clients{Count: 1, Rate: 1}, Service: Service{Capacity: 10, Latency: test.latency}}
		v := newService(s.withDefaults(), grid{}, nil)
		var drawn []time.Duration
		for i := range uint64(20_001) {
			drawn = append(drawn, v.sample(&call{id: random(i)}))
		}
		slices.Sort(drawn)
		for _, c := range []struct {
			what      string
			got, want time.Duration
		}{{"median", drawn[10_000], time.Duration(test.median)}, {"p99", drawn[19_800], time.Duration(test.p99)}} {
			if math.Abs(float64(c.got-c.want)) > 0.08*float64(c.want) {
				t.Errorf("%+v: %s %v, want %v", test.latency, c.what, c.got, c.want)
			}
		}
	}
}
