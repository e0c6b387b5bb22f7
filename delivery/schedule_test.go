package delivery

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Another program computed the golden files in decimals.
func TestSchedules(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.json")
	policies := map[string]*Policy{"default": nil}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if name != "topic" && name != "default" {
			policies[name] = parse(t, readFile(t, file))
		}
	}
	if len(policies) < 9 {
		t.Errorf("only %d policies in testdata", len(policies))
	}
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(readFile(t, "testdata/"+name+".golden"), table(p.Delays())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFixedSchedules(t *testing.T) {
	for name, p := range map[string]*Policy{"aws-managed": AWSManaged(), "customer-managed": CustomerManaged()} {
		t.Run(name, func(t *testing.T) {
			retries, total := 0, time.Duration(0)
			for d := range p.Delays() {
				retries++
				total += d
			}
			begin := slices.Values(first(p, 18))
			got := fmt.Sprintf("# retries\ttotal (ns)\n%d\t%d\n%s", retries, total.Nanoseconds(), table(begin))
			if diff := cmp.Diff(readFile(t, "testdata/"+name+".golden"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// table returns the delays as the golden files have them.
func table(delays iter.Seq[time.Duration]) string {
	var b strings.Builder
	b.WriteString("# retry\tpause (s)\ttotal (s)\n")
	total, n := time.Duration(0), 0
	for d := range delays {
		n++
		total += d
		fmt.Fprintf(&b, "%d\t%d.%09d\t%d.%09d\n", n, d/time.Second, d%time.Second, total/time.Second, total%time.Second)
	}
	return b.String()
}

// An invalid policy does not lead to an overflow, a NaN or a negative delay
// either, with the other phases and without.
func TestInvalidPoliciesYieldSaneDelays(t *testing.T) {
	numbers := []int{math.MinInt, -1, 0, 1, 2, 3, 2000, math.MaxInt}
	random := rand.New(rand.NewPCG(1, 2))
	any := func() int { return numbers[random.IntN(len(numbers))] }
	for range 5000 {
		n, lo, hi := any(), any(), any()
		function := []BackoffFunction{Arithmetic, Exponential, Geometric, Linear, "other"}[random.IntN(5)]
		p := &Policy{HealthyRetryPolicy: &RetryPolicy{
			NumRetries: &n, MinDelayTarget: &lo, MaxDelayTarget: &hi,
			NumNoDelayRetries: &lo, NumMaxDelayRetries: &hi, BackoffFunction: function,
		}}
		s := p.schedule()
		if s.retries() != max(n, 0) {
			t.Fatalf("%d retries of %d", s.retries(), n)
		}
		delays := first(p, 10)
		if n > 0 {
			backoff := schedule{backoff: n, lo: seconds(lo), hi: seconds(hi), function: function}
			delays = append(delays, s.delay(n/2), s.delay(n-1), backoff.delay(0), backoff.delay(n/2), backoff.delay(n-1))
		}
		if slices.Min(append(delays, 0)) < 0 {
			t.Fatalf("%s: %d retries from %d to %d s: delays of %v", function, n, lo, hi, delays)
		}
	}
}

// For any number of retries, each function starts at the minimum, ends at the
// maximum and never falls.
func TestBackoffFunctionsRiseFromMinimumToMaximum(t *testing.T) {
	for _, function := range []BackoffFunction{Arithmetic, Exponential, Geometric, Linear} {
		t.Run(string(function), func(t *testing.T) {
			for n := 2; n < 3000; n = n*3/2 + 1 {
				s := schedule{backoff: n, lo: 5 * time.Second, hi: 260 * time.Second, function: function}
				if s.delay(0) != s.lo || s.delay(n-1) != s.hi {
					t.Errorf("%d retries: from %v to %v", n, s.delay(0), s.delay(n-1))
				}
				for k := 1; k < n; k++ {
					if s.delay(k) < s.delay(k-1) {
						t.Errorf("%d retries: delay %d is %v after %v", n, k, s.delay(k), s.delay(k-1))
					}
				}
			}
		})
	}
}

// Any valid policy has jitter, also where its two targets are equal. With it,
// no delay is below minDelayTarget, and the sum stays within 3,600 s, to the
// nanosecond.
func TestJitterKeepsTheLimits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	functions := []BackoffFunction{Arithmetic, Exponential, Geometric, Linear}
	for valid := 0; valid < 5000; {
		lo, n := 1+random.IntN(100), random.IntN(101)
		hi := lo + random.IntN(100)
		none := random.IntN(n + 1)
		least := random.IntN(n - none + 1)
		most := random.IntN(n - none - least + 1)
		p := &Policy{HealthyRetryPolicy: &RetryPolicy{
			NumRetries: &n, MinDelayTarget: &lo, MaxDelayTarget: &hi, BackoffFunction: functions[random.IntN(4)],
			NumNoDelayRetries: &none, NumMinDelayRetries: &least, NumMaxDelayRetries: &most,
		}}
		if p.ValidateWrapped() != nil {
			continue
		}
		valid++
		s := p.schedule()
		var sum time.Duration
		for n := range s.retries() {
			delay, low, high := s.delay(n), s.jittered(n, 0), s.jittered(n, 1)
			if want := max(delay*9/10, min(delay, s.lo)); (low-want).Abs() > 1 || delay > 0 && low < s.lo {
				t.Fatalf("%+v: retry %d waits %v at least, want %v", s, n, low, want)
			}
			// The rest of 3,600 s is shared in proportion to the delays.
			room := time.Duration(float64(delay) * float64(maxTotal-s.total()) / max(1, float64(s.total())))
			if want := delay + min(delay/10, room); (high - want).Abs() > 1 {
				t.Fatalf("%+v: retry %d waits %v at most, want %v", s, n, high, want)
			}
			sum += high
		}
		if sum > maxTotal {
			t.Fatalf("%+v: all delays are up to %v", s, sum)
		}
	}
}

func TestJittered(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name          string
		policy        *Policy
		retry         int
		least, middle time.Duration
		most          time.Duration
	}{
		{"default", nil, 0, 20 * s, 21 * s, 22 * s},
		{"default, the last", nil, 2, 20 * s, 21 * s, 22 * s},
		{"no delay", AWSManaged(), 0, 0, 0, 0},
		{"minDelayTarget", AWSManaged(), 3, s, 1050 * time.Millisecond, 1100 * time.Millisecond},
		{"maxDelayTarget", AWSManaged(), 100, 18 * s, 20 * s, 22 * s},
		{"over 3,600 s", CustomerManaged(), 49, 540 * s, 600 * s, 660 * s},
		{"3,600 s", testPolicy(t, `"minDelayTarget":36,"maxDelayTarget":36,"numRetries":100`), 9, 36 * s, 36 * s, 36 * s},
	} {
		for random, want := range map[float64]time.Duration{0: test.least, 0.5: test.middle, 1: test.most} {
			schedule := test.policy.schedule()
			if got := schedule.jittered(test.retry, random); (got - want).Abs() > time.Microsecond {
				t.Errorf("%s: %v at %v, want %v", test.name, got, random, want)
			}
		}
	}
}

// A Schedule has its delays in place of the phases, with jitter, however long they
// are.
func TestOwnSchedule(t *testing.T) {
	days := []time.Duration{0, time.Second, 24 * time.Hour, 48 * time.Hour}
	p := &Policy{Schedule: days}
	if got := slices.Collect(p.Delays()); !slices.Equal(got, days) || p.ValidateRaw() != nil {
		t.Errorf("%v, %v", got, p.ValidateRaw())
	}
	s := Effective(nil, p).schedule()
	for n, d := range days {
		if least, most := s.jittered(n, 0), s.jittered(n, 1); least != d-d/10 || most != d+d/10 {
			t.Errorf("%v becomes %v to %v", d, least, most)
		}
	}
	if none := (&Policy{Schedule: []time.Duration{}}).schedule(); none.retries() != 0 {
		t.Errorf("%d retries", none.retries())
	}
	for _, bad := range []*Policy{
		{Schedule: days, HealthyRetryPolicy: &RetryPolicy{}}, {Schedule: []time.Duration{-1}},
		{Schedule: []time.Duration{maxScheduled + 1}}, {Schedule: make([]time.Duration, maxSchedule+1)},
	} {
		if err := bad.ValidateRaw(); err == nil || !strings.Contains(err.Error(), "schedule") {
			t.Errorf("%d delays: %v", len(bad.Schedule), err)
		}
	}
}
