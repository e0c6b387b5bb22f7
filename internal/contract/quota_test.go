package contract_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

type quota = awsretry.QuotaConfig

// The cost of a retry by the AWS SDK for Kotlin, "Retries", and by the AWS SDKs
// and Tools Reference Guide of 2026.
func TestCostOfARetry(t *testing.T) {
	for _, tt := range []struct {
		name          string
		outcome       outcome
		classic, next int
	}{
		{"a transient status", busy, 5, 14},
		{"a broken connection", fails(errReset), 5, 14},
		{"a time-out", timeout, 10, 14},
		{"throttling", throttled, 10, 5},
	} {
		for i, want := range []int{tt.classic, tt.classic, tt.next} {
			revision := awsretry.Revision(i)
			t.Run(fmt.Sprint(tt.name, ", revision ", revision), func(t *testing.T) {
				tr := retrying(inTurn(tt.outcome, invalid))
				tr.Revision = revision
				sendGet(t, tr).response(t)
				wantTokens(t, tr, 500-want)
			})
		}
	}
}

var timeout = fails(os.ErrDeadlineExceeded)

// What retries and successes cost and give back, with delays of 1 s and 2 s.
func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		name     string
		config   quota
		outcomes []outcome
		want     int // tokens afterwards
	}{
		{"retry cost", quota{RetryCost: 7}, []outcome{busy, busy, invalid}, 486},
		{"time-out cost", quota{TimeoutCost: 7}, []outcome{timeout, timeout, invalid}, 486},
		{"throttling cost", quota{ThrottlingCost: 5}, []outcome{throttled, throttled, invalid}, 490},
		{"retries are free", quota{Capacity: 1, RetryCost: -1}, []outcome{busy, busy, busy}, 1},
		{"a retry that succeeds", quota{}, []outcome{busy, busy, ok}, 495},
		{"initial cost", quota{Capacity: 10, InitialCost: 3}, []outcome{ok}, 8},
		{"initial cost and retry", quota{Capacity: 10, InitialCost: 3}, []outcome{busy, ok}, 7},
		{"success increment", quota{Capacity: 10, InitialCost: 3, SuccessIncrement: 2}, []outcome{ok}, 9},
		{"no success increment", quota{Capacity: 10, InitialCost: 3, SuccessIncrement: -1}, []outcome{ok}, 7},
		{"refill with time", quota{Capacity: 20, RefillPerSecond: 1}, []outcome{busy, busy, invalid}, 13},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := &transport{Quota: tt.config, Backoff: noJitter, Base: inTurn(tt.outcomes...)}
			get(t, tr)
			wantTokens(t, tr, tt.want)
		})
	}
}

// Every success at the first attempt gives back a token.
func TestFirstSuccessesRefillTheBucket(t *testing.T) {
	for way, with := range ways {
		t.Run(way, func(t *testing.T) {
			ctx, cancel := with(t.Context())
			defer cancel()
			tr := retrying(httpfake.Statuses(500, 500, 500, 200, 404, 200, 200))
			for _, want := range []int{490, 491, 491, 492, 493} {
				send(tr, httpfake.Request(t, ctx, "GET", nil)).response(t)
				wantTokens(t, tr, want)
			}
		})
	}
}

func TestNoQuota(t *testing.T) {
	tr := retrying(httpfake.Statuses(500))
	tr.MaxAttempts, tr.Quota.Capacity = 200, -1
	resp := sendGet(t, tr).response(t)
	if last, _ := awsretry.Outcome(resp); last.Number != 200 {
		t.Errorf("%d attempts, want 200", last.Number)
	}
}

// A first attempt without the tokens for its InitialCost is not sent.
func TestInitialCostRefusesTheFirstAttempt(t *testing.T) {
	tr := &transport{Quota: quota{Capacity: 5, InitialCost: 3}, Base: httpfake.Statuses(404)}
	sendGet(t, tr).response(t)
	wantNotSent(t, sendGet(t, tr).err, awsretry.StopQuota, awsretry.ErrQuotaExceeded)
}

// With Quota.Wait, a retry waits for its tokens, if the bucket can ever hold as
// many.
func TestQuotaWait(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  outcome
		status int
		stop   awsretry.Stop
		want   time.Duration
	}{
		{"waits for the second retry", busy, 200, awsretry.StopSuccess, 2 * time.Second},
		{"more than fits", throttled, 429, awsretry.StopQuota, 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			tr := retrying(inTurn(tt.first, busy, ok))
			tr.Quota = quota{Capacity: 9, RefillPerSecond: 0.5, Wait: true}
			sendGet(t, tr).want(t, tt.status, tt.stop, tt.want)
		})
	}
}

