package simulate

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/simulate/scenario"
)

// Figures of runs that are small enough to be computed by hand.
func TestRunAgainstHandCalculation(t *testing.T) {
	type figures struct{ Calls, Good, Failed, Unfinished, Attempts, Throttled int64 }
	outage := func(how string, from, to float64) scenario.Event {
		return scenario.Event{Kind: scenario.Outage, How: how, From: seconds(from), To: seconds(to)}
	}
	for _, tt := range []struct {
		name           string
		setting        scenario.Setting
		attemptTimeout scenario.Duration
		throttle       *scenario.Throttle
		events         []scenario.Event
		drain          scenario.Duration
		atOnce         bool
		want           figures
	}{
		{
			name:    "nothing happens: a call every 100 ms, the last one under way",
			setting: scenario.Setting{Use: scenario.UseNone},
			want:    figures{Calls: 100, Good: 99, Unfinished: 1, Attempts: 100},
		}, {
			name:    "20 calls before the outage, 500 refused after 2 ms each, 70 after it",
			setting: scenario.Setting{Use: scenario.UseNone},
			events:  []scenario.Event{outage(scenario.OutageRefuse, 2, 3)},
			want:    figures{Calls: 590, Good: 89, Failed: 500, Unfinished: 1, Attempts: 590},
		}, {
			// In the outage a call takes 3*2 + 2*100 ms, so four calls fail.
			// The third attempt of the fifth call is at 3.028 s.
			name:    "naive: three attempts, 100 ms apart",
			setting: scenario.Setting{Use: scenario.UseNaive},
			events:  []scenario.Event{outage(scenario.OutageReset, 2, 3)},
			want:    figures{Calls: 94, Good: 89, Failed: 4, Unfinished: 1, Attempts: 104},
		}, {
			// 20 calls before the outage. In it, attempts from 2.0 to 2.5 s and
			// from 2.6 to 3.1 s, and a success at 3.2 s.
			name:           "naive: attempts without a response end with their timeout",
			setting:        scenario.Setting{Use: scenario.UseNaive},
			attemptTimeout: ms(500),
			events:         []scenario.Event{outage(scenario.OutageHang, 2, 2.65)},
			want:           figures{Calls: 88, Good: 87, Unfinished: 1, Attempts: 90},
		}, {
			name:           "a RoundTripper of the caller's: its base has the timeout",
			setting:        scenario.Setting{Name: "own", New: retryAfter100ms},
			attemptTimeout: ms(500),
			events:         []scenario.Event{outage(scenario.OutageHang, 2, 2.65)},
			want:           figures{Calls: 88, Good: 87, Unfinished: 1, Attempts: 90},
		}, {
			// The first call takes the only token. Every other one takes three
			// attempts in 206 ms, whatever delay the service asks for.
			name:     "naive: Retry-After is ignored",
			setting:  scenario.Setting{Use: scenario.UseNaive},
			throttle: &scenario.Throttle{Rate: 0.001, Burst: 1, RetryAfter: seconds(5)},
			want:     figures{Calls: 50, Good: 1, Failed: 48, Unfinished: 1, Attempts: 146, Throttled: 145},
		}, {
			name:    "errors at once: 50 in 100 ms, and 99 calls",
			setting: scenario.Setting{Use: scenario.UseNone},
			events:  []scenario.Event{{Kind: scenario.Errors, Share: 1, From: seconds(2), To: seconds(2.1)}},
			atOnce:  true,
			want:    figures{Calls: 149, Good: 98, Failed: 50, Unfinished: 1, Attempts: 149},
		}, {
			name:    "the last call ends in the drain",
			setting: scenario.Setting{Use: scenario.UseNone},
			drain:   seconds(1),
			want:    figures{Calls: 100, Good: 100, Attempts: 100},
		}, {
			// Five calls begin during the outage. The last attempt is at 10.03 s.
			name:    "naive: an outage to the end is one in the drain",
			setting: scenario.Setting{Use: scenario.UseNaive},
			events:  []scenario.Event{outage(scenario.OutageReset, 9, 10)},
			drain:   seconds(1),
			want:    figures{Calls: 95, Good: 90, Failed: 5, Attempts: 105},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tiny(tt.setting)
			s.Drain, s.Service.ErrorsAtOnce = tt.drain, tt.atOnce
			s.Clients.AttemptTimeout, s.Service.Throttle, s.Events = tt.attemptTimeout, tt.throttle, tt.events
			o := mustRun(t, s).Outcomes[0]
			got := figures{o.Calls, o.Good, o.Failed, o.Unfinished, o.Attempts, o.Throttled}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if drift := time.Duration(o.P50) - 100*time.Millisecond; drift < 0 || drift > time.Millisecond {
				t.Errorf("p50 is %v, want 100ms", o.P50)
			}
		})
	}
}

// A share of the requests is refused at random. It takes nothing from the rate.
func TestThrottleRefusesItsShare(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseNone})
	s.Service.Capacity, s.Service.Latency = scenario.MaxRate, scenario.Latency{}
	for _, tt := range []struct {
		throttle    scenario.Throttle
		least, most int64 // successful calls of 5000
	}{
		{scenario.Throttle{Share: 0.1}, 4400, 4600},
		{scenario.Throttle{Rate: 1000, Share: 0.1}, 4400, 4600},
		{scenario.Throttle{Rate: 100, Burst: 10, Share: 0.1}, 995, 1010},
	} {
		s.Service.Throttle = &tt.throttle
		o := mustRun(t, s).Outcomes[0]
		if o.Good < tt.least || o.Good > tt.most || o.Throttled != o.Failed || o.Calls < 4990 {
			t.Errorf("%+v: got %+v, want %d to %d of 5000 calls admitted and the rest throttled",
				tt.throttle, o, tt.least, tt.most)
		}
	}
}

