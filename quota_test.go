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

func TestQuotaVectors(t *testing.T) {
	var vectors []struct {
		Name     string
		Capacity int
		Steps    []struct {
			Acquire, Release *int
			Refused          bool
			Tokens           int
		}
	}
	readVectors(t, "quota.json", &vectors)
	// The same amounts whether tokens come back with time as well or not; no time passes here.
	for _, refill := range []float64{0, 1} {
		for _, vector := range vectors {
			t.Run(fmt.Sprintf("%s, refill %v", vector.Name, refill), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := NewQuota(QuotaConfig{Capacity: vector.Capacity, RefillPerSecond: refill})
					for i, step := range vector.Steps {
						if step.Acquire != nil {
							var want error
							if step.Refused {
								want = ErrQuotaExceeded
							}
							if err := q.Acquire(t.Context(), *step.Acquire); !errors.Is(err, want) {
								t.Errorf("step %d: Acquire(%d) returned %v, want %v", i, *step.Acquire, err, want)
							}
						}
						if step.Release != nil {
							q.Release(*step.Release)
						}
						if got := q.Tokens(); got != step.Tokens {
							t.Errorf("step %d: %d tokens, want %d", i, got, step.Tokens)
						}
					}
				})
			})
		}
	}
}

func TestQuotaRefill(t *testing.T) {
	for _, steps := range []int{1, 10, 1000} { // looked at once in a while or all the time
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewQuota(QuotaConfig{Capacity: 10, RefillPerSecond: 0.1})
				if err := q.Acquire(t.Context(), 9); err != nil {
					t.Fatal(err)
				}
				for want := 1; want <= 10; want++ {
					if got := q.Tokens(); got != want {
						t.Errorf("%d tokens, want %d", got, want)
					}
					for range steps {
						time.Sleep(10 * time.Second / time.Duration(steps))
						q.Tokens()
					}
				}
				if got := q.Tokens(); got != 10 {
					t.Errorf("%d tokens, want 10: the capacity", got)
				}
				if err := q.Acquire(t.Context(), 10); err != nil {
					t.Error(err)
				}
				time.Sleep(9900 * time.Millisecond)
				if err := q.Acquire(t.Context(), 1); err != ErrQuotaExceeded {
					t.Errorf("with 0.99 tokens: %v", err)
				}
				if got := q.Tokens(); got != 0 {
					t.Errorf("%d tokens of 0.99", got)
				}
			})
		})
	}
}

// Ten times a tenth of a token is a whole one, also when it is summed up step by step, and drawing it leaves no debt.
func TestQuotaOfTenths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuota(QuotaConfig{Capacity: 10, RefillPerSecond: 0.1})
		if err := q.Acquire(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if got, want := q.Tokens(), i/10-i/50*5; got != want {
				t.Errorf("after %d s: %d tokens, want %d", i, got, want)
			}
			time.Sleep(time.Second)
			q.Release(1) // there and back: the tenths are added up now
			if err := q.Acquire(t.Context(), 1); err != nil {
				t.Error(err)
			}
			if i%50 == 49 {
				if got := q.Tokens(); got != 5 {
					t.Errorf("after %d s: %d tokens, want 5", i+1, got)
				}
				if err := q.Acquire(t.Context(), 5); err != nil {
					t.Errorf("after %d s: %v", i+1, err)
				}
				if q.refill.tokens < 0 {
					t.Errorf("%v tokens", q.refill.tokens)
				}
			}
		}
	})
}

func TestQuotaWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuota(QuotaConfig{Capacity: 10, RefillPerSecond: 1, Wait: true})
		start := time.Now()
		type end struct {
			n  int
			at time.Duration
		}
		var ends []end
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, n := range []int{8, 5, 1, 10} { // 2 are left after the first
			wg.Go(func() {
				if err := q.Acquire(t.Context(), n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, end{n, time.Since(start)})
			})
			synctest.Wait()
		}
		if got := q.Tokens(); got != 2 {
			t.Errorf("%d tokens, want 2", got)
		}
		time.Sleep(time.Second)
		q.Release(1) // a second less to wait for
		wg.Wait()
		want := []end{{8, 0}, {5, 2 * time.Second}, {1, 3 * time.Second}, {10, 13 * time.Second}}
		if !slices.Equal(ends, want) {
			t.Errorf("got %v, want %v", ends, want)
		}
		wantIdle(t, q.refill)
	})
}

func TestQuotaWaitServedByReleaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuota(QuotaConfig{Capacity: 5, RefillPerSecond: 1e-9, Wait: true})
		if err := q.Acquire(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- q.Acquire(t.Context(), 5) }()
		synctest.Wait()
		q.Release(4)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("woken with 4 of 5 tokens: %v", err)
		default:
		}
		q.Release(3)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := q.Tokens(); got != 0 { // 7 were put back into a bucket of 5
			t.Errorf("%d tokens, want 0", got)
		}
		wantIdle(t, q.refill)
	})
}

func TestQuotaMoreThanCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []QuotaConfig{
			{Capacity: 5},
			{Capacity: 5, RefillPerSecond: 1},
			{Capacity: 5, RefillPerSecond: 1, Wait: true},
		} {
			start := time.Now()
			q := NewQuota(c)
			for _, n := range []int{6, math.MaxInt} {
				if err := q.Acquire(t.Context(), n); err != ErrQuotaExceeded {
					t.Errorf("%+v: Acquire(%d) returned %v", c, n, err)
				}
			}
			if time.Since(start) != 0 || q.Tokens() != 5 {
				t.Errorf("%+v: waited %v, %d tokens left", c, time.Since(start), q.Tokens())
			}
		}
	})
}

func TestQuotaAndEndedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the user left")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for _, c := range []QuotaConfig{
			{Capacity: 5},
			{Capacity: 5, RefillPerSecond: 1},
			{Capacity: 5, RefillPerSecond: 1, Wait: true},
		} {
			q := NewQuota(c)
			for _, n := range []int{1, 5, 6} {
				if err := q.Acquire(ended, n); !errors.Is(err, cause) {
					t.Errorf("%+v: Acquire(%d) returned %v, want %v", c, n, err, cause)
				}
			}
			if got := q.Tokens(); got != 5 {
				t.Errorf("%+v: %d tokens, want 5", c, got)
			}
			for _, n := range []int{0, -1} {
				if err := q.Acquire(ended, n); err != nil {
					t.Errorf("%+v: Acquire(%d) returned %v, want nil", c, n, err)
				}
			}
		}

		q := NewQuota(QuotaConfig{Capacity: 5, RefillPerSecond: 1, Wait: true})
		_ = q.Acquire(t.Context(), 5)
		ctx, stop := cancelAfter(t.Context(), 3*time.Second, cause)
		defer stop()
		if err := q.Acquire(ctx, 5); !errors.Is(err, cause) {
			t.Errorf("cut short: %v, want %v", err, cause)
		}
		if got := q.Tokens(); got != 3 {
			t.Errorf("%d tokens, want 3", got)
		}
		wantIdle(t, q.refill)
	})
}

func TestQuotaOfTheGreatestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []QuotaConfig{
			{Capacity: math.MaxInt},
			{Capacity: math.MaxInt, RefillPerSecond: math.MaxFloat64},
			{Capacity: math.MaxInt, RefillPerSecond: math.SmallestNonzeroFloat64},
			{Capacity: math.MaxInt, RefillPerSecond: minRate, Wait: true},
		} {
			q := NewQuota(c)
			if got := q.Tokens(); got != math.MaxInt {
				t.Errorf("%+v: %d tokens at first", c, got)
			}
			if err := q.Acquire(t.Context(), math.MaxInt); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			if got := q.Tokens(); got != 0 {
				t.Errorf("%+v: %d tokens in the end", c, got)
			}
			q.Release(math.MaxInt)
			q.Release(math.MaxInt)
			if got := q.Tokens(); got != math.MaxInt {
				t.Errorf("%+v: %d tokens put back", c, got)
			}
		}
	})
}

func TestQuotaConfigValidate(t *testing.T) {
	const refill = "; it must be a finite number of tokens, 0 or more"
	const tooSlow = "; it must be at least 2.2e-10, a token in 146 years, for a wait to end"
	tests := []struct {
		config QuotaConfig
		want   string // the error's text; "" for none
	}{
		{QuotaConfig{}, ""},
		{QuotaConfig{InitialCost: 500}, ""},
		{QuotaConfig{Capacity: -1, InitialCost: 501}, ""},
		{QuotaConfig{Capacity: 1, RetryCost: 5, TimeoutCost: -1, ThrottlingCost: 7, SuccessIncrement: -9}, ""},
		{QuotaConfig{RefillPerSecond: 0.1, Wait: true}, ""},
		{QuotaConfig{RefillPerSecond: -1}, "Quota.RefillPerSecond is -1" + refill},
		{QuotaConfig{RefillPerSecond: math.NaN()}, "Quota.RefillPerSecond is NaN" + refill},
		{QuotaConfig{RefillPerSecond: math.Inf(1)}, "Quota.RefillPerSecond is +Inf" + refill},
		{QuotaConfig{RefillPerSecond: math.Inf(-1), Capacity: -1}, "Quota.RefillPerSecond is -Inf" + refill},
		{QuotaConfig{RefillPerSecond: 1e-300}, ""},
		{QuotaConfig{RefillPerSecond: minRate, Wait: true}, ""},
		{QuotaConfig{Wait: true}, "Quota.Wait is true and Quota.RefillPerSecond is 0" + tooSlow},
		{QuotaConfig{RefillPerSecond: 1e-300, Wait: true}, "Quota.Wait is true and Quota.RefillPerSecond is 1e-300" + tooSlow},
		{QuotaConfig{InitialCost: -1}, "Quota.InitialCost is -1; it must be 0 or more"},
		{QuotaConfig{InitialCost: 501}, "Quota.InitialCost is 501; it must be at most Quota.Capacity, 500"},
		{QuotaConfig{Capacity: 4, InitialCost: 5}, "Quota.InitialCost is 5; it must be at most Quota.Capacity, 4"},
	}
	for _, test := range tests {
		got := ""
		if err := test.config.validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v:\ngot  %q\nwant %q", test.config, got, test.want)
		}
		if test.want == "" {
			continue
		}
		q := NewQuota(test.config)
		for _, n := range []int{-1, 0, 1, math.MaxInt} {
			if err := q.Acquire(t.Context(), n); err == nil || err.Error() != "awsretry: "+test.want {
				t.Errorf("%+v: Acquire(%d) returned %v", test.config, n, err)
			}
			q.Release(n)
			if got := q.Tokens(); got != 0 {
				t.Errorf("%+v: %d tokens", test.config, got)
			}
		}
	}
}

