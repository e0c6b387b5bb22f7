package awsretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLineIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(10, 1)
		q := newQueue(b)
		var want []served
		for i := range 100 {
			q.join(t.Context(), i, 1)
			want = append(want, served{id: i, at: time.Duration(i+1) * 100 * time.Millisecond})
		}
		if got := q.wait(); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		wantIdle(t, b)
	})
}

func TestBigRequestIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 10)
		q := newQueue(b)
		q.join(t.Context(), 0, 5)
		time.Sleep(3 * time.Second) // enough for the small one, not for the big one
		q.join(t.Context(), 1, 2)
		want := []served{{id: 0, at: 5 * time.Second}, {id: 1, at: 7 * time.Second}}
		if got := q.wait(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestNewcomerJoinsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 10)
		q := newQueue(b)
		q.join(t.Context(), 0, 5)
		time.Sleep(4 * time.Second)
		b.mu.Lock()
		if b.tryTake(b.now(), 1) {
			t.Error("tryTake overtook the line")
		}
		if got := b.level(b.now()); got != 4 {
			t.Errorf("tokens are %v, want 4", got)
		}
		b.mu.Unlock()
		q.wait()
	})
}

func TestCancelPassesTheTurnOn(t *testing.T) {
	type s = served
	sec := time.Second
	gone := errors.New("gone away")
	tests := []struct {
		name   string
		cancel []int
		want   []served
	}{
		{"head", []int{0}, []s{{0, sec / 2, gone}, {1, sec, nil}, {2, 2 * sec, nil}, {3, 3 * sec, nil}}},
		{"middle", []int{1}, []s{{1, sec / 2, gone}, {0, sec, nil}, {2, 2 * sec, nil}, {3, 3 * sec, nil}}},
		{"last", []int{3}, []s{{3, sec / 2, gone}, {0, sec, nil}, {1, 2 * sec, nil}, {2, 3 * sec, nil}}},
		{"two neighbours", []int{1, 2}, []s{{1, sec / 2, gone}, {2, sec / 2, gone}, {0, sec, nil}, {3, 2 * sec, nil}}},
		{"all", []int{2, 0, 3, 1}, []s{{2, sec / 2, gone}, {0, sec / 2, gone}, {3, sec / 2, gone}, {1, sec / 2, gone}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBucket(1, 1)
				q := newQueue(b)
				var cancels []context.CancelCauseFunc
				for i := range 4 {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					cancels = append(cancels, cancel)
					q.join(ctx, i, 1)
				}
				time.Sleep(sec / 2)
				for _, i := range test.cancel {
					cancels[i](gone)
					synctest.Wait()
				}
				if got := q.wait(); !slices.Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
				wantIdle(t, b)
			})
		})
	}
}

func TestCancelOfBigRequestServesSmallAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 10)
		q := newQueue(b)
		gone := errors.New("gone away")
		big, cancel := cancelAfter(t.Context(), 3*time.Second, gone)
		defer cancel()
		q.join(big, 0, 9)
		q.join(t.Context(), 1, 2)
		want := []served{{0, 3 * time.Second, gone}, {1, 3 * time.Second, nil}}
		if got := q.wait(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if b.tokens != 1 {
			t.Errorf("tokens are %v, want 1", b.tokens)
		}
	})
}

// A grant and a cancel can come at the same moment: the tokens must not be lost with the waiter that left.
func TestGrantThatRacesWithCancelIsPutBack(t *testing.T) {
	for _, next := range []bool{false, true} {
		t.Run(fmt.Sprintf("next=%v", next), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBucket(1, 1)
				w := join(b, 1)
				q := newQueue(b)
				if next {
					q.join(t.Context(), 1, 1)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				select {
				case <-w.wake:
				default:
					t.Fatal("not granted after a second")
				}
				b.leave(w)
				if next {
					if got, want := q.wait(), []served{{1, time.Second, nil}}; !slices.Equal(got, want) {
						t.Errorf("got %v, want %v", got, want)
					}
				} else if b.tokens != 1 {
					t.Errorf("tokens are %v, want 1", b.tokens)
				}
				wantIdle(t, b)
			})
		})
	}
}

// The tokens of a grant that is given up go to the line first, and only what is
// left then is cut to the capacity.
func TestLeaveServesTheLineFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 10)
		first, second := join(b, 10), join(b, 10)
		time.Sleep(15 * time.Second) // first is granted at 10 s; 5 tokens come after it
		synctest.Wait()
		if !first.granted || second.granted {
			t.Fatalf("after 15 s: granted is %v and %v, want true and false", first.granted, second.granted)
		}
		b.leave(first)
		if !second.granted || b.tokens != 5 {
			t.Errorf("granted is %v and %v tokens are left, want true and 5", second.granted, b.tokens)
		}
		wantIdle(t, b)
	})
}

