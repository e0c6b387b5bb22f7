package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// Clients that share follow a service whose answers take seconds. They are
// throttled no more often than clients that do not share. They exceed the limit by
// half as much, or by less if throttling responses come at once, which makes that
// easy for all.
func TestFleetOnASlowService(t *testing.T) {
	if raceDetector {
		t.Skip("it takes minutes with the race detector; make test runs it without")
	}
	const limit, clients = 100, 20
	type figures struct{ throttled, above, goodput, failed float64 }
	run := func(t *testing.T, setting scenario.Setting, answer time.Duration, atOnce bool) figures {
		throttle := limitedTo(limit)
		from := max(time.Minute, 20*answer) // the rate is found by then
		s := scenario.Scenario{
			Duration: scenario.Duration(2 * from), Seed: 1,
			Clients: scenario.Clients{Count: clients, Callers: 10 + int(2*limit*answer.Seconds()/clients)},
			Service: scenario.Service{
				Capacity: scenario.MaxRate, Queue: scenario.MaxClients, Throttle: &throttle,
				Network: scenario.Duration(answer),
			},
			Settings: []scenario.Setting{setting},
		}
		if atOnce {
			s.Service.Network, s.Service.Latency = ms(10), scenario.Latency{Median: scenario.Duration(answer)}
		}
		most := slices.Max(mustRun(t, s).Outcomes[0].Series.Attempts[int(from.Seconds()):])
		m := measured(t, s, from)
		return figures{m.throttled, most/limit - 1, m.goodput, m.failed}
	}
	for _, pacing := range []string{"", "scaled"} {
		for _, tt := range []struct {
			answer time.Duration
			atOnce bool    // throttling responses come at once
			above  float64 // at most, of that of clients that do not share
		}{
			{time.Second, false, 0.5},
			{3 * time.Second, false, 0.5},
			{10 * time.Second, false, 0.5},
			{time.Second, true, 1},
			{3 * time.Second, true, 1},
		} {
			t.Run(fmt.Sprintf("%s %v %v", pacing, tt.answer, tt.atOnce), func(t *testing.T) {
				t.Parallel()
				alone := run(t, scenario.Setting{Use: scenario.UseAdaptive, Pacing: pacing}, tt.answer, tt.atOnce)
				shared := run(t, scenario.Setting{Use: scenario.UseFleet, Pacing: pacing}, tt.answer, tt.atOnce)
				t.Logf("alone %+.3v, shared %+.3v", alone, shared)
				if shared.throttled > alone.throttled || shared.above > tt.above*alone.above ||
					shared.goodput < 0.8 || shared.failed > alone.failed {
					t.Errorf("alone %+.3v, shared %+.3v", alone, shared)
				}
			})
		}
	}
}
