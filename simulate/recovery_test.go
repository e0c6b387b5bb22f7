package simulate

import (
	"slices"
	"testing"

	"example.com/awsretry/simulate/scenario"
)

func TestRecovery(t *testing.T) {
	flat := func(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	outage := []scenario.Event{{Kind: scenario.Outage, From: seconds(10), To: seconds(20)}}
	for _, tt := range []struct {
		name   string
		events []scenario.Event
		good   []float64
		want   scenario.Duration
		how    Recovery
	}{
		{"at once", outage, slices.Concat(flat(10, 50), flat(10, 0), flat(20, 50)), 0, RecoveredInRun},
		{
			"after three seconds", outage, slices.Concat(flat(10, 50), flat(13, 0), flat(17, 50)), seconds(3),
			RecoveredInRun,
		},
		{
			"nine tenths are enough", outage, slices.Concat(flat(10, 50), flat(13, 44), flat(17, 45)), seconds(3),
			RecoveredInRun,
		},
		{"never", outage, slices.Concat(flat(10, 50), flat(30, 40)), seconds(20), NotRecovered},
		{
			"not for a while only", outage, slices.Concat(flat(10, 50), flat(10, 0), flat(10, 50), flat(10, 0)),
			seconds(20), NotRecovered,
		},
		{
			"the second time it lasts", outage,
			slices.Concat(flat(10, 50), flat(10, 0), flat(6, 50), flat(4, 0), flat(10, 50)), seconds(10),
			RecoveredInRun,
		},
		{
			"chance is no relapse", outage, slices.Concat(flat(10, 50), flat(10, 0), flat(10, 50), flat(5, 42), flat(5, 50)), 0,
			RecoveredInRun,
		},
		{
			"a few calls and then none", outage, slices.Concat(flat(10, 1), flat(10, 0), flat(6, 1), flat(14, 0)), seconds(20),
			NotRecovered,
		},
		{
			"down to the end",
			[]scenario.Event{{Kind: scenario.Outage, How: scenario.OutageRefuse, From: seconds(10), To: seconds(40)}},
			slices.Concat(flat(10, 50), flat(30, 0)), seconds(30), NotRecovered,
		},
		{"nobody called before", outage, slices.Concat(flat(20, 0), flat(20, 50)), 0, NoIncident},
		{"no event", nil, flat(40, 50), 0, NoIncident},
		{
			"nothing to compare with", []scenario.Event{{Kind: scenario.Outage, From: seconds(4), To: seconds(20)}},
			flat(40, 50), 0, NoIncident,
		},
		{
			"as much as the service can still serve",
			[]scenario.Event{{Kind: scenario.CapacityStep, Capacity: 20, From: seconds(10), To: seconds(40)}},
			slices.Concat(flat(10, 50), flat(12, 10), flat(18, 19)), seconds(12), RecoveredInRun,
		},
		{
			"throttled to the end",
			[]scenario.Event{{
				Kind: scenario.Throttling, Throttle: &scenario.Throttle{Rate: 10}, From: seconds(10), To: seconds(40),
			}},
			slices.Concat(flat(10, 50), flat(30, 10)), 0, RecoveredInRun,
		},
		{
			"between two seconds", []scenario.Event{{Kind: scenario.Herd, From: seconds(10), To: seconds(10.25)}},
			slices.Concat(flat(10, 50), flat(1, 0), flat(29, 50)), ms(750), RecoveredInRun,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scenario.Scenario{Duration: seconds(40), Service: scenario.Service{Capacity: 100}, Events: tt.events}
			if got, how := recovery(s, tt.good); got != tt.want || how != tt.how {
				t.Errorf("got %v %v, want %v %v", got, how, tt.want, tt.how)
			}
		})
	}
}

func TestSecondsToTheRate(t *testing.T) {
	flat := func(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	const length = 60
	for _, tt := range []struct {
		name string
		rate float64
		good []float64
		from int
		want int
	}{
		{"at once", 50, flat(length, 45), 0, 0},
		{"after ten seconds", 50, slices.Concat(flat(10, 10), flat(50, 50)), 0, 10},
		{"the mean of five seconds", 50, slices.Concat(flat(10, 10), flat(50, 60)), 0, 9},
		{"the time of twenty requests", 1, slices.Concat(flat(10, 0), flat(50, 1)), 0, 8},
		{"from later on", 50, slices.Concat(flat(30, 50), flat(10, 10), flat(20, 50)), 30, 10},
		{"never", 50, flat(length, 44), 0, -1},
		{"not five seconds of it", 50, slices.Concat(flat(56, 0), flat(4, 50)), 0, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tiny()
			s.Duration = seconds(length)
			s.Service.Throttle = &scenario.Throttle{Rate: tt.rate}
			if got := SecondsToTheRate(s, tt.good, tt.from); got != tt.want {
				t.Errorf("got %d s, want %d", got, tt.want)
			}
		})
	}
}
