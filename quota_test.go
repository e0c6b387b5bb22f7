package awsretry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/tokens"
)

// A vectorInt may be "min" or "max" in the vectors: the limits of int, which are
// not those of every platform.
type vectorInt int

func (n *vectorInt) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"min"`:
		*n = math.MinInt
	case `"max"`:
		*n = math.MaxInt
	default:
		return json.Unmarshal(data, (*int)(n))
	}
	return nil
}

func TestQuotaVectors(t *testing.T) {
	var vectors []struct {
		Name     string
		Capacity int
		Steps    []struct {
			Acquire, Release *vectorInt
			Refused          bool
			Tokens           vectorInt
		}
	}
	readVectors(t, "quota.json", &vectors)
	for _, refill := range []float64{0, 1} { // no time passes, so a refill changes nothing
		for _, vector := range vectors {
			synctest.Test(t, func(t *testing.T) {
				q := NewQuota(QuotaConfig{Capacity: vector.Capacity, RefillPerSecond: refill})
				for i, step := range vector.Steps {
					var got, want error
					if step.Acquire != nil {
						got = q.Acquire(t.Context(), int(*step.Acquire))
					}
					if step.Refused {
						want = ErrQuotaExceeded
					}
					if step.Release != nil {
						q.Release(int(*step.Release))
					}
					if got != want || q.Tokens() != int(step.Tokens) {
						t.Errorf("%s, refill %v, step %d: %v, %d tokens; want %v, %d",
							vector.Name, refill, i, got, q.Tokens(), want, step.Tokens)
					}
				}
			})
		}
	}
}

// Tokens come back one by one, up to the capacity, and not before they are whole.
func TestQuotaRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQuota(QuotaConfig{Capacity: 10, RefillPerSecond: 0.1})
		wantError(t, q.Acquire(t.Context(), 10), "")
		for second := range 120 {
			if got, want := q.Tokens(), min(second/10, 10); got != want {
				t.Errorf("after %d s: %d tokens, want %d", second, got, want)
			}
			if err := q.Acquire(t.Context(), q.Tokens()+1); err != ErrQuotaExceeded {
				t.Errorf("after %d s: %v", second, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// Acquire of more than the bucket holds does not wait, and one whose context has
// ended draws nothing.
func TestQuotaRefuses(t *testing.T) {
	cause := errors.New("the caller left")
	for _, c := range []QuotaConfig{{}, {RefillPerSecond: 1}, {RefillPerSecond: 1, Wait: true}} {
		synctest.Test(t, func(t *testing.T) {
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			c.Capacity = 5
			q, start := NewQuota(c), time.Now()
			for _, tt := range []struct {
				ctx  context.Context
				n    int
				want error
			}{
				{t.Context(), 6, ErrQuotaExceeded}, {ended, 6, cause}, {ended, 1, cause}, {ended, 0, nil}, {ended, -1, nil},
			} {
				if err := q.Acquire(tt.ctx, tt.n); err != tt.want || q.Tokens() != 5 || time.Since(start) != 0 {
					t.Errorf("%+v: Acquire(%d) returned %v after %v, want %v; %d tokens are left",
						c, tt.n, err, time.Since(start), tt.want, q.Tokens())
				}
			}
		})
	}
}

func TestQuotaOfTheGreatestCapacity(t *testing.T) {
	for _, c := range []QuotaConfig{
		{}, {RefillPerSecond: math.MaxFloat64}, {RefillPerSecond: tokens.MinRate, Wait: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.Capacity = math.MaxInt
			q := NewQuota(c)
			err := q.Acquire(t.Context(), math.MaxInt)
			empty := q.Tokens()
			q.Release(math.MaxInt)
			q.Release(math.MaxInt)
			if err != nil || empty != 0 || q.Tokens() != math.MaxInt {
				t.Errorf("%+v: %v; %d tokens are left of all, and then %d", c, err, empty, q.Tokens())
			}
		})
	}
}

func TestQuotaConfigValidate(t *testing.T) {
	const aRefill = "; it must be a finite number of tokens, 0 or more"
	const aShare = "; it must be from 0 to 1, where 0 means a capacity that does not change"
	const tooSlow = "Quota.Wait is true and Quota.RefillPerSecond is %v; " +
		"it must be at least 2.2e-10, a token in 146 years, for a wait to end"
	for _, test := range []struct {
		config QuotaConfig
		want   string // the error; "" for none
	}{
		{QuotaConfig{InitialCost: 500}, ""},
		{QuotaConfig{Capacity: -1, InitialCost: 501, RefillPerSecond: 1e-300}, ""},
		{QuotaConfig{Capacity: 1, RetryCost: 5, TimeoutCost: -1, ThrottlingCost: 7, SuccessIncrement: -9}, ""},
		{QuotaConfig{RefillPerSecond: tokens.MinRate, Wait: true}, ""},
		{QuotaConfig{Share: 1}, ""},
		{QuotaConfig{RefillPerSecond: -1}, "Quota.RefillPerSecond is -1" + aRefill},
		{QuotaConfig{RefillPerSecond: math.NaN()}, "Quota.RefillPerSecond is NaN" + aRefill},
		{QuotaConfig{RefillPerSecond: math.Inf(1)}, "Quota.RefillPerSecond is +Inf" + aRefill},
		{QuotaConfig{Wait: true}, fmt.Sprintf(tooSlow, 0)},
		{QuotaConfig{RefillPerSecond: 1e-300, Wait: true}, fmt.Sprintf(tooSlow, 1e-300)},
		{QuotaConfig{Share: -.1}, "Quota.Share is -0.1" + aShare},
		{QuotaConfig{Share: 1.1}, "Quota.Share is 1.1" + aShare},
		{QuotaConfig{Share: .2, RefillPerSecond: 3}, "Quota.Share is 0.2, Quota.Capacity 0, Quota.InitialCost 0 and " +
			"Quota.RefillPerSecond 3; with a Share, Capacity must not be negative and the others must be 0"},
		{QuotaConfig{InitialCost: -1}, "Quota.InitialCost is -1; it must be 0 or more"},
		{QuotaConfig{InitialCost: 501}, "Quota.InitialCost is 501; it must be at most Quota.Capacity, 500"},
		{QuotaConfig{Capacity: 4, InitialCost: 5}, "Quota.InitialCost is 5; it must be at most Quota.Capacity, 4"},
	} {
		t.Run(fmt.Sprintf("%+v", test.config), func(t *testing.T) {
			wantError(t, test.config.validate(), test.want)
			if test.want == "" {
				return
			}
			q := NewQuota(test.config)
			wantError(t, q.Acquire(t.Context(), 0), "awsretry: "+test.want)
			if q.Release(1); q.Tokens() != 0 {
				t.Errorf("%d tokens", q.Tokens())
			}
		})
	}
}

func TestZeroQuotaRefusesEverything(t *testing.T) {
	var q Quota
	q.Release(1)
	if err := q.Acquire(t.Context(), 1); err != ErrQuotaExceeded || q.Tokens() != 0 {
		t.Errorf("%v, %d tokens", err, q.Tokens())
	}
}

// Everybody returns what they drew, so that in the end the bucket has as many
// tokens as before. It is never full, which would hide a loss. A bucket with a
// refill is guarded by internal/tokens.
func TestQuotaConcurrently(t *testing.T) {
	const callers, rounds, capacity, drawn = 64, 20_000, 1000, 900
	q := NewQuota(QuotaConfig{Capacity: capacity})
	wantError(t, q.Acquire(t.Context(), drawn), "")
	var inUse atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range rounds {
				n := 1 + (i+j)%13
				if err := q.Acquire(t.Context(), n); err != nil {
					continue
				}
				now, left := inUse.Add(int64(n)), q.Tokens()
				if now > capacity-drawn || left < 0 || left > capacity-drawn {
					t.Errorf("%d tokens are drawn, and %d left, of %d", now, left, capacity-drawn)
				}
				inUse.Add(int64(-n))
				q.Release(n)
			}
		})
	}
	wg.Wait()
	if got := q.Tokens(); got != capacity-drawn {
		t.Errorf("%d tokens in the end, want %d", got, capacity-drawn)
	}
}
