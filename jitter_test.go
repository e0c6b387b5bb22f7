package awsretry_test

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/vectors"
)

// The documents' pauses, with b = 1: the AWS SDKs and Tools Reference Guide's,
// the AWS SDK for Kotlin's, the AWS General Reference's and Amazon SimpleDB's
// upper ends.
func TestExponentialVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors/exponential.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name                            string
		Initial, ThrottlingInitial, Max vectors.Duration
		Factor                          float64
		Class                           awsretry.Class
		Pauses                          []vectors.Duration
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		e := awsretry.Exponential{
			Initial: time.Duration(v.Initial), ThrottlingInitial: time.Duration(v.ThrottlingInitial),
			Max: time.Duration(v.Max), Factor: v.Factor, Jitter: awsretry.NoJitter,
		}
		for n, want := range v.Pauses {
			if got := e.Delay(n, v.Class, 0); got != time.Duration(want) {
				t.Errorf("%s: delay %d is %v, want %v", v.Name, n, got, want)
			}
		}
	}
}

// The cap limits what the jitter gets, not its result: delays at the cap are
// spread from 0 to 20 s, by either revision and after any failure.
func TestCapComesBeforeTheJitter(t *testing.T) {
	for _, class := range []awsretry.Class{awsretry.Transient, awsretry.Throttled} {
		var got time.Duration
		noted := func(d time.Duration) time.Duration { got = d; return 0 }
		awsretry.Exponential{Jitter: noted}.Delay(12, class, 0)
		if got != 20*time.Second {
			t.Errorf("%v: the jitter gets %v, want 20s", class, got)
		}
	}
}

func TestJitters(t *testing.T) {
	const d = time.Second
	for _, tt := range []struct {
		name   string
		jitter awsretry.Jitter
		lo, hi time.Duration
	}{
		{"full", awsretry.FullJitter, 0, d},
		{"equal", awsretry.EqualJitter, d / 2, d},
		{"none", awsretry.NoJitter, d, d},
		{"partial 0", awsretry.PartialJitter(0), d, d},
		{"partial 0.25", awsretry.PartialJitter(0.25), d * 3 / 4, d},
		{"partial 1", awsretry.PartialJitter(1), 0, d},
		{"partial NaN", awsretry.PartialJitter(math.NaN()), d, d},
		{"the zero Exponential's",
			func(time.Duration) time.Duration { return awsretry.Exponential{}.Delay(0, awsretry.Transient, 0) }, 0, d},
	} {
		t.Run(tt.name, func(t *testing.T) {
			least, most, mean := spreadOf(func() time.Duration { return tt.jitter(d) })
			// Uniform: the ends are nearly reached, and the mean is in the
			// middle. The odds against are below 1e-9.
			spread, middle := tt.hi-tt.lo, (tt.lo+tt.hi)/2
			if least < tt.lo || least > tt.lo+spread/100 || most > tt.hi || most < tt.hi-spread/100 ||
				(mean-middle).Abs() > spread/20 {
				t.Errorf("between %v and %v, on average %v; want all between %v and %v", least, most, mean, tt.lo, tt.hi)
			}
		})
	}
}

// spreadOf calls a random delay often.
func spreadOf(delay func() time.Duration) (least, most, mean time.Duration) {
	const n = 4000
	least, most = math.MaxInt64, math.MinInt64
	for range n {
		got := delay()
		least, most, mean = min(least, got), max(most, got), mean+got/n
	}
	return least, most, mean
}

func TestDecorrelated(t *testing.T) {
	d := awsretry.Decorrelated{Initial: 100 * time.Millisecond, Max: 2 * time.Second}
	for _, tt := range []struct{ last, lo, hi time.Duration }{
		{0, 100 * time.Millisecond, 300 * time.Millisecond},
		{300 * time.Millisecond, 100 * time.Millisecond, 900 * time.Millisecond},
		{math.MaxInt64 / 2, 100 * time.Millisecond, 2 * time.Second},
	} {
		least, most, _ := spreadOf(func() time.Duration { return d.Delay(3, awsretry.Transient, tt.last) })
		if least < tt.lo || most > tt.hi || most < tt.hi-(tt.hi-tt.lo)/50 {
			t.Errorf("after %v: between %v and %v, want between %v and %v", tt.last, least, most, tt.lo, tt.hi)
		}
	}
}

// The delays of Legacy mode double up to 300 s and stay there.
func TestLegacyDelaysStayInBounds(t *testing.T) {
	tr := &awsretry.Transport{Mode: awsretry.Legacy}
	for _, number := range []int{15, 64, math.MaxInt} {
		for _, class := range []awsretry.Class{awsretry.Transient, awsretry.Throttled} {
			d, err := tr.DelayAfter(retrier.Seal{}, awsretry.Attempt{Number: number, Class: class})
			if err != nil || d != 300*time.Second {
				t.Errorf("after attempt %d, %v: %v, %v", number, class, d, err)
			}
		}
	}
}