// Many cancels meet many grants at the same instant; whatever each waiter sees, all tokens are accounted for.
func TestCancelsAndGrantsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1000, 100)
		var wg sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for i := range 500 {
			wg.Go(func() {
				ctx, cancel := cancelAfter(t.Context(), time.Duration(i%100)*time.Millisecond, nil)
				defer cancel()
				if take(ctx, b, 1) == nil {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		b.mu.Lock()
		now := b.now()
		b.advance(now)
		// At one token a millisecond, and never more than are taken, nothing reaches the capacity.
		if got, want := float64(granted)+b.tokens, now.Seconds()*1000; !near(got, want, 1e-6) {
			t.Errorf("%d granted and %v left, want %v together", granted, b.tokens, want)
		}
		b.mu.Unlock()
		wantIdle(t, b)
	})
}

func TestRateChangeMovesTheTurn(t *testing.T) {
	tests := []struct {
		name     string
		rate     float64 // after 1 s at 0.1/s; 0.9 of a token lacks
		capacity float64
		want     time.Duration
	}{
		{"rises", 9, 10, 1100 * time.Millisecond},
		{"falls", 0.05, 10, 19 * time.Second},
		{"stays, with less capacity", 0.1, 1, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBucket(0.1, 10)
				q := newQueue(b)
				q.join(t.Context(), 0, 1)
				time.Sleep(time.Second)
				b.mu.Lock()
				b.setRate(b.now(), test.rate, test.capacity)
				b.mu.Unlock()
				if got, want := q.wait(), []served{{0, test.want, nil}}; !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				wantIdle(t, b)
			})
		})
	}
}

func TestPutServesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(0.001, 10)
		q := newQueue(b)
		for i, n := range []float64{3, 1, 4, 6} {
			q.join(t.Context(), i, n)
		}
		for range 2 {
			time.Sleep(time.Second)
			b.mu.Lock()
			b.put(b.now(), 4)
			b.mu.Unlock()
			synctest.Wait()
		}
		want := []served{{0, time.Second, nil}, {1, time.Second, nil}, {2, 2 * time.Second, nil}}
		slices.SortStableFunc(q.ended, func(a, b served) int { return a.id - b.id }) // 0 and 1 wake at the same instant
		if !slices.Equal(q.ended, want) {
			t.Errorf("got %v, want %v", q.ended, want)
		}
		b.mu.Lock()
		b.put(b.now(), math.MaxFloat64)
		b.mu.Unlock()
		q.wait()
		if !near(b.tokens, 4, 1e-9) {
			t.Errorf("tokens are %v, want 4", b.tokens)
		}
	})
}

// What lacks of a token can be less than the clock's tick, or less than a float shows beside what is there.
func TestWaitsAreExact(t *testing.T) {
	type row struct {
		name                 string
		rate, capacity, have float64
		n                    float64
		want                 time.Duration
	}
	tests := []row{
		{"under a tick", 1e12, 1, 0.5, 1, 1},
		{"the greatest rate", math.MaxFloat64, 1, 0, 1, 1},
		{"a tick and less than its thousandth", 1e9, 10, 0.9995, 2, 1},
		{"beside a great number", 1, 1 << 60, 1<<60 - 256, 1 << 60, 256 * time.Second},
		{"a third", 3, 1, 0, 1, 333333334},
		{"decades", 1.0 / (1 << 30), 1, 0, 1, (1 << 30) * time.Second},
	}
	for k := range 100 { // most of these hundredths have no exact float
		tests = append(tests, row{fmt.Sprintf("%d hundredths", k), 0.1, 1, float64(k) / 100, 1, time.Duration(100-k) * 100 * time.Millisecond})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBucket(test.rate, test.capacity)
				b.tokens = test.have
				q := newQueue(b)
				q.join(t.Context(), 0, test.n)
				if got := q.wait()[0].at; got != test.want {
					t.Errorf("waited %v, want %v", got, test.want)
				}
				if b.fired != 1 {
					t.Errorf("the timer fired %d times, want once", b.fired)
				}
				if b.tokens < 0 || b.tokens > b.capacity {
					t.Errorf("tokens are %v", b.tokens)
				}
			})
		})
	}
}

func TestAskingOftenAddsNoRounding(t *testing.T) {
	for _, rate := range []float64{1e-6, 3e-5, 1e-4} { // a float shows no less than 5.7e-14 beside 500
		b := &bucket{rate: rate, capacity: 1000, tokens: 500}
		for now := range 2_000_000 * time.Nanosecond {
			b.tryTake(now, 501)
		}
		if got, want := b.level(2*time.Millisecond)-500, 2e-3*rate; math.Abs(got-want) > 1e-13 {
			t.Errorf("at %v/s: %v credited, want %v", rate, got, want)
		}
	}
}

