package awsretry_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/sdkloop"
	gocmp "github.com/google/go-cmp/cmp"
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
		Name, Initial, ThrottlingInitial, Max string
		Factor                                float64
		Class                                 awsretry.Class
		Pauses                                []string
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	duration := func(s string) time.Duration {
		if s == "" {
			return 0
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, v := range vectors {
		e := awsretry.Exponential{
			Initial: duration(v.Initial), ThrottlingInitial: duration(v.ThrottlingInitial), Max: duration(v.Max),
			Factor: v.Factor, Jitter: awsretry.NoJitter,
		}
		var want, got []string
		for n, pause := range v.Pauses {
			want = append(want, duration(pause).String())
			got = append(got, e.Delay(n, v.Class, 0).String())
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v.Name, diff)
		}
	}
}

// The cap limits what the jitter gets, not its result: delays at the cap are
// spread from 0 to 20 s, by either revision and after any failure.
func TestCapComesBeforeTheJitter(t *testing.T) {
	const limit = 20 * time.Second
	var got time.Duration
	noted := func(d time.Duration) time.Duration { got = d; return 0 }
	for _, e := range []awsretry.Exponential{{}, {Initial: 50 * time.Millisecond, ThrottlingInitial: time.Second}} {
		for _, class := range []awsretry.Class{awsretry.Transient, awsretry.Throttled} {
			e.Jitter = noted
			if e.Delay(12, class, 0); got != limit {
				t.Errorf("%v: the jitter gets %v, want %v", class, got, limit)
			}
			e.Jitter = nil
			_, most, mean := spreadOf(func() time.Duration { return e.Delay(12, class, 0) })
			if most >= limit || mean < limit*2/5 || mean > limit*3/5 {
				t.Errorf("%v: a mean of %v, and at most %v", class, mean, most)
			}
		}
	}
}