func TestObserve(t *testing.T) {
	s := restless()[0]
	s.Settings = []scenario.Setting{{Use: scenario.UseNone}, {Use: scenario.UseNaive}}
	observed := make([][]Call, len(s.Settings)) // each setting has its own
	r, err := Run(t.Context(), s, Options{Observe: func(setting int, c Call) {
		observed[setting] = append(observed[setting], c)
	}})
	if err != nil {
		t.Fatal(err)
	}
	type sums struct{ Calls, Good, Failed, Unfinished, Attempts int64 }
	for i, o := range r.Outcomes {
		var got sums
		for _, c := range observed[i] {
			got.Calls++
			switch {
			case c.Unfinished:
				got.Unfinished++
			case c.Good:
				got.Good++
			default:
				got.Failed++
			}
			got.Attempts += int64(c.Attempts)
			if c.Start+c.Took > time.Duration(s.Duration) || c.Client < 0 ||
				c.Client >= s.Clients.Count || c.Caller != -1 {
				t.Fatalf("%s: call %+v", o.Setting, c)
			}
		}
		if diff := cmp.Diff(sums{o.Calls, o.Good, o.Failed, o.Unfinished, o.Attempts}, got); diff != "" {
			t.Error(o.Setting, diff)
		}
	}
}

// Samples are means over the clients.
func TestSamples(t *testing.T) {
	s := scenario.Scenario{
		Duration: seconds(45), Seed: 1,
		Clients:  scenario.Clients{Count: 10, Callers: 10, Think: ms(480), Timeout: seconds(30)},
		Service:  scenario.Service{Capacity: 400, Queue: 400, Latency: scenario.Latency{Median: ms(20)}},
		Settings: []scenario.Setting{{Use: scenario.UseStandard}, {Use: scenario.UseAdaptive}},
		Events: []scenario.Event{
			{Kind: scenario.Throttling, From: seconds(10), To: seconds(40),
				Throttle: &scenario.Throttle{Rate: 100, Burst: 10}},
		},
	}
	outcomes := mustRun(t, s).Outcomes
	if last := outcomes[1].Series.SendRate[39]; last.Limited != 10 || last.Value < 5 || last.Value > 20 {
		t.Errorf("at the end of the throttling the send rate is %+v, want ten clients at about ten per second", last)
	}
	if tokens := outcomes[0].Series.Tokens; tokens[5].Value != 500 || tokens[39].Value > 400 {
		t.Errorf("there are %v tokens before the throttling and %v in it", tokens[5].Value, tokens[39].Value)
	}
}

func TestRunValidates(t *testing.T) {
	s := tiny()
	s.Clients.Count = 0
	if _, err := Run(t.Context(), s, Options{}); err == nil || !strings.Contains(err.Error(), "clients.count") {
		t.Errorf("error %v, want that of Validate", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := restless()[0]
	s.Duration, s.Events = scenario.Duration(24*time.Hour), nil
	last := 0.0
	_, err := Run(ctx, s, Options{Progress: func(part float64) { cancel(why); last = part }})
	if !errors.Is(err, why) || last >= 1 {
		t.Errorf("error %v after %v of the work, want the context's cause", err, last)
	}
	s = tiny(scenario.Setting{Use: scenario.UseNone})
	if _, err = Run(t.Context(), s, Options{Progress: func(part float64) { last = part }}); err != nil || last != 1 {
		t.Errorf("%v; progress ends with %v", err, last)
	}
}

func TestNoVirtualTime(t *testing.T) {
	t.Setenv("GODEBUG", "asynctimerchan=1")
	_, err := Run(t.Context(), tiny(scenario.Setting{Use: scenario.UseNone}), Options{})
	if err == nil || !strings.Contains(err.Error(), "GODEBUG") {
		t.Errorf("error %v, want one that names GODEBUG", err)
	}
}

// The smallest and the largest fleet.
func TestSmallAndLarge(t *testing.T) {
	for _, c := range []scenario.Clients{
		{Count: 1, Rate: 0.001},
		{Count: 20000, Rate: 100},
		{Count: 1, Callers: 5000, Think: seconds(10)},
		{Count: 2, Rate: 2000, MaxInFlight: 1}, // most calls find too many under way
	} {
		s := tiny(scenario.Setting{Use: scenario.UseAdaptive})
		s.Clients, s.Duration = c, seconds(3)
		o := mustRun(t, s).Outcomes[0]
		if o.Calls != o.Good+o.Failed+o.Unfinished {
			t.Errorf("%+v: %d calls, but %d good, %d failed, %d unfinished", c, o.Calls, o.Good, o.Failed, o.Unfinished)
		}
		if tokens := o.Series.Tokens[0].Value; c.Count == 20000 && tokens != 500 {
			t.Errorf("%v tokens where hardly a client has called, want 500", tokens)
		}
		if c.MaxInFlight == 1 && (o.Failed < 5000 || o.Attempts > 100) {
			t.Errorf("%+v: %d calls failed and %d attempts were sent", c, o.Failed, o.Attempts)
		}
	}
}

// Another number of clients makes the same number of calls.
func TestClientsDoNotChangeTheLoad(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseNone})
	s.Duration, s.Clients = seconds(60), scenario.Clients{Count: 30, Callers: 2, Think: seconds(0.4)}
	want := float64(mustRun(t, s).Outcomes[0].Calls)
	for _, clients := range []int{24, 2000} {
		if got := float64(mustRun(t, s.WithClients(clients)).Outcomes[0].Calls); math.Abs(got-want) > 0.05*want {
			t.Errorf("%d clients make %v calls, 30 clients %v", clients, got, want)
		}
	}
}
