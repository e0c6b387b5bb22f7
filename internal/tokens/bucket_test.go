package tokens

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/waittest"
)

// Put and SetRate respect the capacity, and SetRate adds the tokens up to now at
// the old rate.
func TestPutAndSetRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(1, 10)
		for _, step := range []struct {
			name string
			do   func()
			want float64
		}{
			{"put", func() { b.Put(4) }, 4},
			{"put above the capacity", func() { b.Put(100) }, 10},
			{"less capacity", func() { b.SetRate(b.Now(), 1, 3) }, 3},
			{"more capacity", func() { b.SetRate(b.Now(), 1, 20) }, 3},
			{"higher rate after 5 s", func() { time.Sleep(5 * time.Second); b.SetRate(b.Now(), 3, 20) }, 8},
			{"3 s at that rate", func() { time.Sleep(3 * time.Second) }, 17},
			{"a time before the last one", func() { b.SetRate(time.Second, 3, 20) }, 17},
		} {
			step.do()
			if got := b.Tokens(); !near(got, step.want, 1e-8) {
				t.Fatalf("%s: %v tokens, want %v", step.name, got, step.want)
			}
		}
	})
}

func TestAskingOftenAddsNoRounding(t *testing.T) {
	for _, rate := range []float64{1e-6, 3e-5, 1e-4} { // a float64 near 500 has steps of 5.7e-14
		b := &Bucket{rate: rate, capacity: 1000, tokens: 500}
		for now := range 2_000_000 * time.Nanosecond {
			b.take(now, 501, announced.Request{})
		}
		if got, want := b.tokensAt(2*time.Millisecond)-500, 2e-3*rate; math.Abs(got-want) > 1e-13 {
			t.Errorf("at %v/s: %v credited, want %v", rate, got, want)
		}
	}
}

// Ten tenths of a token are a whole one, for a caller that takes it at once and for
// the line, although their sum is a little less. Taking it leaves no debt.
func TestTenthsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(0.1, 10)
		for range 10 {
			time.Sleep(time.Second)
			b.Put(0) // adds the tenth now
		}
		if b.tokens >= 1 {
			t.Fatalf("%v tokens: the test needs rounding", b.tokens)
		}
		if got := b.Tokens(); got < 1 {
			t.Errorf("%v tokens, want 1", got)
		}
		if _, expected := b.Line(1); expected != 0 {
			t.Errorf("the expected wait is %v, want none", expected)
		}
		if !b.Take(1) || b.tokens != 0 {
			t.Errorf("%v tokens after Take, want 0", b.tokens)
		}
		w := mustJoin(t, b, 1)
		for range 10 {
			b.Put(0.1)
		}
		if !w.isGranted() || b.tokens != 0 {
			t.Errorf("granted is %v and %v tokens are left, want true and 0", w.isGranted(), b.tokens)
		}
		wantIdle(t, b)
	})
}

// The missing part of a token may take less than a tick of the clock, or be less
// than a float64 can add to the tokens in the bucket.
func TestWaitsAreExact(t *testing.T) {
	type row struct {
		name                 string
		rate, capacity, have float64
		n                    float64
		want                 time.Duration
	}
	tests := []row{
		{"less than a tick", 1e12, 1, 0.5, 1, 1},
		{"the highest rate", math.MaxFloat64, 1, 0, 1, 1},
		{"a tick and less than its thousandth", 1e9, 10, 0.9995, 2, 1},
		{"many tokens", 1, 1 << 60, 1<<60 - 256, 1 << 60, 256 * time.Second},
		{"a third", 3, 1, 0, 1, 333333334},
		{"decades", 1.0 / (1 << 30), 1, 0, 1, (1 << 30) * time.Second},
	}
	for k := range 100 { // most hundredths have no exact float64
		name, want := fmt.Sprintf("%d hundredths", k), time.Duration(100-k)*100*time.Millisecond
		tests = append(tests, row{name, 0.1, 1, float64(k) / 100, 1, want})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newEmpty(test.rate, test.capacity)
				b.tokens = test.have
				q := waittest.NewQueue()
				join(t.Context(), q, b, 0, test.n)
				if got := q.Wait()[0].At; got != test.want {
					t.Errorf("waited %v, want %v", got, test.want)
				}
				if b.tokens < 0 || b.tokens > b.capacity {
					t.Errorf("%v tokens are left", b.tokens)
				}
			})
		})
	}
}

