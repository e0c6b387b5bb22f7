package simulate

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

// served returns when requests that arrive at the given seconds get their
// response, in seconds, and its status: 0 if the connection breaks, and an
// infinite time if there is no response.
func served(s scenario.Scenario, arrivals ...float64) (at []float64, status []int) {
	v := newService(s.WithDefaults(), grid{}, nil)
	for i, arrival := range arrivals {
		f := v.arrive(time.Duration(seconds(arrival)), &call{id: uint64(i), client: i % 2, attempts: 1})
		end := math.Round(f.at.Seconds()*1e4) / 1e4
		if f.at == never {
			end = math.Inf(1)
		}
		at, status = append(at, end), append(status, f.status)
	}
	return at, status
}

func TestService(t *testing.T) {
	// Ten requests per second, two may wait, 0.5 s after the queue, and a
	// network that is too fast to count.
	base := scenario.Scenario{
		Duration: seconds(60), Clients: scenario.Clients{Count: 2, Rate: 1},
		Service: scenario.Service{
			Capacity: 10, Queue: 2, Latency: scenario.Latency{Median: ms(500)}, Network: scenario.Duration(time.Nanosecond),
		},
	}
	with := func(from, to float64, e scenario.Event, always ...scenario.Event) scenario.Scenario {
		s := base
		e.From, e.To = seconds(from), seconds(to)
		s.Events = append(always, e)
		return s
	}
	costly := base
	costly.Service.Queue, costly.Service.RefuseCost, costly.Service.Latency = 0, 0.5, scenario.Latency{}
	for _, tt := range []struct {
		name     string
		scenario scenario.Scenario
		arrivals []float64
		at       []float64
		status   []int
	}{
		{
			"one after the other through the queue", base, []float64{0, 0, 0}, []float64{0.6, 0.7, 0.8},
			[]int{200, 200, 200},
		}, {
			"a full queue refuses until a request has passed", base,
			[]float64{0, 0, 0, 0, 0.101}, []float64{0.6, 0.7, 0.8, 0, 0.9}, []int{200, 200, 200, 503, 200},
		}, {
			"less capacity slows waiting requests",
			with(0.15, 0, scenario.Event{Kind: scenario.CapacityStep, Capacity: 1}),
			[]float64{0, 0, 0}, []float64{0.6, 1.15, 2.15}, []int{200, 200, 200},
		}, {
			"more capacity speeds them up",
			with(0, 0.5, scenario.Event{Kind: scenario.CapacityStep, Capacity: 1}),
			[]float64{0, 0}, []float64{1.05, 1.15}, []int{200, 200},
		}, {
			"hardly any capacity keeps them waiting",
			with(1, 2, scenario.Event{Kind: scenario.CapacityStep, Capacity: 1e-9}),
			[]float64{1, 1.5, 1.9, 1.95, 2.101}, []float64{2.6, 2.7, 2.8, 1.95, 2.9}, []int{200, 200, 200, 503, 200},
		}, {
			"an outage refuses, and ends what is under way",
			with(1, 2, scenario.Event{Kind: scenario.Outage}),
			[]float64{0, 0.95, 1, 1.5, 2}, []float64{0.6, 1, 1, 1.5, 2.6}, []int{200, 503, 503, 503, 200},
		}, {
			"connections break",
			with(1, 2, scenario.Event{Kind: scenario.Outage, How: scenario.OutageReset}),
			[]float64{0.95, 1.5}, []float64{1, 1.5}, []int{0, 0},
		}, {
			"no response",
			with(1, 2, scenario.Event{Kind: scenario.Outage, How: scenario.OutageHang}),
			[]float64{0.95, 1.5, 2}, []float64{math.Inf(1), math.Inf(1), 2.6}, []int{0, 0, 200},
		}, {
			"every response an error", with(1, 2, scenario.Event{Kind: scenario.Errors, Share: 1}),
			[]float64{0, 1, 2}, []float64{0.6, 1.6, 2.6}, []int{200, 500, 200},
		}, {
			"slow", with(1, 2, scenario.Event{Kind: scenario.SlowLatency, Factor: 3}),
			[]float64{0, 1, 2}, []float64{0.6, 2.6, 2.6}, []int{200, 200, 200},
		}, {
			"one throttle for all",
			with(1, 0, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{Rate: 1, Burst: 2}}),
			[]float64{0.5, 1, 1.1, 1.2, 2.25}, []float64{1.1, 1.6, 1.7, 1.2, 2.85}, []int{200, 200, 200, 429, 200},
		}, {
			"a throttle for each client",
			with(1, 0, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{Rate: 1, PerClient: true}}),
			[]float64{1, 1.1, 1.2, 1.3, 2.05}, []float64{1.6, 1.7, 1.2, 1.3, 2.65}, []int{200, 200, 429, 429, 200},
		},
		{
			"at most two in flight",
			with(0, 0, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{InFlight: 2}}),
			[]float64{0, 0.1, 0.2, 0.65}, []float64{0.6, 0.7, 0.2, 1.25}, []int{200, 200, 429, 200},
		}, {
			"one in flight for each client",
			with(0, 0, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{InFlight: 1, PerClient: true}}),
			[]float64{0, 0.1, 0.2, 0.3, 0.65}, []float64{0.6, 0.7, 0.2, 0.3, 1.25}, []int{200, 200, 429, 429, 200},
		}, {
			"an outage ends what is in flight",
			with(0.3, 0.4, scenario.Event{Kind: scenario.Outage}, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{InFlight: 1}}),
			[]float64{0, 0.2, 0.45}, []float64{0.3, 0.2, 1.05}, []int{503, 429, 200},
		}, {
			"a ban, which its refusals do not prolong",
			with(0, 0, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{Rate: 1, Ban: seconds(2)}}),
			[]float64{0, 0.5, 1.6, 2.4, 2.6}, []float64{0.6, 0.5, 1.6, 2.4, 3.2}, []int{200, 429, 429, 429, 200},
		}, {
			"a ban of one client",
			with(0, 0, scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{Rate: 1, Ban: seconds(2), PerClient: true}}),
			[]float64{0, 0.1, 0.5, 1.2, 1.6}, []float64{0.6, 0.7, 0.5, 1.8, 1.6}, []int{200, 200, 429, 200, 429},
		},
		{ // busy to 0.1, with the first two refusals to 0.2, with the third to 0.25
			"refusing takes capacity", costly,
			[]float64{0, 0.05, 0.09, 0.12, 0.3}, []float64{0.1, 0.05, 0.09, 0.12, 0.4}, []int{200, 503, 503, 503, 200},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, status := served(tt.scenario, tt.arrivals...)
			if diff := cmp.Diff(tt.status, status); diff != "" {
				t.Error("status", diff)
			}
			if diff := cmp.Diff(tt.at, at); diff != "" {
				t.Error("seconds", diff)
			}
		})
	}
}

