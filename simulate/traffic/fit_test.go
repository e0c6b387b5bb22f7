package traffic

import (
	"bytes"
	"cmp"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"example.com/awsretry"
	"example.com/awsretry/retrylog"
	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// seeded returns a backoff with the default delays of a Transport, and a jitter
// that is the same in every run.
func seeded(initial time.Duration) awsretry.Backoff {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	return awsretry.Exponential{Initial: initial, Jitter: func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Float64() * float64(d))
	}}
}

// recorded runs a scenario with a Transport, and returns its log and what the
// simulator counted.
func recorded(t testing.TB, s scenario.Scenario, tr *awsretry.Transport) ([]byte, simulate.Outcome) {
	t.Helper()
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Settings = []scenario.Setting{{Name: "recorded", New: func(base http.RoundTripper) http.RoundTripper {
		tr.Base, tr.Observe = base, retrylog.Config{Logger: logger, All: true}.Observer()
		if tr.Backoff == nil {
			tr.Backoff = seeded(time.Second)
		}
		tr.RetryAfterSpread = -1
		return tr
	}}}
	r, err := simulate.Run(t.Context(), s, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return log.Bytes(), r.Outcomes[0]
}

func fitted(t testing.TB, log []byte) *Fitted {
	t.Helper()
	l, err := Read(t.Context(), bytes.NewReader(log), Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Fit(0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// present simulates the present setting of a scenario alone.
func present(t testing.TB, s scenario.Scenario) simulate.Outcome {
	t.Helper()
	s.Settings = s.Settings[:1]
	r, err := simulate.Run(t.Context(), s, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Outcomes[0]
}

// near fails if two numbers differ by more than that share of the second.
func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %.5g, want %.5g within %.0f%%", what, got, want, 100*tolerance)
	}
}

// alike fails if two outcomes differ by more than a prediction may.
func alike(t testing.TB, got, want simulate.Outcome) {
	t.Helper()
	near(t, "attempts", float64(got.Attempts), float64(want.Attempts), 0.1)
	near(t, "goodput", got.Goodput, want.Goodput, 0.1)
	near(t, "p50", float64(got.P50), float64(want.P50), 0.1)
	near(t, "p99", float64(got.P99), float64(want.P99), 0.25)
}

const second = scenario.Duration(time.Second)

func ms(n float64) scenario.Duration { return scenario.Duration(n * float64(time.Millisecond)) }

// base is a service that is never too slow for its clients.
func base(seconds int, rate float64) scenario.Scenario {
	return scenario.Scenario{
		Duration: scenario.Duration(seconds) * second, Seed: 3,
		Clients: scenario.Clients{Count: 1, Rate: rate, MaxInFlight: 2000},
		Service: scenario.Service{
			Capacity: 1e6, Queue: 1000, Latency: scenario.Latency{Median: ms(20), P99: ms(200)}, Network: ms(2),
		},
	}
}

// The fit to a log of a known service finds that service, and the simulation of the
// present setting reproduces what was recorded.
func TestFit(t *testing.T) {
	for _, tt := range []struct {
		name      string
		transport *awsretry.Transport // nil: the zero value
		scenario  scenario.Scenario
		change    func(*scenario.Scenario)
		check     func(t *testing.T, s scenario.Scenario)
	}{
		{
			name: "nothing fails", scenario: base(60, 50),
			check: func(t *testing.T, s scenario.Scenario) {
				near(t, "rate", s.Clients.Rate, 50, 0.06)
				if s.Service.Throttle != nil || s.OverTime != nil || s.Events != nil {
					t.Errorf("there is more than was logged: %+v", s)
				}
			},
		}, {
			name: "a rate limit", scenario: base(80, 60),
			change: func(s *scenario.Scenario) { s.Service.Throttle = &scenario.Throttle{Rate: 50, Burst: 20} },
			check: func(t *testing.T, s scenario.Scenario) {
				near(t, "throttle.rate", s.Service.Throttle.Rate, 50, 0.03)
				near(t, "throttle.burst", s.Service.Throttle.Burst, 20, 0.5)
			},
		}, {
			name: "errors for a while", scenario: base(90, 40),
			transport: &awsretry.Transport{MaxAttempts: 2},
			change: func(s *scenario.Scenario) {
				s.Events = []scenario.Event{{Kind: scenario.Errors, Share: 0.6, From: 30 * second, To: 50 * second}}
			},
			check: func(t *testing.T, s scenario.Scenario) {
				errors, every := s.OverTime.Errors, int(s.OverTime.Every/second)
				if least := slices.Min(errors[32/every : 48/every]); least < 0.4 {
					t.Errorf("the errors over time are %v", errors)
				}
				if most := slices.Max(errors[52/every:]); most > 0 || s.Settings[0].MaxAttempts != 2 {
					t.Errorf("the errors over time are %v, the setting %+v", errors, s.Settings[0])
				}
			},
		}, {
			name: "a rate that changes", scenario: base(100, 40),
			change: func(s *scenario.Scenario) {
				s.OverTime = &scenario.OverTime{Every: 25 * second, Rate: []float64{20, 80, 20, 40}}
			},
			check: func(t *testing.T, s scenario.Scenario) {
				rates, quarter := s.OverTime.Rate, len(s.OverTime.Rate)/4
				for i, want := range []float64{20, 80, 20, 40} {
					near(t, "rate", stat.Mean(rates[i*quarter:(i+1)*quarter], nil), want, 0.15)
				}
			},
		}, {
			name: "slow for a while", scenario: base(90, 100),
			change: func(s *scenario.Scenario) {
				s.Events = []scenario.Event{{Kind: scenario.SlowLatency, Factor: 5, From: 30 * second, To: 60 * second}}
			},
			check: func(t *testing.T, s scenario.Scenario) {
				factor, third := s.OverTime.Latency, len(s.OverTime.Latency)/3
				near(t, "factor", stat.Mean(factor[third+1:2*third-1], nil)/stat.Mean(factor[:third-1], nil), 5, 0.2)
			},
		}, {
			name: "callers that think", scenario: base(40, 0),
			change: func(s *scenario.Scenario) { s.Clients = scenario.Clients{Count: 1, Callers: 10, Think: ms(15)} },
			check: func(t *testing.T, s scenario.Scenario) {
				if s.Clients.Callers != 10 {
					t.Errorf("the clients are %+v", s.Clients)
				}
				near(t, "think", float64(s.Clients.Think), float64(ms(15)), 0.3)
			},
		}, {
			name: "attempts that time out", scenario: base(60, 50),
			change: func(s *scenario.Scenario) { s.Clients.AttemptTimeout = ms(100) },
			check: func(t *testing.T, s scenario.Scenario) {
				near(t, "attempt_timeout", float64(s.Clients.AttemptTimeout), float64(ms(100)), 0.03)
			},
		}, {
			name: "Retry-After", scenario: base(90, 60),
			change: func(s *scenario.Scenario) {
				s.Service.Throttle = &scenario.Throttle{Rate: 55, Burst: 5, RetryAfter: 2 * second}
			},
			check: func(t *testing.T, s scenario.Scenario) {
				if s.Service.Throttle.RetryAfter != 2*second {
					t.Errorf("the throttle is %+v", s.Service.Throttle)
				}
			},
		}, {
			name: "adaptive", scenario: base(60, 0),
			transport: &awsretry.Transport{Mode: awsretry.Adaptive},
			change: func(s *scenario.Scenario) {
				s.Clients = scenario.Clients{Count: 1, Callers: 30, Think: ms(100)}
				s.Service.Throttle = &scenario.Throttle{Rate: 80, Burst: 80}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if raceDetector && tt.name != "a rate limit" {
				t.Skip("the race detector has nothing to find in arithmetic, and makes it slow")
			}
			t.Parallel()
			if tt.change != nil {
				tt.change(&tt.scenario)
			}
			log, was := recorded(t, tt.scenario, cmp.Or(tt.transport, &awsretry.Transport{}))
			f := fitted(t, log)
			if tt.check != nil {
				tt.check(t, f.Scenario)
			}
			text, err := f.File()
			if err != nil {
				t.Fatal(err)
			}
			read, err := scenario.Parse(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			alike(t, present(t, read), was)
			near(t, "recorded goodput", f.Recorded.Goodput, was.Goodput, 0.02)
			near(t, "recorded p99", float64(f.Recorded.P99), float64(was.P99), 0.05)
			if t.Failed() {
				t.Logf("%s", text)
			}
		})
	}
}