// A retry that costs more than there can be is refused by the bucket, not by the
// deadline.
func TestQuotaWaitTooDear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(always(busy))
		tr.Quota = quota{Capacity: 4, RefillPerSecond: 1, Wait: true}
		ctx, end := context.WithTimeout(t.Context(), time.Second/2)
		defer end()
		send(tr, httpfake.Request(t, ctx, "GET", nil)).want(t, 503, awsretry.StopQuota, 0)
	})
}

// With a Share the capacity follows the calls of the last minute.
func TestShare(t *testing.T) {
	for _, tt := range []struct {
		name      string
		tr        *transport
		perSecond int
		first     int // capacity before the first call has ended
		busy      int // capacity after two minutes
	}{
		{"a busy process", &transport{Quota: quota{Share: .2}}, 1000, 20, 500},
		{"a call each second", &transport{Quota: quota{Share: .2}}, 1, 20, 240},
		{"2026", &transport{Quota: quota{Share: .1}, Revision: awsretry.Revision2026}, 1, 28, 168},
		{"five attempts", &transport{Quota: quota{Share: .05}, MaxAttempts: 5}, 1, 40, 120},
		{"costs", &transport{Quota: quota{Share: .1, RetryCost: 1, TimeoutCost: 2, ThrottlingCost: -1}}, 1, 4, 24},
		{"a small bucket", &transport{Quota: quota{Share: .2, Capacity: 30}}, 10, 20, 30},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			outcome, attempts := ok, 0
			tt.tr.Backoff = delayed(0)
			tt.tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				attempts++
				return outcome(req, http.NoBody)
			})
			capacity := func() int {
				state, _ := tt.tr.State("service.example")
				if state.Tokens > state.Capacity {
					t.Errorf("%d tokens, more than %d", state.Tokens, state.Capacity)
				}
				return state.Capacity
			}
			get(t, tt.tr)
			if got := capacity(); got != tt.first {
				t.Errorf("the capacity is %d after a call, want %d", got, tt.first)
			}
			for range 120 * tt.perSecond {
				time.Sleep(time.Second / time.Duration(tt.perSecond))
				get(t, tt.tr)
			}
			if got := capacity(); got < tt.busy || got > tt.busy+tt.busy/10 {
				t.Errorf("the capacity is %d after two minutes, want %d", got, tt.busy)
			}
			time.Sleep(66 * time.Second)
			if got := capacity(); got != tt.first {
				t.Errorf("the capacity is %d after a minute without calls, want %d", got, tt.first)
			}
			wantTokens(t, tt.tr, tt.first)
			outcome, attempts = timeout, 0
			get(t, tt.tr) // pays for all its retries
			if most := max(tt.tr.MaxAttempts, 3); attempts != most {
				t.Errorf("%d attempts, want %d", attempts, most)
			}
			if attempts = 0; tt.tr.Quota.Capacity == 0 {
				get(t, tt.tr) // failing calls count too, but nothing has come back
				if attempts != 1 {
					t.Errorf("%d attempts of the next call", attempts)
				}
			}
		})
	}
}

// Failing calls are calls: their share has its retries.
func TestShareOfFailingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Base: always(invalid), Quota: quota{Share: .1}}
		for range 60 {
			get(t, tr)
			time.Sleep(time.Second)
		}
		if state, _ := tr.State("service.example"); state.Capacity != 120 {
			t.Errorf("the capacity is %d", state.Capacity)
		}
	})
}

// A wait for tokens that would not end before the deadline is refused at once.
// It includes those in line.
func TestQuotaAcquire(t *testing.T) {
	for _, tt := range []struct {
		name     string
		inLine   []int // for one token a second
		deadline time.Duration
		want     time.Duration // 0: refused
	}{
		{"at the deadline", nil, 5 * time.Second, 0},
		{"before the deadline", nil, 5*time.Second + 1, 5 * time.Second},
		{"after others, at the deadline", []int{2, 3}, 10 * time.Second, 0},
		{"after others, before the deadline", []int{2, 3}, 10*time.Second + 1, 10 * time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			q := awsretry.NewQuota(quota{Capacity: 5, RefillPerSecond: 1, Wait: true})
			if err := q.Acquire(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			var line sync.WaitGroup
			var mu sync.Mutex // guards served: a later Acquire may return at the same instant
			var served []int
			for i, n := range tt.inLine {
				line.Go(func() {
					if err := q.Acquire(t.Context(), n); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					served = append(served, i)
				})
				synctest.Wait()
			}
			ctx := within(t, tt.deadline)
			start := time.Now()
			err := q.Acquire(ctx, 5)
			if took := time.Since(start); took != tt.want || (err == nil) != (tt.want > 0) {
				t.Errorf("%v after %v, want it after %v", err, took, tt.want)
			}
			if err != nil &&
				(!errors.Is(err, awsretry.ErrQuotaExceeded) || !strings.Contains(err.Error(), "deadline")) {
				t.Error(err)
			}
			line.Wait()
			if !slices.IsSorted(served) || len(served) != len(tt.inLine) {
				t.Errorf("served %v", served)
			}
		})
	}
}