func TestJitters(t *testing.T) {
	const d = time.Second
	tests := []struct {
		name   string
		jitter awsretry.Jitter
		lo, hi time.Duration
	}{
		{"full", awsretry.FullJitter, 0, d},
		{"equal", awsretry.EqualJitter, d / 2, d},
		{"none", awsretry.NoJitter, d, d},
		{"partial 0", awsretry.PartialJitter(0), d, d},
		{"partial 0.5", awsretry.PartialJitter(0.5), d / 2, d},
		{"partial 0.25", awsretry.PartialJitter(0.25), d * 3 / 4, d},
		{"partial 1", awsretry.PartialJitter(1), 0, d},
		{"partial -1", awsretry.PartialJitter(-1), d, d},
		{"partial 2", awsretry.PartialJitter(2), 0, d},
		{"partial NaN", awsretry.PartialJitter(math.NaN()), d, d},
		{"the zero Exponential's",
			func(time.Duration) time.Duration { return awsretry.Exponential{}.Delay(0, awsretry.Transient, 0) }, 0, d},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			least, most, mean := spreadOf(func() time.Duration { return tt.jitter(d) })
			if least < tt.lo || most > tt.hi {
				t.Errorf("between %v and %v, want between %v and %v", least, most, tt.lo, tt.hi)
			}
			// Uniform: the ends are nearly reached, and the mean is in the
			// middle. The odds against are below 1e-9.
			if spread := tt.hi - tt.lo; least > tt.lo+spread/100 || most < tt.hi-spread/100 {
				t.Errorf("between %v and %v only, want all between %v and %v", least, most, tt.lo, tt.hi)
			} else if want := (tt.lo + tt.hi) / 2; (mean - want).Abs() > spread/20 {
				t.Errorf("mean %v, want %v", mean, want)
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
	tests := []struct{ last, lo, hi time.Duration }{
		{0, 100 * time.Millisecond, 300 * time.Millisecond},
		{50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond},
		{300 * time.Millisecond, 100 * time.Millisecond, 900 * time.Millisecond},
		{time.Hour, 100 * time.Millisecond, 2 * time.Second},
		{math.MaxInt64 / 2, 100 * time.Millisecond, 2 * time.Second},
		{math.MaxInt64, 100 * time.Millisecond, 2 * time.Second},
	}
	for _, tt := range tests {
		least, most, _ := spreadOf(func() time.Duration { return d.Delay(3, awsretry.Transient, tt.last) })
		if least < tt.lo || most > tt.hi || most < tt.hi-(tt.hi-tt.lo)/50 {
			t.Errorf("after %v: between %v and %v, want between %v and %v", tt.last, least, most, tt.lo, tt.hi)
		}
	}
}

// The delays of Legacy mode double up to 300 s and stay there.
func TestLegacyDelaysStayInBounds(t *testing.T) {
	tr := &awsretry.Transport{Mode: awsretry.Legacy}
	for _, number := range []int{15, 31, 40, 64, 65, 1000, math.MaxInt} {
		for _, class := range []awsretry.Class{awsretry.Transient, awsretry.Throttled} {
			d, err := sdkloop.Delay(tr, awsretry.Attempt{Number: number, Class: class})
			if err != nil || d != 300*time.Second {
				t.Errorf("after attempt %d, %v: %v, %v", number, class, d, err)
			}
		}
	}
}

// No retry number and no field may make a delay negative, or longer than the cap.
func TestDelaysStayInBounds(t *testing.T) {
	durations := []time.Duration{math.MinInt64, -1, 0, 1, time.Second, math.MaxInt64 - 1, math.MaxInt64}
	factors := []float64{math.Inf(-1), -2, 0, math.SmallestNonzeroFloat64, 0.5, 1, 2, math.MaxFloat64, math.NaN()}
	jitters := []awsretry.Jitter{
		awsretry.FullJitter, awsretry.EqualJitter, awsretry.NoJitter, awsretry.PartialJitter(0.3), nil,
		func(time.Duration) time.Duration { return math.MinInt64 },
		func(time.Duration) time.Duration { return math.MaxInt64 },
	}
	duration := func() time.Duration { return durations[rand.IntN(len(durations))] }
	for range 100_000 {
		n := []int{math.MinInt, -1, 0, 1, 31, 62, 63, 64, 1000, math.MaxInt}[rand.IntN(10)]
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
	type exponential = awsretry.Exponential
	const ms = time.Millisecond
	tests := []struct {
		name                           string
		backoff                        exponential
		mode                           awsretry.Mode
		revision                       awsretry.Revision
		transient, throttled, dynamoDB time.Duration // before the first retry
	}{
		{"Classic", exponential{Max: 5 * time.Second}, "", awsretry.Classic, time.Second, time.Second, time.Second},
		{"2026", exponential{Max: 5 * time.Second}, "", awsretry.Revision2026, 50 * ms, time.Second, 25 * ms},
		{"2026, a lower cap", exponential{Max: 40 * ms}, "", awsretry.Revision2026, 40 * ms, 40 * ms, 25 * ms},
		{"2026, Initial", exponential{Initial: 200 * ms}, "", awsretry.Revision2026, 200 * ms, time.Second, 200 * ms},
		{"2026, ThrottlingInitial", exponential{ThrottlingInitial: 3 * time.Second}, "", awsretry.Revision2026, 50 * ms,
			3 * time.Second, 25 * ms},
		{"capped", exponential{ThrottlingInitial: time.Minute}, "", awsretry.Classic, time.Second,
			20 * time.Second, time.Second},
		{"2026, capped", exponential{ThrottlingInitial: time.Minute, Max: 2 * time.Second}, "", awsretry.Revision2026,
			50 * ms, 2 * time.Second, 25 * ms},
		{"Initial alone", exponential{Initial: 200 * ms}, "", awsretry.Classic, 200 * ms, 200 * ms, 200 * ms},
		{"Legacy", exponential{Max: 5 * time.Second}, awsretry.Legacy, awsretry.Revision2026, time.Second,
			time.Second, time.Second},
	}
	dynamoDB := newRequest(t, "GET", nil)
	dynamoDB.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	for _, tt := range tests {
		tt.backoff.Jitter = awsretry.NoJitter
		before := tt.backoff
		for _, backoff := range []awsretry.Backoff{tt.backoff, &tt.backoff} {
			tr := &awsretry.Transport{Mode: tt.mode, Revision: tt.revision, Backoff: backoff}
			for _, first := range []struct {
				class awsretry.Class
				req   *http.Request
				want  time.Duration
			}{
				{awsretry.Transient, newRequest(t, "GET", nil), tt.transient},
				{awsretry.Throttled, newRequest(t, "GET", nil), tt.throttled},
				{awsretry.Transient, dynamoDB, tt.dynamoDB},
				{awsretry.Throttled, dynamoDB, tt.throttled},
			} {
				a := awsretry.Attempt{Number: 1, Class: first.class, Request: first.req}
				if got, err := sdkloop.Delay(tr, a); err != nil || got != first.want {
					t.Errorf("%s, %v, %v: %v, %v; want %v", tt.name, first.class, first.req.Header, got, err, first.want)
				}
			}
		}
		if tt.backoff.Initial != before.Initial || tt.backoff.ThrottlingInitial != before.ThrottlingInitial {
			t.Errorf("%s: the caller's was changed to %+v", tt.name, tt.backoff)
		}
	}
}

// The fields' ranges are those of Transport.Validate.
func TestBackoffValidate(t *testing.T) {
	for want, backoff := range map[string]interface{ Validate() error }{
		"<nil>": awsretry.Exponential{},
		"awsretry: Backoff.Initial is -1ns; it must be above 0": awsretry.Exponential{Initial: -1},
		"awsretry: Backoff.Max is -1ns; it must be above 0":     &awsretry.Decorrelated{Max: -1},
	} {
		if got := fmt.Sprint(backoff.Validate()); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
