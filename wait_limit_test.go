package awsretry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// throttledLimiter returns a limiter that gives a token every two seconds, the first in two seconds.
func throttledLimiter(c RateLimitConfig) *RateLimiter {
	l := NewRateLimiter(c)
	l.Update(true)
	return l
}

// A wait that could not end in time is refused at once and takes no place in line.
func TestWaitThatIsTooLongIsNotBegun(t *testing.T) {
	const forever = 0
	tests := []struct {
		name              string
		inLine            int           // each for a token every 2 s
		maxWait, deadline time.Duration // 0: none
		want              time.Duration // the token comes then, or the wait is refused at once
		reason            string        // of the refusal; "" for none
	}{
		{"no limit", 3, forever, forever, 8 * time.Second, ""},
		{"MaxWait to the instant", 0, 2 * time.Second, forever, 2 * time.Second, ""},
		{"MaxWait", 0, 2*time.Second - 1, forever, 0, "expected wait of 2s is longer than MaxWait, 1.999999999s"},
		{"MaxWait behind others", 2, 5 * time.Second, forever, 0, "expected wait of 6s is longer than MaxWait, 5s"},
		{"MaxWait behind others, enough", 2, 6 * time.Second, forever, 6 * time.Second, ""},
		{"deadline at the instant", 0, forever, 2 * time.Second, 0, "expected wait of 2s would not end before the context's deadline"},
		{"deadline after it", 0, forever, 2*time.Second + 1, 2 * time.Second, ""},
		{"deadline behind others", 4, forever, 9 * time.Second, 0, "expected wait of 10s would not end before the context's deadline"},
		{"deadline behind others, enough", 4, forever, 11 * time.Second, 10 * time.Second, ""},
		{"both", 1, 3 * time.Second, 2 * time.Second, 0, "longer than MaxWait, 3s"},
		{"both, the deadline first", 1, 5 * time.Second, 2 * time.Second, 0, "before the context's deadline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := throttledLimiter(RateLimitConfig{MaxWait: tt.maxWait})
				q := newQueue()
				for i := range tt.inLine {
					q.join(i, func() error { return l.bucket.Wait(t.Context(), 1) })
				}
				ctx := t.Context()
				if tt.deadline != 0 {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				start := time.Now()
				err := l.Wait(ctx)
				if took := time.Since(start); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if tt.reason == "" && err != nil {
					t.Errorf("got %v", err)
				}
				if tt.reason != "" {
					if !errors.Is(err, ErrRateLimited) || !strings.Contains(err.Error(), tt.reason) {
						t.Errorf("got %v, want ErrRateLimited because of %q", err, tt.reason)
					}
					if waiting, _ := l.line(); waiting != tt.inLine {
						t.Errorf("%d are in line, want %d", waiting, tt.inLine)
					}
				}
				q.wait()
				wantNoLine(t, l.bucket)
			})
		})
	}
}

// Before the first throttling answer nobody waits, and a token that is there is given, however little time is left.
func TestWaitLimitsNeedAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		if err := NewRateLimiter(RateLimitConfig{MaxWait: 1}).Wait(ctx); err != nil {
			t.Errorf("not limited: %v", err)
		}
		l := throttledLimiter(RateLimitConfig{MaxWait: 1})
		time.Sleep(2 * time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), 1)
		defer cancel()
		if err := l.Wait(ctx); err != nil {
			t.Errorf("with a token: %v", err)
		}
	})
}

// lateContext has a deadline that is over, and has not ended yet: its timer is late.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Time{}, true }

func TestDeadlineThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := throttledLimiter(RateLimitConfig{})
		if err := l.Wait(lateContext{t.Context()}); !errors.Is(err, ErrRateLimited) {
			t.Errorf("without a token: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := l.Wait(lateContext{t.Context()}); err != nil {
			t.Errorf("with a token: %v", err)
		}
		cause := errors.New("the user left")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := l.Wait(lateContext{ended}); !errors.Is(err, cause) {
			t.Errorf("ended: %v", err)
		}
	})
}

// endingContext ends while its deadline is asked for, which is over.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Deadline() (time.Time, bool) { c.end(); return time.Time{}, true }

func TestContextThatEndsBeforeTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := throttledLimiter(RateLimitConfig{}).Wait(endingContext{ctx, func() { cancel(cause) }}); !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
	})
}

// The wait is told from a sum that is kept, however long the line is, and whoever leaves it.
func TestExpectedWaitOfALongLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := throttledLimiter(RateLimitConfig{MaxWait: 20_002 * time.Second})
		if waiting, expected := l.line(); waiting != 0 || expected != 2*time.Second || l.expectedWait() != expected {
			t.Errorf("at first: %d, %v", waiting, expected)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 10_000 {
			wg.Go(func() {
				ctx := ctx
				if i%2 == 0 {
					ctx = t.Context()
				}
				if err := l.Wait(ctx); (err != nil) != (i%2 == 1) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if waiting, expected := l.line(); waiting != 10_000 || expected != 20_002*time.Second {
			t.Errorf("%d are in line, and another would wait %v", waiting, expected)
		}
		if allocs := testing.AllocsPerRun(100, func() { l.line() }); allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
		cancel()
		synctest.Wait()
		if waiting, expected := l.line(); waiting != 5000 || expected != 10_002*time.Second {
			t.Errorf("then %d are in line, and another would wait %v", waiting, expected)
		}
		wg.Wait()
		if waiting, expected := l.line(); waiting != 0 || expected != 2*time.Second {
			t.Errorf("in the end %d are in line, and another would wait %v", waiting, expected)
		}
	})
}

func TestExpectedWaitInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := NewRateLimiter(RateLimitConfig{}).expectedWait(); got != 0 {
			t.Errorf("not limited: %v", got)
		}
		if got := new(RateLimiter).expectedWait(); got != 0 {
			t.Errorf("the zero limiter: %v", got)
		}
	})
}

// A wait for retry tokens that cannot end in time is refused too, those in line counted.
func TestQuotaWaitAndDeadlines(t *testing.T) {
	tests := []struct {
		name     string
		inLine   []int // for one token a second
		n        int
		deadline time.Duration
		want     time.Duration // 0: refused
	}{
		{"at the instant", nil, 5, 5 * time.Second, 0},
		{"after it", nil, 5, 5*time.Second + 1, 5 * time.Second},
		{"behind others", []int{2, 3}, 5, 10 * time.Second, 0},
		{"behind others, enough", []int{2, 3}, 5, 10*time.Second + 1, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewQuota(QuotaConfig{Capacity: 5, RefillPerSecond: 1, Wait: true})
				if err := q.Acquire(t.Context(), 5); err != nil {
					t.Fatal(err)
				}
				line := newQueue()
				for i, n := range tt.inLine {
					line.join(i, func() error { return q.Acquire(t.Context(), n) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				start := time.Now()
				soonest := q.soonest(tt.n)
				err := q.Acquire(ctx, tt.n)
				if took := time.Since(start); took != tt.want || (tt.want != 0) != (err == nil) {
					t.Errorf("%v after %v, want it after %v", err, took, tt.want)
				}
				if err != nil && (!errors.Is(err, ErrQuotaExceeded) || !strings.Contains(err.Error(), "deadline")) {
					t.Errorf("got %v", err)
				}
				if err == nil && soonest != tt.want {
					t.Errorf("soonest said %v", soonest)
				}
				ended := line.wait()
				if !slices.IsSortedFunc(ended, func(a, b served) int { return a.id - b.id }) {
					t.Errorf("served %v", ended)
				}
			})
		})
	}
}