func TestThrottleResponse(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 5, time.UTC) // so that the next whole second is sent
	for _, tt := range []struct {
		throttle         scenario.Throttle
		retryAfter, body string
	}{
		{scenario.Throttle{Rate: 1}, "", ""},
		{scenario.Throttle{Rate: 1, RetryAfter: seconds(3)}, "3", ""},
		{scenario.Throttle{Rate: 1, RetryAt: seconds(30)}, "Sat, 01 Jan 2000 00:00:31 GMT", ""},
		{scenario.Throttle{Rate: 1, Code: "SlowDown"}, "", `{"__type":"SlowDown","message":"Rate exceeded"}`},
	} {
		resp := newRefusal(&tt.throttle, start).response(429, new(http.Request))
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 429 || resp.Status != "429 Too Many Requests" ||
			resp.Header.Get("Retry-After") != tt.retryAfter ||
			string(body) != tt.body || resp.ContentLength != int64(len(tt.body)) {
			t.Errorf("%+v: got %+v with body %q, %v", tt.throttle, resp, body, err)
		}
	}
}

func TestLatencies(t *testing.T) {
	table := []scenario.Quantile{{Share: 0, Within: ms(10)}, {Share: 0.5, Within: ms(20)}, {Share: 0.9, Within: ms(40)},
		{Share: 1, Within: ms(240)}}
	for _, tt := range []struct {
		latency     scenario.Latency
		median, p99 scenario.Duration
	}{
		{scenario.Latency{Median: ms(20)}, ms(20), ms(20)},
		{scenario.Latency{Median: ms(20), P99: ms(200)}, ms(20), ms(200)},
		{scenario.Latency{Distribution: scenario.Exponential, Median: ms(20)}, ms(20), ms(20 * math.Log2(100))},
		{scenario.Latency{Distribution: scenario.Tabulated, Table: table}, ms(20), ms(220)},
	} {
		v := newService(
			scenario.Scenario{Service: scenario.Service{Capacity: 10, Latency: tt.latency}}.WithDefaults(), grid{}, nil)
		var drawn []time.Duration
		for i := range uint64(20_000) {
			drawn = append(drawn, v.sample(&call{id: random(i)}))
		}
		slices.Sort(drawn)
		for p, want := range map[float64]scenario.Duration{0.5: tt.median, 0.99: tt.p99} {
			if got := scenario.Duration(Percentile(drawn, p)); math.Abs(float64(got-want)) > 0.08*float64(want) {
				t.Errorf("%+v: percentile %v is %v, want %v", tt.latency, p, got, want)
			}
		}
	}
}

