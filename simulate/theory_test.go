package simulate

import (
	"math"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// theory returns the length of a run that is compared with theory, and the share by
// which the two may differ.
func theory(long float64) (duration scenario.Duration, tolerance float64) {
	if raceDetector {
		return seconds(math.Ceil(long / 20)), 0.12 // chance is sqrt(20) times as large
	}
	return seconds(long), 0.03
}

// near checks that a figure is what theory says.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	const none = 1e-9 // of the calls of a run
	if !(math.Abs(got-want) <= max(tolerance*want, none)) {
		t.Errorf("%s is %.5g, in theory %.5g: %+.1f %%", what, got, want, 100*(got/want-1))
	}
}

// A theoryRun is an outcome with the values that theory needs.
type theoryRun struct {
	Outcome
	took float64 // seconds, mean over the calls that succeeded
}

func runForTheory(t *testing.T, s scenario.Scenario) theoryRun {
	t.Helper()
	var took time.Duration
	r, err := Run(t.Context(), s, Options{Observe: func(_ int, c Call) {
		if c.Good {
			took += c.Took
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := r.Outcomes[0]
	return theoryRun{o, took.Seconds() / float64(o.Good)}
}

// M/D/1: calls arrive at random and take 1/capacity each. The mean wait is
// load/(2*(1-load)) of that (Pollaczek and Khinchine).
func TestWaitingTime(t *testing.T) {
	const capacity, network = 200, 0.002
	const load = 0.75
	long, tolerance := theory(1000)
	got := runForTheory(t, scenario.Scenario{
		Duration: long, Seed: 1,
		Clients:  scenario.Clients{Count: 20, Rate: load * capacity},
		Service:  scenario.Service{Capacity: capacity, Queue: 1e6, Network: seconds(network)},
		Settings: []scenario.Setting{{Use: scenario.UseNone}},
	})
	near(t, "the mean wait", got.took-network-1./capacity, load/(2*(1-load))/capacity, tolerance)
}

// Erlang B: a client with room for a number of calls loses a call that arrives
// while as many are under way. Only the mean time of a call matters.
func TestBlocking(t *testing.T) {
	const network = 0.01
	long, tolerance := theory(400)
	for _, tt := range []struct {
		name    string
		latency scenario.Latency
		mean    float64 // seconds
	}{
		{"constant", scenario.Latency{Median: ms(90)}, 0.09},
		{"exponential", scenario.Latency{Distribution: scenario.Exponential, Median: ms(90 * math.Ln2)}, 0.09},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const rate, room = 80, 10
			got := runForTheory(t, scenario.Scenario{
				Duration: long, Seed: 1,
				Clients:  scenario.Clients{Count: 1, Rate: rate, MaxInFlight: room},
				Service:  scenario.Service{Capacity: 1e6, Queue: 1e6, Latency: tt.latency, Network: seconds(network)},
				Settings: []scenario.Setting{{Use: scenario.UseNone}},
			})
			near(t, "the share of lost calls", got.FailedShare, erlangB(room, rate*(tt.mean+network)), tolerance)
		})
	}
}

// erlangB returns the share of the calls that a number of servers lose.
func erlangB(servers int, offered float64) float64 {
	b := 1.0
	for n := 1; n <= servers; n++ {
		b = offered * b / (float64(n) + offered*b)
	}
	return b
}

// The interactive response time law: callers = throughput * (response time + think
// time). If the service is the bottleneck, the throughput is its capacity.
func TestClosedLoopLaw(t *testing.T) {
	long, tolerance := theory(120)
	for _, tt := range []struct {
		name            string
		capacity, think float64
		throughput      float64 // 0: not known beforehand
	}{
		{"a busy service", 200, 0.5, 0},
		{"a bottleneck", 100, 0.5, 100},
		{"no think time", 100, 0, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := runForTheory(t, scenario.Scenario{
				Duration: long, Seed: 1,
				Clients: scenario.Clients{Count: 20, Callers: 5, Think: seconds(tt.think)},
				Service: scenario.Service{
					Capacity: tt.capacity, Queue: 1e6, Network: ms(2),
					Latency: scenario.Latency{Distribution: scenario.Exponential, Median: ms(100 * math.Ln2)},
				},
				Settings: []scenario.Setting{{Use: scenario.UseNone}},
			})
			near(t, "throughput * (response time + think time)", got.Goodput*(got.took+tt.think), 100, tolerance)
			if tt.throughput > 0 {
				near(t, "the throughput", got.Goodput, tt.throughput, tolerance)
			}
		})
	}
}

// With a share p of errors a call that is retried up to n attempts makes
// (1-p^n)/(1-p) of them, which is 1/(1-p) for a large n, and fails with p^n.
func TestNaiveAmplification(t *testing.T) {
	long, tolerance := theory(200)
	for _, tt := range []struct {
		name     string
		share    float64
		attempts int
	}{
		{"three attempts", 0.5, 3}, {"as many as it takes", 0.5, 1000}, {"everything fails", 1, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := runForTheory(t, scenario.Scenario{
				Duration: long, Seed: 1,
				Clients:  scenario.Clients{Count: 10, Rate: 100},
				Service:  scenario.Service{Capacity: 1e6, Queue: 1e6},
				Events:   []scenario.Event{{Kind: scenario.Errors, Share: tt.share}},
				Settings: []scenario.Setting{{Use: scenario.UseNaive, MaxAttempts: tt.attempts, Pause: ms(10)}},
			})
			failed := math.Pow(tt.share, float64(tt.attempts))
			want := float64(tt.attempts)
			if tt.share < 1 {
				want = (1 - failed) / (1 - tt.share)
			}
			near(t, "the amplification", got.Amplification, want, tolerance)
			near(t, "the share of failed calls", got.FailedShare, failed, 2*tolerance)
		})
	}
}

// Metastable failure (Bronson, Aghayev, Charapko and Zhu, "Metastable Failures in
// Distributed Systems"): an outage fills the queue with requests whose callers have
// given up by the time the requests are served. Unlimited retries keep it full
// after the outage. The retry token bucket lets the fleet recover.
func TestMetastableFailure(t *testing.T) {
	r := mustRun(t, scenario.Scenario{
		Duration: seconds(240), Seed: 1,
		Clients: scenario.Clients{Count: 4, Rate: 12, Timeout: seconds(30), AttemptTimeout: seconds(6)},
		Service: scenario.Service{
			Capacity: 14.4, Queue: 144, RefuseCost: 0.1, Latency: scenario.Latency{Median: ms(20), P99: ms(200)},
		},
		Events: []scenario.Event{{Kind: scenario.Outage, How: scenario.OutageHang, From: seconds(60), To: seconds(90)}},
		Settings: []scenario.Setting{
			{Use: scenario.UseNone}, {Use: scenario.UseNaive}, {Use: scenario.UseStandard}, {Use: scenario.UseAdaptive},
		},
	})
	for _, o := range r.Outcomes {
		lastMinute := mean(o.Series.Good[180:])
		t.Logf("%s: recovery %v %v, %.2f calls/s in the last minute", o.Setting, o.Recovery, o.Recovered, lastMinute)
		if o.Setting == scenario.UseNaive {
			if o.Recovered != NotRecovered || lastMinute > 0.1*12 {
				t.Errorf("naive comes back: %v, with %.2f calls/s in the last minute", o.Recovered, lastMinute)
			}
		} else if o.Recovered != RecoveredInRun || lastMinute < 0.9*12 {
			t.Errorf("%s does not come back: %v, with %.2f calls/s in the last minute", o.Setting, o.Recovered, lastMinute)
		}
	}
}
