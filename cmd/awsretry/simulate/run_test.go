package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/awsretry/cmd/awsretry/internal/regular"
)

func seconds(s float64) Duration { return Duration(s * float64(time.Second)) }

func ms(n float64) Duration { return seconds(n / 1000) }

func mustRun(t *testing.T, s Scenario) *Result {
	t.Helper()
	r, err := Run(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tiny is one caller whose calls take 100 ms: 1 ms in the queue, 97 ms behind it, 2 ms on the network.
func tiny(settings ...Setting) Scenario {
	return Scenario{
		Name: "tiny", Duration: seconds(10), Seed: 1,
		Clients:  Clients{Count: 1, Callers: 1},
		Service:  Service{Capacity: 1000, Queue: 10, Latency: Latency{Median: ms(97)}, Network: ms(2)},
		Settings: settings,
	}
}

// The figures of runs that are small enough to be worked out by hand.
func TestRunAgainstHandCalculation(t *testing.T) {
	outage := func(s Scenario, how string, from, to float64) Scenario {
		s.Events = append(s.Events, Event{Kind: Outage, How: how, From: seconds(from), To: seconds(to)})
		return s
	}
	with := func(s Scenario, change func(*Scenario)) Scenario {
		change(&s)
		return s
	}
	type figures struct{ Calls, Good, Failed, Unfinished, Attempts, Throttled int64 }
	for _, test := range []struct {
		name     string
		scenario Scenario
		want     figures
		p50      time.Duration
	}{
		{
			"nothing happens: a call each 100 ms, the last one still under way",
			tiny(Setting{Use: UseNone}),
			figures{Calls: 100, Good: 99, Unfinished: 1, Attempts: 100}, 100 * time.Millisecond,
		}, {
			"20 calls before, 500 refused after 2 ms each, 70 after",
			outage(tiny(Setting{Use: UseNone}), outageRefuse, 2, 3),
			figures{Calls: 590, Good: 89, Failed: 500, Unfinished: 1, Attempts: 590}, 100 * time.Millisecond,
		}, {
			// In the outage a call takes 3*2 + 2*100 ms, so four fail; the third attempt of the fifth is at 3.028 s.
			"naive: three attempts, 100 ms between them",
			outage(tiny(Setting{Use: UseNaive}), outageReset, 2, 3),
			figures{Calls: 94, Good: 89, Failed: 4, Unfinished: 1, Attempts: 104}, 100 * time.Millisecond,
		}, {
			// 20 before; then 500 ms each, and 100 ms between the attempts: 2.0 … 2.5 2.6 … 3.1: one time-out, then a success at 2.7,
			// but for the second attempt, sent in the outage at 2.6.
			"naive: attempts that are never answered end with their time-out",
			with(outage(tiny(Setting{Use: UseNaive}), outageHang, 2, 2.65), func(s *Scenario) { s.Clients.AttemptTimeout = ms(500) }),
			figures{Calls: 88, Good: 87, Unfinished: 1, Attempts: 90}, 100 * time.Millisecond,
		}, {
			// The first call takes the only token; then three attempts, 206 ms, for each, whatever pause the service asks for.
			"naive: Retry-After is not looked at",
			with(tiny(Setting{Use: UseNaive}), func(s *Scenario) {
				s.Service.Throttle = &Throttle{Rate: 0.001, Burst: 1, RetryAfter: seconds(5)}
			}),
			figures{Calls: 50, Good: 1, Failed: 48, Unfinished: 1, Attempts: 146, Throttled: 145}, 100 * time.Millisecond,
		}, {
			// Ten tokens pay for the two retries of the first call; after them nothing puts tokens back before the outage ends.
			"standard: two retries until the bucket is empty",
			with(outage(tiny(Setting{Use: UseStandard, Capacity: 10}), outageRefuse, 2, 9), func(s *Scenario) {
				s.Clients.Think = ms(0)
			}),
			figures{}, 100 * time.Millisecond,
		}, {
			// The bucket is full with 10 and gets 2 a second: 10 + 2*10 of 1000 attempts at most; none waits.
			"throttled: what the bucket lets through",
			with(tiny(Setting{Use: UseNone}), func(s *Scenario) { s.Service.Throttle = &Throttle{Rate: 2, Burst: 10} }),
			figures{}, 100 * time.Millisecond,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := mustRun(t, test.scenario).Outcomes[0]
			got := figures{o.Calls, o.Good, o.Failed, o.Unfinished, o.Attempts, o.Throttled}
			if test.want != (figures{}) {
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Error(diff)
				}
			}
			if drift := time.Duration(o.P50) - test.p50; drift < 0 || drift > time.Millisecond {
				t.Errorf("p50 %v, want %v", o.P50, test.p50)
			}
			switch {
			case strings.HasPrefix(test.name, "standard"):
				if o.Attempts-o.Calls != 2 {
					t.Errorf("%d attempts for %d calls, want two retries", o.Attempts, o.Calls)
				}
			case strings.HasPrefix(test.name, "throttled"):
				if good := o.Good + o.Unfinished; good < 28 || good > 30 || o.Throttled != o.Calls-good {
					t.Errorf("%+v: want 29 or 30 let through and the rest throttled", got)
				}
			}
		})
	}
}

