package main

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// never is a limit that no caller reaches.
const never = 1e9

func simple(change func(*scenario)) scenario {
	s := scenario{limit: constant(never), clients: each(1, 4), length: 60 * time.Second}
	if change != nil {
		change(&s)
	}
	s.setDefaults()
	return s
}

// near reports whether two numbers differ by less than a part of the second.
func near(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

// A service that throttles nothing takes what the callers send: with Little's
// law, their number divided by the time of a call.
func TestWithoutThrottling(t *testing.T) {
	tests := []struct {
		name   string
		change func(*scenario)
		want   float64 // calls per second
	}{
		{"four callers, 10 ms", nil, 400},
		{"four callers, 10 and 90 ms", func(s *scenario) { s.latency = 90 * time.Millisecond }, 40},
		{"twelve callers of three clients, 2 s",
			func(s *scenario) { s.clients, s.network = each(3, 4), 2*time.Second }, 6},
		{"80/s at random times", func(s *scenario) { s.clients, s.arrivals = []int{0}, 80 }, 80},
		{"half of the time", func(s *scenario) {
			s.active = func(_ int, now time.Duration) bool { return now%(10*time.Second) < 5*time.Second }
		}, 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := simple(test.change)
			f := s.run(1, defaultSetting().newLaw)
			got := float64(f.calls) / (s.length - s.from).Seconds()
			if part := 0.03 + 2/math.Sqrt(float64(f.calls)); !near(got, test.want, part) {
				t.Errorf("%.2f calls per second, want %.2f", got, test.want)
			}
			if f.throttled != 0 || f.failed != 0 || f.jain < 0.99 {
				t.Errorf("%+v: want nothing throttled and all clients alike", f)
			}
		})
	}
}

// Little's law holds with throttling, too: callers = calls per second * time of
// a call, with its delays and its time in line.
func TestLittlesLaw(t *testing.T) {
	for name, law := range map[string]newLaw{"cubic": cubic, "scaled": defaultSetting().newLaw} {
		t.Run(name, func(t *testing.T) {
			s := simple(func(s *scenario) { s.limit, s.clients = constant(50), each(2, 16) })
			f := s.run(1, law)
			rate := float64(f.calls) / (s.length - s.from).Seconds()
			if got := rate * f.mean.Seconds(); f.throttled == 0 || !near(got, 32, 0.05) {
				t.Errorf("%.1f calls per second that take %v: %.1f callers, want 32 and some throttled: %+v",
					rate, f.mean, got, f)
			}
		})
	}
}

// What services accept of requests at a constant rate for 100 s.
func TestServices(t *testing.T) {
	atRandom := simulation{
		scenario: scenario{random: 0.08}, service: burst(0)(constant(never)), random: rand.New(rand.NewPCG(1, 0)),
	}
	tests := []struct {
		name    string
		service service
		rate    float64
		want    float64 // accepted, per second
	}{
		{"token bucket, below the limit", burst(time.Second)(constant(100)), 99, 99},
		{"token bucket, above the limit", burst(time.Second)(constant(100)), 250, 101}, // 100 at once
		{"token bucket, low limit", burst(0)(constant(0.5)), 10, 0.5},
		{"token bucket, 20/s and then 200/s", burst(0)(steps(50*time.Second, 20, 200)), 1000, 110},
		{"nginx, no burst, below the limit", nginx(0)(constant(100)), 97, 97},
		{"nginx, no burst, above the limit", nginx(0)(constant(100)), 150, 75}, // every other one
		{"nginx, every 3.5 ms is every 3 and 4 ms", nginx(0)(constant(300)), 2 / 0.007, 1 / 0.007},
		{"nginx, a burst, above the limit", nginx(20)(constant(100)), 150, 100.2},
		{"HAProxy, below the limit", haproxy(time.Second)(constant(100)), 95, 95},
		// 100 in the first period. Later the two periods always count more.
		{"HAProxy, twice the limit", haproxy(time.Second)(constant(100)), 200, 1},
		{"windows, below the limit", fixed(time.Second)(constant(100)), 99, 99},
		{"windows, twice the limit", fixed(time.Second)(constant(100)), 200, 100},
		{"8 % at random", &atRandom, 1000, 920},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const length = 100
			accepted := 0.0
			for i := range int(length * test.rate) {
				if test.service.accepts(time.Duration(math.Round(float64(i) / test.rate * 1e9))) {
					accepted++
				}
			}
			if got := accepted / length; !near(got, test.want, 0.01) {
				t.Errorf("%.3f of %.2f requests per second, want %.3f", got, test.rate, test.want)
			}
		})
	}
}

