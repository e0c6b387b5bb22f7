package awsretry

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// The first in line is about to be served, by a timer that is late: there is nothing to wait for, and yet no token for another.
func TestLateTimerGivesNoTokenToANewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 10)
		first := join(b, 1)
		b.tokens = 5
		if w, tooLong := b.takeOrJoin(1, -1); w != nil || tooLong <= 0 {
			t.Errorf("got %v, %v; want it refused", w, tooLong)
		}
		b.leave(first)
		if b.tokens != 5 {
			t.Errorf("%v tokens, want 5", b.tokens)
		}
		wantIdle(t, b)
	})
}

// Beside a great number a small one is lost in rounding, but not for longer than the line lasts.
func TestExpectedWaitAfterGreatNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 1<<62)
		great, small := join(b, 1<<62), join(b, 1)
		b.leave(great)
		b.leave(small)
		b.mu.Lock()
		defer b.mu.Unlock()
		if got := b.expectedWait(b.now(), 2); got != 2*time.Second {
			t.Errorf("%v, want 2s", got)
		}
	})
}

// What one who joins is told to expect is what comes, as long as the rate stays as it is.
func TestExpectedWaitComesTrue(t *testing.T) {
	for _, amounts := range [][]float64{{1, 1, 1, 1, 1}, {3, 1, 7, 2, 10}, {0.5, 10, 10}} {
		synctest.Test(t, func(t *testing.T) {
			b := newTestBucket(3, 10)
			q := newQueue(b)
			var want []served
			for i, n := range amounts {
				time.Sleep(10 * time.Millisecond)
				b.mu.Lock()
				expected := b.expectedWait(b.now(), n)
				b.mu.Unlock()
				want = append(want, served{id: i, at: time.Since(q.start) + expected})
				q.join(t.Context(), i, n)
			}
			for i, got := range q.wait() {
				if got.id != i || (got.at-want[i].at).Abs() > 10*time.Nanosecond || got.err != nil {
					t.Errorf("got %v, want %v", got, want[i])
				}
			}
		})
	}
}

func TestExpectedWaitInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := NewRateLimiter(RateLimitConfig{}).expectedWait(); got != 0 {
			t.Errorf("not limited: %v", got)
		}
		if got := new(RateLimiter).expectedWait(); got != 0 {
			t.Errorf("the zero limiter: %v", got)
		}
		for _, rate := range []float64{math.SmallestNonzeroFloat64, 1e-300, 1e-9, 1, 1e9, math.MaxFloat64} {
			for _, n := range []float64{1e-9, 1, 1 << 62, math.MaxFloat64} {
				for _, now := range []time.Duration{math.MinInt64, 0, time.Second, clockEnd} {
					b := newTestBucket(rate, n)
					b.queued = n
					if got := b.expectedWait(now, n); got < 0 || got > clockEnd {
						t.Errorf("%v tokens at %v/s, at %v: %v", n, rate, now, got)
					}
				}
			}
		}
		b := newTestBucket(1e-300, 1)
		if got := b.expectedWait(0, 1); got != clockEnd {
			t.Errorf("%v, want %v", got, clockEnd)
		}
	})
}
