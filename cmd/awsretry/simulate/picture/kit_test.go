package picture

import (
	"errors"
	"slices"
	"testing"
	"time"

	"example.com/awsretry/cmd/awsretry/simulate"
)

func seconds(s float64) simulate.Duration { return simulate.Duration(s * float64(time.Second)) }

func ms(n float64) simulate.Duration { return seconds(n / 1000) }

func mustRun(t *testing.T, s simulate.Scenario) *simulate.Result {
	t.Helper()
	r, err := simulate.Run(t.Context(), s, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var errBrokenWriter = errors.New("full")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBrokenWriter }

// tiny is one caller whose calls take 100 ms.
func tiny(settings ...simulate.Setting) simulate.Scenario {
	return simulate.Scenario{
		Name: "tiny", Duration: seconds(10), Seed: 1,
		Clients:  simulate.Clients{Count: 1, Callers: 1},
		Service:  simulate.Service{Capacity: 1000, Queue: 10, Latency: simulate.Latency{Median: ms(97)}},
		Settings: settings,
	}
}

// restless is a small scenario in which much happens.
func restless() simulate.Scenario {
	return simulate.Scenario{
		Name: "restless", Duration: seconds(12), Seed: 7,
		Clients: simulate.Clients{Count: 5, Rate: 40, Timeout: seconds(5), AttemptTimeout: ms(700)},
		Service: simulate.Service{
			Capacity: 50, Queue: 50, QueueFull: 429, Latency: simulate.Latency{Median: ms(20), P99: ms(400)},
		},
		Events: []simulate.Event{
			{Kind: simulate.Outage, How: "hang", From: seconds(2), To: seconds(4)},
			{Kind: simulate.Throttling, From: seconds(5), To: seconds(10),
				Throttle: &simulate.Throttle{Rate: 20, Share: 0.05, RetryAfter: seconds(1)}},
			{Kind: simulate.Herd, From: seconds(7), To: seconds(7.1), Calls: 10},
			{Kind: simulate.Errors, From: seconds(9), Share: 0.2},
		},
	}
}

// made returns a result of a scenario that was not run. Its curves are flat.
func made(s simulate.Scenario, load float64) *simulate.Result {
	if len(s.Settings) == 0 {
		s.Settings = simulate.DefaultSettings()
	}
	r := &simulate.Result{Scenario: s}
	seconds := int(time.Duration(s.Duration) / time.Second)
	for _, setting := range s.Settings {
		o := simulate.Outcome{
			Setting: setting.Label(), Calls: 1, Amplification: 1234.56, FailedShare: 1, P99: simulate.Duration(time.Hour), Good: 1,
		}
		o.Series.Attempts, o.Series.Good = slices.Repeat([]float64{load}, seconds), make([]float64, seconds)
		o.Series.Attempts[seconds-1] = 1e6
		bucket := []simulate.Sample{{At: 0, Value: 500, Limited: 1}, {At: s.Duration, Value: 500, Limited: 1}}
		switch setting.Use {
		case simulate.UseAdaptive:
			o.Series.Tokens, o.Series.SendRate = bucket, bucket
		case simulate.UseStandard:
			o.Series.Tokens = bucket
		}
		r.Outcomes = append(r.Outcomes, o)
	}
	return r
}