// No retry number and no field may make a delay negative, or longer than the cap.
func TestDelaysStayInBounds(t *testing.T) {
	durations := []time.Duration{math.MinInt64, -1, 0, 1, time.Second, math.MaxInt64}
	factors := []float64{-2, 0, math.SmallestNonzeroFloat64, 1, 2, math.MaxFloat64, math.NaN()}
	jitters := []awsretry.Jitter{
		awsretry.FullJitter, awsretry.EqualJitter, awsretry.NoJitter, awsretry.PartialJitter(0.3), nil,
		func(time.Duration) time.Duration { return math.MinInt64 },
		func(time.Duration) time.Duration { return math.MaxInt64 },
	}
	duration := func() time.Duration { return durations[rand.IntN(len(durations))] }
	for range 100_000 {
		n := []int{math.MinInt, 0, 1, 62, 63, 64, math.MaxInt}[rand.IntN(7)]
		limit := duration()
		for _, backoff := range []awsretry.Backoff{
			awsretry.Decorrelated{Initial: duration(), Max: limit},
			awsretry.Exponential{
				Initial: duration(), ThrottlingInitial: duration(), Max: limit,
				Factor: factors[rand.IntN(len(factors))], Jitter: jitters[rand.IntN(len(jitters))],
			},
		} {
			last, class := duration(), []awsretry.Class{awsretry.Transient, awsretry.Throttled}[rand.IntN(2)]
			if got := backoff.Delay(n, class, last); got < 0 || got > max(cmp.Or(limit, 20*time.Second), 0) {
				t.Fatalf("%+v.Delay(%d, %v, %v) = %v", backoff, n, class, last, got)
			}
		}
	}
	for _, jitter := range jitters[:4] {
		for _, d := range durations {
			if got := jitter(d); got < 0 || got > max(d, 0) {
				t.Errorf("jitter of %v is %v", d, got)
			}
		}
	}
}

// What an Exponential leaves open is the revision's, where a Transport uses it.
func TestExponentialOfATransport(t *testing.T) {
	const ms = time.Millisecond
	request, dynamoDB := newRequest(t, "GET", nil), newRequest(t, "GET", nil)
	dynamoDB.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	for _, tt := range []struct {
		backoff                        exponential
		mode                           awsretry.Mode
		revision                       awsretry.Revision
		transient, throttled, dynamoDB time.Duration // before the first retry
	}{
		{exponential{Max: 5 * time.Second}, "", awsretry.Classic, 1000 * ms, 1000 * ms, 1000 * ms},
		{exponential{Initial: 200 * ms}, "", awsretry.Classic, 200 * ms, 200 * ms, 200 * ms},
		{exponential{ThrottlingInitial: time.Minute}, "", awsretry.Classic, 1000 * ms, 20_000 * ms, 1000 * ms},
		{exponential{Max: 5 * time.Second}, awsretry.Legacy, awsretry.Revision2026, 1000 * ms, 1000 * ms, 1000 * ms},
		{exponential{Max: 5 * time.Second}, "", awsretry.Revision2026, 50 * ms, 1000 * ms, 25 * ms},
		{exponential{Max: 40 * ms}, "", awsretry.Revision2026, 40 * ms, 40 * ms, 25 * ms},
		{exponential{Initial: 200 * ms}, "", awsretry.Revision2026, 200 * ms, 1000 * ms, 200 * ms},
		{exponential{ThrottlingInitial: 3000 * ms}, "", awsretry.Revision2026, 50 * ms, 3000 * ms, 25 * ms},
	} {
		tt.backoff.Jitter = awsretry.NoJitter
		for _, backoff := range []awsretry.Backoff{tt.backoff, &tt.backoff} {
			tr := &awsretry.Transport{Mode: tt.mode, Revision: tt.revision, Backoff: backoff}
			delay := func(class awsretry.Class, req *http.Request) time.Duration {
				d, err := tr.DelayAfter(retrier.Seal{}, awsretry.Attempt{Number: 1, Class: class, Request: req})
				if err != nil {
					t.Error(err)
				}
				return d
			}
			want := []time.Duration{tt.transient, tt.throttled, tt.dynamoDB, tt.throttled}
			got := []time.Duration{
				delay(awsretry.Transient, request), delay(awsretry.Throttled, request),
				delay(awsretry.Transient, dynamoDB), delay(awsretry.Throttled, dynamoDB),
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v, %q, %v: %v, want %v", backoff, tt.mode, tt.revision, got, want)
			}
		}
	}
}