// A service that throttles everything sees three attempts of a call, until the
// retry token bucket is empty: 500 tokens for 50 retries.
func TestRetries(t *testing.T) {
	tests := []struct {
		name    string
		length  time.Duration
		retries func(calls int) int
	}{
		{"a bucket that is not empty", time.Minute, func(calls int) int { return 2 * calls }},
		{"an empty bucket", 10 * time.Minute, func(int) int { return 50 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := simple(func(s *scenario) { s.random, s.clients, s.from, s.length = 1, each(1, 1), 1, test.length })
			f := s.run(1, defaultSetting().newLaw)
			retries, want := f.attempts-f.calls, test.retries(f.calls)
			if retries < want || retries > want+maxAttempts { // the last call has not ended
				t.Errorf("%d retries of %d calls, want %d", retries, f.calls, want)
			}
			if least := int(0.45 * test.length.Seconds()); f.attempts < least || f.failed != 1 || f.throttled != 1 {
				t.Errorf("%+v: want all throttled, and at least %d attempts at the least rate", f, least)
			}
		})
	}
}

func TestSameSeedSameFigures(t *testing.T) {
	s := simple(func(s *scenario) { s.limit, s.clients, s.random = constant(100), each(3, 8), 0.05 })
	for name, law := range map[string]newLaw{
		"cubic": cubic, "scaled": defaultSetting().newLaw, "steady": s.steadyAt(0.9),
	} {
		t.Run(name, func(t *testing.T) {
			first := s.run(1, law)
			if again := s.run(1, law); again != first {
				t.Errorf("%+v, and with the same seed %+v", first, again)
			}
			if other := s.run(2, law); other == first {
				t.Errorf("another seed gives the same: %+v", first)
			}
		})
	}
}

// Every constant is varied in both directions, and by nothing else.
func TestVariants(t *testing.T) {
	seen := make(map[setting]string)
	for _, v := range variants() {
		if v.setting == defaultSetting() || v.from == v.to {
			t.Errorf("%s %s → %s changes nothing", v.constant, v.from, v.to)
		}
		if other, found := seen[v.setting]; found {
			t.Errorf("%s and %s are the same", v.constant, other)
		}
		seen[v.setting] = v.constant
	}
	if len(seen) < 70 {
		t.Errorf("%d variants, want two for each constant", len(seen))
	}
}

// What is far worse is listed, what may be chance is not.
func TestDifference(t *testing.T) {
	goodput := judged[0]
	sampleOf := func(values ...float64) (s sample) {
		for _, v := range values {
			s = append(s, figures{goodput: v})
		}
		return s
	}
	tests := []struct {
		name          string
		before, after sample
		want          int // the sign of the weight
	}{
		{"worse", sampleOf(0.95, 0.951, 0.949), sampleOf(0.9, 0.901, 0.899), -1},
		{"better", sampleOf(0.9, 0.901, 0.899), sampleOf(0.95, 0.951, 0.949), 1},
		{"too little", sampleOf(0.95, 0.951, 0.949), sampleOf(0.945, 0.946, 0.944), 0},
		{"may be chance", sampleOf(0.95, 0.99, 0.91), sampleOf(0.9, 0.94, 0.86), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := difference(goodput, "x", test.before, test.after)
			if test.want == 0 && c.weight != 0 || test.want != 0 && c.weight*float64(test.want) <= 0 {
				t.Errorf("%+v, want a weight of sign %d", c, test.want)
			}
		})
	}
}

// The table shows the laws side by side.
func TestCompare(t *testing.T) {
	var b strings.Builder
	compare(&b, []scenario{simple(func(s *scenario) { s.name, s.limit = "one", constant(20) })}, 2, 0.5)
	for _, want := range []string{"| one ", "| cubic ", "| scaled ", "| steady 0.5 ", "the least of 2 runs"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}
