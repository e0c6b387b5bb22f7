package traffic

import (
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// The limit that a service announces is found in the log, and reading it is
// predicted to do what it does to the service.
func TestAnnounced(t *testing.T) {
	const minute = 60 * second
	for _, tt := range []struct {
		name     string
		throttle scenario.Throttle
		limits   bool // the log is of a client that reads them
	}{
		{"a window", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.GitHub}, false},
		{"a window, read", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.GitHub}, true},
		{"a window with a name", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.Draft8}, false},
		{"a bucket", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.OpenAI}, false},
		{"a bucket, in whole seconds", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.Anthropic}, false},
		{"a bucket with GitHub's headers", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.GitHub}, false},
		{"a bucket without a reset", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.Heroku}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := base(300, 0)
			s.Clients = scenario.Clients{Count: 1, Callers: 20, Timeout: 2 * minute}
			s.Service.Throttle, s.Service.Network = &tt.throttle, ms(200)
			tr := &awsretry.Transport{}
			if tt.limits {
				tr.Mode, tr.RateLimit.Pacing = awsretry.Adaptive, awsretry.ScaledPacing
				tr.RateLimit.Limits = awsretry.ReadLimits
			}
			log, _ := recorded(t, s, tr)
			f := fitted(t, log)
			got := f.Scenario.Service.Throttle
			want := tt.throttle
			if want.Announces == scenario.Draft8 {
				want.Announces = scenario.GitHub
			}
			if want.Announces == scenario.Anthropic {
				want.Announces = scenario.OpenAI
			}
			text, err := f.File()
			if err != nil {
				t.Fatal(err)
			}
			if got == nil || got.Announces != want.Announces || got.Window != want.Window {
				t.Fatalf("the throttle is %+v, want %+v\n%s", got, want, text)
			}
			near(t, "rate", got.Rate, want.Rate, 0.03)
			near(t, "burst", got.Burst, want.Burst, 0.03)
			if use := f.Scenario.Settings[0]; use.Limits != tt.limits {
				t.Errorf("the present setting is %+v", use)
			}
			limits := []scenario.Setting{{Use: scenario.UseAdaptive, Pacing: "scaled", Limits: true}}
			s.Settings = limits
			was, is := present(t, s), present(t, withSettings(f.Scenario, limits))
			near(t, "attempts", float64(is.Attempts), float64(was.Attempts), 0.1)
			near(t, "goodput", is.Goodput, was.Goodput, 0.1)
			near(t, "p50", float64(is.P50), float64(was.P50), 0.1)
			near(t, "p99", float64(is.P99), float64(was.P99), 0.25)
			t.Logf("throttled %d, want %d", is.Throttled, was.Throttled)
			if t.Failed() { t.Logf("%s", text) }
		})
	}
}

func withSettings(s scenario.Scenario, settings []scenario.Setting) scenario.Scenario {
	s.Settings = settings
	return s
}

var _ = time.Second
var _ simulate.Outcome