func TestZeroQuotaRefusesEverything(t *testing.T) {
	var q Quota
	q.Release(1)
	if err := q.Acquire(t.Context(), 1); err != ErrQuotaExceeded || q.Tokens() != 0 {
		t.Errorf("%v, %d tokens", err, q.Tokens())
	}
}

// Everybody puts back what they drew, so the bucket is full in the end, and never was below nothing or above full.
func TestQuotaConcurrently(t *testing.T) {
	for _, c := range []QuotaConfig{
		{Capacity: 100},
		{Capacity: 100, RefillPerSecond: 1e-9},
		{Capacity: 100, RefillPerSecond: 1e-9, Wait: true},
	} {
		t.Run(fmt.Sprintf("refill=%v,wait=%v", c.RefillPerSecond, c.Wait), func(t *testing.T) {
			q := NewQuota(c)
			var held, drawn, refused atomic.Int64
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for j := range 200 {
						n := 1 + (i+j)%13
						ctx, cancel := t.Context(), func() {}
						if c.Wait && j%5 == 0 {
							ctx, cancel = cancelAfter(ctx, 20*time.Microsecond, context.DeadlineExceeded)
						}
						switch err := q.Acquire(ctx, n); {
						case err == nil:
							if now := held.Add(int64(n)); now > 100 {
								t.Errorf("%d of 100 tokens are drawn", now)
							}
							drawn.Add(1)
							if left := q.Tokens(); left < 0 || left > 100 {
								t.Errorf("%d tokens left", left)
							}
							held.Add(int64(-n))
							q.Release(n)
						case c.Wait && !errors.Is(err, context.DeadlineExceeded), !c.Wait && err != ErrQuotaExceeded:
							t.Error(err)
						default:
							refused.Add(1)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			if got := q.Tokens(); got != 100 {
				t.Errorf("%d tokens in the end, want 100", got)
			}
			if drawn.Load()+refused.Load() != 64*200 {
				t.Errorf("%d drawn, %d refused", drawn.Load(), refused.Load())
			}
		})
	}
}

// The bucket without a clock takes no lock, so draws and returns must not lose each other's changes. It is never near full here,
// where what was lost would be made up for.
func TestQuotaLosesNothing(t *testing.T) {
	const callers, rounds = 64, 20_000
	q := NewQuota(QuotaConfig{Capacity: 10 * callers * rounds})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if err := q.Acquire(t.Context(), 7); err != nil {
					t.Error(err)
					return
				}
				q.Release(2)
			}
		})
	}
	wg.Wait()
	if got := q.Tokens(); got != 5*callers*rounds {
		t.Errorf("%d tokens in the end, want %d", got, 5*callers*rounds)
	}
}

func TestQuotaAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range []QuotaConfig{{}, {RefillPerSecond: 1}, {RefillPerSecond: 1, Wait: true}, {Capacity: -1}} {
		q := NewQuota(c)
		allocs := testing.AllocsPerRun(1000, func() {
			_ = q.Acquire(ctx, 5)
			q.Release(5)
			q.Release(1)
			q.Tokens()
		})
		if allocs != 0 {
			t.Errorf("%+v: %v allocations", c, allocs)
		}
	}
	empty := NewQuota(QuotaConfig{Capacity: 1})
	if allocs := testing.AllocsPerRun(1000, func() { _ = empty.Acquire(ctx, 5) }); allocs != 0 {
		t.Errorf("refused: %v allocations", allocs)
	}
}
