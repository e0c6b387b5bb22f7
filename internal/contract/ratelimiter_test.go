package contract_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

type rateLimit = awsretry.RateLimitConfig

// throttledLimiter returns a limiter that gives a token every two seconds, the
// first in two seconds.
func throttledLimiter(c rateLimit) *awsretry.RateLimiter {
	l := awsretry.NewRateLimiter(c)
	l.Update(true)
	return l
}

// A wait for a send token that would be too long is refused at once. It
// includes those in line.
func TestRateLimiterWait(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name              string
		inLine            int           // each for a token every 2 s
		maxWait, deadline time.Duration // 0: none
		want              time.Duration
		refusal           string // "": none
	}{
		{"no limit", 3, 0, 0, 8 * s, ""},
		{"MaxWait to the instant", 0, 2 * s, 0, 2 * s, ""},
		{"MaxWait after others", 2, 5 * s, 0, 0, "expected wait of 6s is longer than MaxWait, 5s"},
		{"at the deadline", 0, 0, 2 * s, 0, "expected wait of 2s would not end before the context's deadline"},
		{"before the deadline", 0, 0, 2*s + 1, 2 * s, ""},
		{"both", 1, 3 * s, 2 * s, 0, "longer than MaxWait, 3s"},
		{"both, the deadline first", 1, 5 * s, 2 * s, 0, "before the context's deadline"},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			l := throttledLimiter(rateLimit{MaxWait: tt.maxWait})
			start := time.Now()
			var line sync.WaitGroup
			for i := range tt.inLine {
				line.Go(func() {
					err := l.Wait(t.Context())
					if took := time.Since(start); err != nil || took != time.Duration(i+1)*2*s {
						t.Errorf("place %d: %v after %v", i+1, err, took)
					}
				})
				synctest.Wait()
			}
			ctx := within(t, tt.deadline)
			err := l.Wait(ctx)
			if took := time.Since(start); took != tt.want {
				t.Errorf("took %v, want %v", took, tt.want)
			}
			if tt.refusal == "" && err != nil {
				t.Error(err)
			}
			if tt.refusal != "" &&
				(!errors.Is(err, awsretry.ErrRateLimited) || !strings.Contains(err.Error(), tt.refusal)) {
				t.Errorf("%v, want ErrRateLimited because of %q", err, tt.refusal)
			}
			line.Wait()
		})
	}
}

// A lateContext has not ended, although its deadline is over: its timer is
// late.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Time{}, true }

// An endingContext ends while its deadline, which is over, is asked for.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Deadline() (time.Time, bool) { c.end(); return time.Time{}, true }

// A token that is there is given however late it is, unless the caller has gone.
func TestRateLimiterAfterTheDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		token    bool
		canceled func(ctx context.Context, cancel func()) context.Context // nil: it is not
		want     error
	}{
		"without a token": {false, nil, awsretry.ErrRateLimited},
		"with a token":    {true, nil, nil},
		"canceled": {true, func(ctx context.Context, cancel func()) context.Context {
			cancel()
			return lateContext{ctx}
		}, errGone},
		"canceled meanwhile": {false, func(ctx context.Context, cancel func()) context.Context {
			return endingContext{ctx, cancel}
		}, errGone},
	} {
		inBubble(t, name, func(t *testing.T) {
			l := throttledLimiter(rateLimit{})
			if tt.token {
				time.Sleep(2 * time.Second)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var late context.Context = lateContext{ctx}
			if tt.canceled != nil {
				late = tt.canceled(ctx, func() { cancel(errGone) })
			}
			if err := l.Wait(late); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// State reads the length of the line and its wait from sums: it costs no
// allocation, and counts callers who left.
func TestStateOfALongLine(t *testing.T) {
	const length = 500
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Mode: awsretry.Adaptive, MaxAttempts: 1, Base: httpfake.Statuses(429, 200)}
		if state, ok := tr.State("service.example"); ok || state.ExpectedWait != 0 {
			t.Errorf("before the first request: %+v, %v", state, ok)
		}
		wantLine := func(when string, waiting int) {
			t.Helper()
			synctest.Wait()
			state, _ := tr.State("service.example")
			if want := time.Duration(waiting+1) * 2 * time.Second; state.Waiting != waiting || state.ExpectedWait != want {
				t.Errorf("%s %d are in line, and another would wait %v", when, state.Waiting, state.ExpectedWait)
			}
		}
		sendGet(t, tr).response(t)
		wantLine("at first", 0)
		canceled, cancel := context.WithCancel(t.Context())
		for range length {
			go sendGet(t, tr)
			go send(tr, httpfake.Request(t, canceled, "GET", nil))
		}
		wantLine("then", 2*length)
		if allocs := testing.AllocsPerRun(100, func() { tr.State("service.example") }); allocs != 0 {
			t.Errorf("%v allocations", allocs)
		}
		cancel()
		wantLine("after half of them left", length)
		time.Sleep(time.Hour)
	})
}
