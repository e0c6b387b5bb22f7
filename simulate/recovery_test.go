package simulate

import (
	"slices"
	"testing"

	"example.com/awsretry/simulate/scenario"
)

// curve returns a value for each second, from pairs of a number of seconds and
// their value.
func curve(pairs ...int) (values []float64) {
	for pair := range slices.Chunk(pairs, 2) {
		values = append(values, slices.Repeat([]float64{float64(pair[1])}, pair[0])...)
	}
	return values
}

func TestRecovery(t *testing.T) {
	outage := []scenario.Event{{Kind: scenario.Outage, From: seconds(10), To: seconds(20)}}
	toTheEnd := func(e scenario.Event) []scenario.Event {
		e.From, e.To = seconds(10), seconds(40)
		return []scenario.Event{e}
	}
	for _, tt := range []struct {
		name   string
		events []scenario.Event
		good   []float64
		want   scenario.Duration
		how    Recovery
	}{
		{"after three seconds", outage, curve(10, 50, 13, 0, 17, 50), seconds(3), RecoveredInRun},
		{"nine tenths are enough", outage, curve(10, 50, 13, 44, 17, 45), seconds(3), RecoveredInRun},
		{"never", outage, curve(10, 50, 30, 40), seconds(20), NotRecovered},
		{"the second time it lasts", outage, curve(10, 50, 10, 0, 6, 50, 4, 0, 10, 50), seconds(10), RecoveredInRun},
		{"chance is no relapse", outage, curve(10, 50, 10, 0, 10, 50, 5, 42, 5, 50), 0, RecoveredInRun},
		{"a few calls and then none", outage, curve(10, 1, 10, 0, 6, 1, 14, 0), seconds(20), NotRecovered},
		{
			"down to the end",
			toTheEnd(scenario.Event{Kind: scenario.Outage, How: scenario.OutageRefuse}),
			curve(10, 50, 30, 0), seconds(30), NotRecovered,
		},
		{"no event", nil, curve(40, 50), 0, NoIncident},
		{
			"nothing to compare with", []scenario.Event{{Kind: scenario.Outage, From: seconds(4), To: seconds(20)}},
			curve(40, 50), 0, NoIncident,
		}, {
			"as much as the service can still serve",
			toTheEnd(scenario.Event{Kind: scenario.CapacityStep, Capacity: 20}),
			curve(10, 50, 12, 10, 18, 19), seconds(12), RecoveredInRun,
		}, {
			"throttled to the end",
			toTheEnd(scenario.Event{Kind: scenario.Throttling, Throttle: &scenario.Throttle{Rate: 10}}),
			curve(10, 50, 30, 10), 0, RecoveredInRun,
		}, {
			"between two seconds", []scenario.Event{{Kind: scenario.Herd, From: seconds(10), To: seconds(10.25)}},
			curve(10, 50, 1, 0, 29, 50), ms(750), RecoveredInRun,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scenario.Scenario{Duration: seconds(40), Service: scenario.Service{Capacity: 100}, Events: tt.events}
			if got, how := recovery(s, tt.good); got != Span(tt.want) || how != tt.how {
				t.Errorf("got %v %v, want %v %v", got, how, tt.want, tt.how)
			}
		})
	}
}

func TestSecondsToTheRate(t *testing.T) {
	const length = 60
	for _, tt := range []struct {
		name string
		rate float64
		good []float64
		from int
		want int
	}{
		{"after ten seconds", 50, curve(10, 10, 50, 50), 0, 10},
		{"the mean of five seconds", 50, curve(10, 10, 50, 60), 0, 9},
		{"the time of twenty requests", 1, curve(10, 0, 50, 1), 0, 8},
		{"from later on", 50, curve(30, 50, 10, 10, 20, 50), 30, 10},
		{"not five seconds of it", 50, curve(56, 0, 4, 50), 0, -1},
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
