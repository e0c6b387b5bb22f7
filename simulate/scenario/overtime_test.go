package scenario

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const changing = `
duration: 40s
clients: {count: 1, rate: 10}
service:
  capacity: 100
  queue: 10
  latency:
    distribution: table
    table: [{share: 0, within: 5ms}, {share: 0.5, within: 20ms}, {share: 1, within: 2s}]
  throttle: {share: 0.1}
over_time: {every: 10s, rate: [10, 0, 20, 10], throttled: [0, 0.5, 0, 1], errors: [0, 0, 0, 1], latency: [1, 2, 1, 1]}
`

func TestParseOverTime(t *testing.T) {
	s, err := Parse([]byte(changing))
	if err != nil {
		t.Fatal(err)
	}
	want := &OverTime{
		Every: seconds(10), Rate: []float64{10, 0, 20, 10}, Throttled: []float64{0, 0.5, 0, 1},
		Errors: []float64{0, 0, 0, 1}, Latency: []float64{1, 2, 1, 1},
	}
	if diff := cmp.Diff(want, s.OverTime); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	table := []Quantile{{0, ms(5)}, {0.5, ms(20)}, {1, seconds(2)}}
	if diff := cmp.Diff(table, s.Service.Latency.Table); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Half of the requests takes 12.5 ms on average, the others 1,010 ms.
	if got, want := s.Service.Latency.Mean(), 511.25e6; math.Abs(got-want) > 1 {
		t.Errorf("the mean latency is %v ns, want %v", got, want)
	}
}

func TestValidateOverTime(t *testing.T) {
	for _, tt := range []struct {
		change func(*Scenario)
		want   string
	}{
		{func(s *Scenario) { s.OverTime.Every = 0 }, "over_time.every is 0s; it must be 100ms to 24h"},
		{func(s *Scenario) { s.OverTime.Every = seconds(100_000) }, "it must be 100ms to 24h"},
		{func(s *Scenario) { s.Duration = seconds(20_000) }, "the run would have 2000 steps, and at most 1000 are allowed"},
		{func(s *Scenario) { s.Duration = math.MaxInt64 }, "duration is "},
		{func(s *Scenario) { s.OverTime.Rate = []float64{1} },
			"over_time.rate is 1 numbers; it must be 4, one for each step of the run, or none"},
		{func(s *Scenario) { s.OverTime.Rate[2] = math.NaN() }, "over_time.rate[2] is NaN; it must be at least 0"},
		{func(s *Scenario) { s.OverTime.Errors[3] = 1.1 }, "over_time.errors[3] is 1.1"},
		{func(s *Scenario) { s.OverTime.Throttled[0] = -1 }, "over_time.throttled[0] is -1"},
		{func(s *Scenario) { s.OverTime.Latency[0] = math.Inf(1) }, "over_time.latency[0] is +Inf"},
		{func(s *Scenario) { s.Clients = Clients{Count: 1, Callers: 1} }, "over_time.rate is set; it must be left out"},
		{func(s *Scenario) { s.Service.Throttle = nil }, "over_time.throttled is set; it must be left out without"},
		{func(s *Scenario) {
			s.Duration, s.OverTime.Every, s.OverTime.Rate = seconds(80_000), seconds(20_000), []float64{1e6, 1e6, 1e6, 1e6}
		},
			"the number of calls is 8e+10"},

		{func(s *Scenario) { s.Service.Latency.Median = ms(1) }, "service.latency.median is 1ms; it must be left out"},
		{func(s *Scenario) { s.Service.Latency.P99 = ms(1) }, "service.latency.p99 is 1ms; it must be left out"},
		{
			func(s *Scenario) { s.Service.Latency.Distribution = Constant },
			"service.latency.table is set; it must be left out",
		},
		{func(s *Scenario) { s.Service.Latency.Table = nil }, "service.latency.table is 0 entries; it must be 2 to 1000"},
		{func(s *Scenario) { s.Service.Latency.Table = make([]Quantile, 2000) }, "is 2000 entries"},
		{
			func(s *Scenario) { s.Service.Latency.Table[0].Share = 0.1 },
			"table[0].share is 0.1; it must be 0, for the shortest",
		},
		{
			func(s *Scenario) { s.Service.Latency.Table[1].Share = math.NaN() },
			"table[1].share is NaN; it must be above the one before",
		},
		{
			func(s *Scenario) { s.Service.Latency.Table[2].Share = 0.9 },
			"table[2].share is 0.9; it must be 1, for the longest",
		},
		{func(s *Scenario) { s.Service.Latency.Table[2].Within = ms(1) }, "table[2].within is 1ms; it must be 20ms to 1h"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			s, err := Parse([]byte(changing))
			if err != nil {
				t.Fatal(err)
			}
			tt.change(&s)
			if err := s.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