// restless are small runs in which as much as possible happens at once.
func restless() []Scenario {
	settings := append(DefaultSettings(), Setting{Use: UseDelivery, Policy: awsManaged})
	service := Service{Capacity: 60, Queue: 60, QueueFull: 429, Latency: Latency{Median: ms(20), P99: ms(400)}, RefuseCost: 0.1}
	return []Scenario{{
		Name: "open loop", Duration: seconds(30), Seed: 7,
		Clients: Clients{Count: 5, Rate: 50, Timeout: seconds(8), AttemptTimeout: ms(700)}, Service: service,
		Events: []Event{
			{Kind: Outage, How: outageHang, From: seconds(5), To: seconds(9)},
			{Kind: Throttling, From: seconds(12), To: seconds(22), Throttle: &Throttle{Rate: 20, RetryAfter: seconds(1)}},
			{Kind: Herd, From: seconds(15), To: seconds(15.1), Calls: 10},
			{Kind: Errors, From: seconds(20), Share: 0.2},
		},
		Settings: settings,
	}, {
		Name: "closed loop", Duration: seconds(30), Seed: 7,
		Clients: Clients{Count: 3, Callers: 20, Think: ms(500), Timeout: seconds(5)}, Service: service,
		Events: []Event{
			{Kind: Throttling, From: seconds(5), To: seconds(20), Throttle: &Throttle{Rate: 10, PerClient: true}},
			{Kind: SlowLatency, Factor: 4, From: seconds(10), To: seconds(25)},
			{Kind: CapacityStep, Capacity: 30, From: seconds(15)},
			{Kind: Herd, From: seconds(8), Calls: 5, To: seconds(12)},
		},
		Settings: settings,
	}}
}