func TestExpectedWaitHasBounds(t *testing.T) {
	for _, rate := range []float64{0, math.SmallestNonzeroFloat64, MinRate, 1e-9, 1, 1e9, math.MaxFloat64, math.Inf(1)} {
		for _, n := range []float64{1e-9, 1, 1 << 62, math.MaxFloat64, math.Inf(1)} {
			for _, now := range []time.Duration{math.MinInt64, 0, time.Second, clockEnd} {
				b := newEmpty(rate, n)
				b.queues = []*queue{{tokens: n}}
				if got := b.expectedWait(now, n, announced.Request{}); got < 0 || got > clockEnd {
					t.Errorf("%v tokens at %v/s, at %v: %v", n, rate, now, got)
				}
			}
		}
	}
	if got := (&Bucket{rate: 1e-9, capacity: 1, tokens: 1 - slack/2}).expectedWait(0, 1, announced.Request{}); got != 0 {
		t.Errorf("for what Take takes because of rounding: %v, want 0", got)
	}
	if got := newEmpty(1e-300, 1).expectedWait(0, 1, announced.Request{}); got != clockEnd {
		t.Errorf("at 1e-300/s: %v, want %v", got, clockEnd)
	}
}

// A small number is lost to rounding when a large one is added to it, but only
// until the line ends.
func TestExpectedWaitAfterLargeNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(1, 1<<62)
		large, small := mustJoin(t, b, 1<<62), mustJoin(t, b, 1)
		b.leave(large)
		b.leave(small)
		if _, got := b.Line(2); got != 2*time.Second {
			t.Errorf("%v, want 2s", got)
		}
	})
}

func TestSetRateMovesTheTurn(t *testing.T) {
	for _, test := range []struct {
		name     string
		rate     float64 // after 1 s at 0.1/s; 0.9 of a token is missing
		capacity float64
		want     time.Duration
	}{
		{"rises", 9, 10, 1100 * time.Millisecond},
		{"falls", 0.05, 10, 19 * time.Second},
		{"stays, with less capacity", 0.1, 1, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, q := newEmpty(0.1, 10), waittest.NewQueue()
				join(t.Context(), q, b, 0, 1)
				time.Sleep(time.Second)
				b.SetRate(b.Now(), test.rate, test.capacity)
				wantEnds(t, q, end(0, test.want, nil))
				wantIdle(t, b)
			})
		})
	}
}

// Tokens that are added while the bucket is full are lost, and counted once.
func TestTakeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newEmpty(2, 3)
		time.Sleep(time.Second)
		if got := b.TakeLost(); got != 0 {
			t.Errorf("lost %v tokens of a bucket that is not full", got)
		}
		time.Sleep(4 * time.Second)
		b.Take(1)
		if got := b.TakeLost(); !near(got, 7, 1e-6) {
			t.Errorf("lost %v tokens, want 7", got)
		}
		if got := b.TakeLost(); got != 0 {
			t.Errorf("lost %v tokens twice", got)
		}
	})
}

func TestNoAllocationsWithoutAWait(t *testing.T) {
	b := New(time.Now(), 1e9, 1e9)
	ctx := t.Context()
	for name, f := range map[string]func(){
		"Take":            func() { b.Take(1) },
		"Take, refused":   func() { b.Take(1e10) },
		"Wait":            func() { _ = b.Wait(ctx, 1) },
		"Put":             func() { b.Put(1) },
		"SetRate":         func() { b.SetRate(b.Now(), 1e9, 1e9) },
		"Tokens and Line": func() { b.Tokens(); b.Line(1) },
	} {
		if allocs := testing.AllocsPerRun(100, f); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}
