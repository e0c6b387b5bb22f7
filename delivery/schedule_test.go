package delivery

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The golden files were worked out in decimals by another program.
func TestSchedules(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		golden := strings.TrimSuffix(file, ".json") + ".golden"
		if _, err := os.Stat(golden); err != nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), table(parse(t, string(text)).Delays())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", golden, diff)
		}
	}
	if len(files) < 10 {
		t.Errorf("only %d policies in testdata", len(files))
	}
	want, err := os.ReadFile("testdata/default.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got := table((*Policy)(nil).Delays()); got != string(want) {
		t.Errorf("a nil policy:\n%s\nwant\n%s", got, want)
	}
}

func TestFixedSchedules(t *testing.T) {
	for name, p := range map[string]*Policy{"aws-managed": AWSManaged(), "customer-managed": CustomerManaged()} {
		want, err := os.ReadFile("testdata/" + name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		retries, total := 0, time.Duration(0)
		for d := range p.Delays() {
			retries++
			total += d
		}
		begin := func(yield func(time.Duration) bool) {
			for _, d := range first(p, 18) {
				if !yield(d) {
					return
				}
			}
		}
		got := fmt.Sprintf("# retries\ttotal (ns)\n%d\t%d\n%s", retries, total.Nanoseconds(), table(begin))
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

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

func TestDelaysTakeNoMemory(t *testing.T) {
	p := AWSManaged()
	allocs := testing.AllocsPerRun(1, func() {
		for range p.Delays() {
		}
	})
	if allocs > 20 {
		t.Errorf("100,015 pauses made %v allocations", allocs)
	}
}

// A policy that nobody validated is still no way to an overflow, a NaN or a
// negative pause.
func TestSenselessPoliciesYieldSanePauses(t *testing.T) {
	numbers := []int{math.MinInt, -1, 0, 1, 2, 3, 2000, math.MaxInt}
	for _, function := range []BackoffFunction{Arithmetic, Exponential, Geometric, Linear, "other"} {
		for _, n := range numbers {
			for _, lo := range numbers {
				for _, hi := range numbers {
					p := &Policy{HealthyRetryPolicy: &RetryPolicy{NumRetries: ptr(n), MinDelayTarget: ptr(lo), MaxDelayTarget: ptr(hi),
						NumNoDelayRetries: ptr(lo), NumMaxDelayRetries: ptr(hi), BackoffFunction: function}}
					pauses := first(p, 10)
					s := p.schedule()
					if s.retries() != max(n, 0) {
						t.Fatalf("%d retries of %d", s.retries(), n)
					}
					if n > 0 {
						pauses = append(pauses, s.delay(n/2), s.delay(n-1))
					}
					// The same without the other phases, so that the backoff
					// phase is all there is.
					s = schedule{backoff: max(n, 0), lo: seconds(lo), hi: seconds(hi), function: function}
					if n > 0 {
						pauses = append(pauses, s.delay(0), s.delay(n/2), s.delay(n-1))
					}
					for _, d := range pauses {
						if d < 0 {
							t.Fatalf("%s, %d retries from %d to %d s: a pause of %v", function, n, lo, hi, d)
						}
					}
				}
			}
		}
	}
}

// Each function starts at the minimum, ends at the maximum and never falls, for
// any number of retries.
func TestBackoffFunctionsRiseFromMinimumToMaximum(t *testing.T) {
	for _, function := range []BackoffFunction{Arithmetic, Exponential, Geometric, Linear} {
		for n := 2; n < 3000; n = n*3/2 + 1 {
			s := schedule{backoff: n, lo: 5 * time.Second, hi: 260 * time.Second, function: function}
			if s.delay(0) != s.lo || s.delay(n-1) != s.hi {
				t.Errorf("%s, %d retries: from %v to %v", function, n, s.delay(0), s.delay(n-1))
			}
			for k := 1; k < n; k++ {
				if s.delay(k) < s.delay(k-1) {
					t.Errorf("%s, %d retries: pause %d is %v after %v", function, n, k, s.delay(k), s.delay(k-1))
				}
			}
		}
	}
}

func BenchmarkDelays(b *testing.B) {
	p := AWSManaged()
	b.ReportAllocs()
	for b.Loop() {
		for range p.Delays() {
		}
	}
}

// The documented lengths hold with jitter: 23 days, 6 hours.
func TestJitterKeepsTheLength(t *testing.T) {
	for name, policy := range map[string]*Policy{
		"AWS-managed":      AWSManaged(),
		"customer-managed": CustomerManaged(),
		"default":          nil,
		"long":             parse(t, `{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":60,"numRetries":50,"numNoDelayRetries":3,"numMaxDelayRetries":30}}`),
	} {
		s := policy.schedule()
		for seed := range uint64(20) {
			random := rand.New(rand.NewPCG(seed, 0))
			var sum time.Duration
			for n := range s.retries() {
				pause, got := s.delay(n), s.jittered(n, random.Float64())
				if float64(got) < 0.9*float64(pause) || float64(got) > 1.1*float64(pause) || pause > 0 && got < s.lo {
					t.Fatalf("%s: a pause of %v, which is at least %v, became %v", name, pause, s.lo, got)
				}
				sum += got
			}
			// Where every pause is minDelayTarget, they become a twentieth
			// longer on average.
			if ratio := sum.Seconds() / s.total().Seconds(); ratio < 0.96 || ratio > 1.10 || name != "default" && ratio > 1.04 {
				t.Errorf("%s: seed %d makes %v of %v", name, seed, sum, s.total())
			}
		}
	}
	s := CustomerManaged().schedule()
	for _, test := range []struct {
		random float64
		want   time.Duration
	}{{0, 540 * time.Second}, {0.5, 600 * time.Second}, {1, 660 * time.Second}} {
		if got := s.jittered(49, test.random); (got - test.want).Abs() > time.Microsecond {
			t.Errorf("600 s became %v at %v, want %v", got, test.random, test.want)
		}
	}
}