func TestClockThatMisbehaves(t *testing.T) {
	b := &bucket{rate: 1, capacity: 100}
	for _, step := range []struct {
		now  time.Duration
		want float64
	}{
		{10 * time.Second, 10}, {10 * time.Second, 10}, {-time.Hour, 10}, {math.MinInt64, 10},
		{9 * time.Second, 10}, {11 * time.Second, 11}, {clockEnd, 100}, {clockEnd, 100}, {0, 100},
	} {
		if got := b.level(step.now); step.now >= b.at && got != step.want {
			t.Fatalf("at %v: the level is %v, want %v", step.now, got, step.want)
		}
		b.advance(step.now)
		if b.tokens != step.want {
			t.Fatalf("at %v: tokens are %v, want %v", step.now, b.tokens, step.want)
		}
	}
}

// The timer runs once for each token, whether one waits or ten thousand do.
func TestTimerFiresOncePerToken(t *testing.T) {
	for _, waiters := range []int{1, 100, 10_000} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTestBucket(100, 1)
				var wg sync.WaitGroup
				for range waiters {
					wg.Go(func() {
						if err := take(t.Context(), b, 1); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if b.fired != waiters {
					t.Errorf("the timer fired %d times for %d waiters", b.fired, waiters)
				}
				if got, want := b.now(), time.Duration(waiters)*10*time.Millisecond; got != want {
					t.Errorf("served within %v, want %v", got, want)
				}
				wantIdle(t, b)
			})
		})
	}
}

// A timer that is late holds nobody up for longer than that: what came
// meanwhile is for those in line, although the bucket could not hold it.
func TestLateTimerIsMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuota(QuotaConfig{Capacity: 1, RefillPerSecond: 1000, Wait: true})
		if err := q.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		b := q.refill
		var granted atomic.Int32
		for range 10 {
			go func() {
				if q.Acquire(t.Context(), 1) == nil {
					granted.Add(1)
				}
			}()
		}
		synctest.Wait()
		b.start = b.start.Add(-4500 * time.Microsecond) // a pause of the machine
		b.fire()
		synctest.Wait()
		if n := granted.Load(); n != 4 {
			t.Errorf("%d were served after 4.5 ms, want 4", n)
		}
		time.Sleep(500 * time.Microsecond)
		synctest.Wait()
		if n := granted.Load(); n != 5 {
			t.Errorf("%d were served after 5 ms, want 5", n)
		}
		b.start = b.start.Add(-time.Second)
		b.fire()
		synctest.Wait()
		if n := granted.Load(); n != 10 || b.tokens != 1 {
			t.Errorf("%d were served in the end and %v tokens are left, want 10 and 1", n, b.tokens)
		}
		wantIdle(t, b)
	})
}

// A process that was stopped, by SIGSTOP or in a container that was paused, does
// not send all that waits at once when it goes on: a full bucket, and what
// maxLate makes up for, is all that the line gets.
func TestNoBurstAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, rate, callers = 100, 100, 2000
		b := newTestBucket(rate, capacity)
		line := make([]*waiter, callers)
		for i := range line {
			line[i] = join(b, 1)
		}
		b.start = b.start.Add(-time.Minute) // the timer is late by a minute
		b.fire()
		granted := 0
		for _, w := range line {
			if w.granted {
				granted++
			}
		}
		if want := capacity + int(rate*maxLate.Seconds()); granted != want {
			t.Errorf("%d were served at once, want %d", granted, want)
		}
		for _, w := range line {
			b.leave(w)
		}
		wantIdle(t, b)
	})
}

// A timer function that starts just as its timer is stopped or set anew still runs.
func TestStaleTimerIsHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 1)
		b.fire()
		if b.tokens != 0 || b.timer != nil {
			t.Errorf("with an empty line: tokens %v, timer %v", b.tokens, b.timer)
		}
		q := newQueue(b)
		q.join(t.Context(), 0, 1)
		time.Sleep(time.Second / 2)
		b.fire()
		if got, want := q.wait(), []served{{0, time.Second, nil}}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		wantIdle(t, b)
	})
}

// One bucket can serve one bubble after another: a test may share a Transport with the next.
func TestTimerBelongsToItsLine(t *testing.T) {
	b := newTestBucket(1e9, 1)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			b.start, b.at, b.tokens = time.Now(), 0, 0
			if err := take(t.Context(), b, 1); err != nil {
				t.Error(err)
			}
		})
	}
}

type panickingContext struct{ context.Context }

func (panickingContext) Done() <-chan struct{} { panic("no channel today") }

func TestPanicOfContextLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestBucket(1, 1)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = take(panickingContext{t.Context()}, b, 1)
		}()
		if err := take(t.Context(), b, 1); err != nil || b.now() != time.Second {
			t.Errorf("took at %v, error %v; want 1s, nil", b.now(), err)
		}
		wantIdle(t, b)
	})
}