func TestServes(t *testing.T) {
	s := scenario.Scenario{
		Duration: seconds(240), Clients: scenario.Clients{Count: 1, Callers: 1},
		Service: scenario.Service{Capacity: 1000, Throttle: &scenario.Throttle{Rate: 100}},
		Events: []scenario.Event{
			{Kind: scenario.Throttling, From: seconds(60), To: seconds(120), Throttle: &scenario.Throttle{Rate: 20}},
			{Kind: scenario.Errors, From: seconds(120), To: seconds(180), Share: 0.25},
			{Kind: scenario.Outage, From: seconds(180)},
		},
	}
	for _, tt := range []struct{ from, to, want float64 }{
		{0, 60, 6000}, {30, 90, 3600}, {110, 130, 950}, {0, 240, 6000 + 1200 + 4500}, {50, 50, 0},
	} {
		if got := Serves(s, seconds(tt.from), seconds(tt.to)); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("from %v s to %v s: got %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
	s.Service.Throttle, s.Service.Latency.Median = &scenario.Throttle{InFlight: 20}, ms(50)
	if got := Serves(s, 0, seconds(10)); math.Abs(got-4000) > 1e-6 {
		t.Errorf("20 in flight, for 50 ms each: got %v, want 4000", got)
	}
	s.Service.Throttle = &scenario.Throttle{Share: 0.5} // callers may ask again
	if got := Serves(s, 0, seconds(10)); math.Abs(got-10_000) > 1e-6 {
		t.Errorf("a throttle without a rate: got %v, want 10000", got)
	}
}

// Refusing requests takes capacity, and counts as work.
func TestBacklog(t *testing.T) {
	of := func(refuseCost float64, events ...scenario.Event) Outcome {
		s := tiny(scenario.Setting{Use: scenario.UseNone})
		s.Events = events
		s.Clients = scenario.Clients{Count: 10, Rate: 400}
		s.Service = scenario.Service{
			Capacity: 100, Queue: 20, RefuseCost: refuseCost, Latency: scenario.Latency{Median: ms(5)}, Network: ms(2),
		}
		return mustRun(t, s).Outcomes[0]
	}
	free, costly := of(0), of(0.5)
	if free.Backlog < 20 || free.Backlog > 21 || free.Series.Backlog[9] > 21 {
		t.Errorf("the backlog is %v, at the end %v, want 21", free.Backlog, free.Series.Backlog[9])
	}
	// The work is 400/s times 0.5, of which the service does 100/s.
	if last := costly.Series.Backlog[9]; costly.Backlog < 900 || last < 900 || last > costly.Backlog {
		t.Errorf("with a cost the backlog is %v, at the end %v, want about 1000", costly.Backlog, last)
	}
	if free.Refused < 2800 || free.Refused > 3200 || costly.Refused < 3800 {
		t.Errorf("%d are refused, and %d with a cost, want about 3000 and 4000", free.Refused, costly.Refused)
	}
	gone := of(0.5, scenario.Event{Kind: scenario.Outage, From: seconds(5)})
	if gone.Series.Backlog[3] < 300 || gone.Series.Backlog[9] != 0 {
		t.Errorf("an outage leaves a backlog: %v", gone.Series.Backlog)
	}
}

func TestResolution(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseNone})
	for _, tt := range []struct {
		inFlight int
		want     time.Duration
		coarse   bool
	}{{10, 25, false}, {200_000, 500 * time.Microsecond, false}, {240_000, 500 * time.Microsecond, true}} {
		s.Clients = scenario.Clients{Count: 1, Rate: 1, MaxInFlight: tt.inFlight}
		if tt.coarse {
			s.Service.Latency.Median = ms(10)
		}
		r := mustRun(t, s)
		var table strings.Builder
		if err := r.WriteTable(&table, 0); err != nil {
			t.Fatal(err)
		}
		if time.Duration(r.Resolution) != tt.want || strings.Contains(table.String(), "rounded to 500µs") != tt.coarse {
			t.Errorf("%d calls at once: resolution %v\n%s", tt.inFlight, r.Resolution, table.String())
		}
	}
}
