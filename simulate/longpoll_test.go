package simulate

import (
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// Callers that take the next item at once spin as soon as the retry token bucket is
// empty. With long_poll each of them first waits for a delay: half a second on
// average, but only a fortieth of a second after a transient failure in the 2026
// revision. Adaptive mode paces the callers only if the service throttles.
func TestClosedLoop(t *testing.T) {
	const (
		callers = 128 // half of the document's, so that the test takes half the time
		latency = 10 * time.Millisecond
		rate    = 100 // that the service admits
	)
	throttles, err := scenario.Read("../docs/examples/closed-loop.yaml")
	if err != nil {
		t.Fatal(err)
	}
	throttles.Clients.Callers = callers
	down := throttles
	down.Service.Throttle, down.Events = nil, []scenario.Event{{Kind: scenario.Outage}}

	failing := func(delay time.Duration) float64 { return callers / (latency + delay).Seconds() }
	spinning, waiting, hurrying := failing(0), failing(time.Second/2), failing(time.Second/40)
	for _, tt := range []struct {
		name     string
		scenario scenario.Scenario
		setting  scenario.Setting
		length   scenario.Duration
		failed   float64 // calls per second, in the second half of the run
	}{
		{"throttled", throttles, scenario.Setting{Use: scenario.UseStandard, LongPoll: true}, seconds(10), waiting},
		{"throttled", throttles, scenario.Setting{Use: scenario.UseAdaptive}, seconds(60), 0},
		{"down", down, scenario.Setting{Use: scenario.UseStandard}, seconds(2), spinning},
		{"down", down, scenario.Setting{Use: scenario.UseRevision2026, LongPoll: true}, seconds(2), hurrying},
	} {
		t.Run(tt.name+"/"+tt.setting.Label(), func(t *testing.T) {
			t.Parallel() // in virtual time nothing depends on how busy the processors are
			s := tt.scenario
			s.Duration, s.Settings = tt.length, []scenario.Setting{tt.setting}
			series := mustRun(t, s).Outcomes[0].Series
			perSecond := func(of []float64) float64 { return mean(of[len(of)/2:]) }
			if got := perSecond(series.Bad); got < 0.8*tt.failed || got > 1.05*tt.failed {
				t.Errorf("%.0f calls fail each second, want about %.0f", got, tt.failed)
			}
			if got := perSecond(series.Good); tt.name == "throttled" && got < 0.95*rate {
				t.Errorf("%.0f calls succeed each second, want about %d", got, rate)
			}
			if got, want := perSecond(series.Attempts), perSecond(series.Bad)+rate; got > 1.2*want {
				t.Errorf("%.0f attempts each second, want about %.0f: the bucket is empty", got, want)
			}
		})
	}
}