func TestSameSeedSameResult(t *testing.T) {
	encode := func(s Scenario, processors int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		text, err := json.Marshal(mustRun(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, s := range restless() {
		t.Run(s.Name, func(t *testing.T) {
			want := encode(s, 1)
			for _, processors := range []int{2, 4, 1} {
				if got := encode(s, processors); got != want {
					t.Fatalf("with GOMAXPROCS %d the result differs:\n%s", processors, cmp.Diff(want, got))
				}
			}
			other := s
			other.Seed++
			if encode(other, 2) == want {
				t.Error("another seed gives the same result")
			}
		})
	}
}

// What the library is there for, at the size of the ready scenarios' picture.
func TestSettingsDiffer(t *testing.T) {
	s := Scenario{
		Duration: seconds(60), Seed: 1,
		Clients: Clients{Count: 10, Callers: 10, Think: ms(480), Timeout: seconds(30)},
		Service: Service{Capacity: 400, Queue: 400, Latency: Latency{Median: ms(20)}},
		Events:  []Event{{Kind: Throttling, From: seconds(10), To: seconds(40), Throttle: &Throttle{Rate: 100, Burst: 10}}},
	}
	of := map[string]Outcome{}
	for _, o := range mustRun(t, s).Outcomes {
		of[o.Setting] = o
	}
	if none := of[UseNone]; none.Amplification != 1 || none.FailedShare < 0.2 || none.Series.Tokens != nil {
		t.Errorf("none: %+v", none)
	}
	if of[UseNaive].Amplification < 1.5 {
		t.Errorf("naive sends only %.2f attempts a call", of[UseNaive].Amplification)
	}
	if adaptive := of[UseAdaptive]; adaptive.FailedShare > 0.01 || adaptive.ThrottledShare > of[UseStandard].ThrottledShare/2 {
		t.Errorf("adaptive fails %.3f of its calls and is throttled %.3f, standard %.3f",
			adaptive.FailedShare, adaptive.ThrottledShare, of[UseStandard].ThrottledShare)
	}
	last := of[UseAdaptive].Series.SendRate[39]
	if last.Limited != 10 || last.Value < 5 || last.Value > 20 {
		t.Errorf("at the end of the throttling the send rate is %+v, want ten clients at about ten a second", last)
	}
	tokens := of[UseStandard].Series.Tokens
	if tokens[5].Value != 500 || tokens[39].Value > 400 {
		t.Errorf("standard holds %v tokens before and %v in the throttling", tokens[5].Value, tokens[39].Value)
	}
}

func TestProfileAndPolicyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Setenv("AWS_CONFIG_FILE", write("config", "[profile ci]\nretry_mode = legacy\nmax_attempts = 2\n"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "none"))
	policy := write("policy.json", `{"healthyRetryPolicy": {"numRetries": 2, "minDelayTarget": 1, "maxDelayTarget": 1}}`)

	s := tiny(Setting{Use: UseProfile, Profile: "ci"}, Setting{Use: UseDelivery, Policy: policy}, Setting{Use: UseDelivery})
	s.Events = []Event{{Kind: Outage, From: 0, To: seconds(9.5)}}
	r := mustRun(t, s)
	if ci := r.Outcomes[0]; ci.Series.Tokens != nil || ci.Amplification < 1.9 || ci.Amplification > 2 {
		t.Errorf("the profile's calls send %.2f attempts, want legacy mode with two", ci.Amplification)
	}
	if own := r.Outcomes[1]; own.Amplification < 2 || own.Amplification > 3 {
		t.Errorf("the policy's calls send %.2f attempts, want three", own.Amplification)
	}
	if r.Outcomes[2].Calls > 2 {
		t.Errorf("the default policy's calls fail %d times in 9.5 s, with pauses up to 20 s", r.Outcomes[2].Calls)
	}

	for _, bad := range []struct {
		setting Setting
		want    string
	}{
		{Setting{Use: UseProfile, Profile: "missing"}, `setting "profile=missing"`},
		{Setting{Use: UseDelivery, Policy: filepath.Join(dir, "missing.json")}, "no such file"},
		{Setting{Use: UseDelivery, Policy: dir}, "is not a regular file"},
		{Setting{Use: UseDelivery, Policy: write("bad.json", `{"healthyRetryPolicy": {"numRetries": 1000}}`)}, "numRetries"},
		{Setting{Use: UseDelivery, Policy: write("big.json", strings.Repeat(" ", regular.MaxSize+1))}, "has more than 1048576 bytes"},
	} {
		if _, err := Run(t.Context(), tiny(bad.setting), Options{}); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: error %v, want one with %q", bad.setting.Label(), err, bad.want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := restless()[0]
	s.Duration, s.Events = Duration(maxDuration), nil
	_, err := Run(ctx, s, Options{Progress: func(float64) { cancel(why) }})
	if !errors.Is(err, why) {
		t.Errorf("error %v, want the context's cause", err)
	}
}

func TestProgress(t *testing.T) {
	var told []float64
	if _, err := Run(t.Context(), tiny(Setting{Use: UseNone}), Options{Progress: func(part float64) { told = append(told, part) }}); err != nil {
		t.Fatal(err)
	}
	if len(told) == 0 || told[len(told)-1] != 1 {
		t.Errorf("progress %v, want it to end with 1", told)
	}
}

func TestNoVirtualTime(t *testing.T) {
	t.Setenv("GODEBUG", "asynctimerchan=1")
	if _, err := Run(t.Context(), tiny(Setting{Use: UseNone}), Options{}); err == nil || !strings.Contains(err.Error(), "GODEBUG") {
		t.Errorf("error %v, want one that names GODEBUG", err)
	}
}

// The fleet at the edges of its size.
func TestSmallAndLarge(t *testing.T) {
	for _, c := range []Clients{
		{Count: 1, Rate: 0.001},
		{Count: 20000, Rate: 100},
		{Count: 1, Callers: 5000, Think: seconds(10)},
		{Count: 2, Rate: 2000, MaxInFlight: 1}, // most calls find too many under way
	} {
		s := tiny(Setting{Use: UseAdaptive})
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
