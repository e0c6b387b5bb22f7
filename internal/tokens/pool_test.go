package tokens

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/waittest"
)

// lent returns a pool of ten tokens, of which all are lent in two loans of five.
func lent(t *testing.T, perSecond float64) *Pool {
	t.Helper()
	p := NewPool(10, perSecond, nil)
	for range 2 {
		if !p.Take(5) {
			t.Fatal("a new pool is not full")
		}
		p.BeginLoan()
	}
	return p
}

// Callers get the tokens of ended loans in order, each at once. A loan that ends
// without its tokens is not waited for.
func TestPoolLine(t *testing.T) {
	gone := errors.New("the caller left")
	for _, tt := range []struct {
		name      string
		perSecond float64
		do        func(p *Pool)
		want      []waittest.End
	}{
		{"all come back", 0, func(p *Pool) {
			time.Sleep(time.Second)
			p.EndLoan(5, true)
			time.Sleep(time.Second)
			p.EndLoan(5, true)
			time.Sleep(time.Second)
			p.EndLoan(5, true) // of the first in line
		}, ends{end(0, time.Second, nil), end(1, 2*time.Second, nil), end(2, 3*time.Second, nil), end(3, 10*time.Second, gone)}},
		{"none come back", 0, func(p *Pool) {
			time.Sleep(time.Second)
			p.EndLoan(5, false)
			p.EndLoan(5, false)
		}, ends{end(0, time.Second, ErrQuotaExceeded), end(1, time.Second, ErrQuotaExceeded), end(2, time.Second, ErrQuotaExceeded), end(3, 10*time.Second, gone)}},
		{"with time", 1, func(p *Pool) {
			p.EndLoan(5, false)
			p.EndLoan(5, false)
		}, ends{end(0, 5*time.Second, nil), end(1, 10*time.Second, nil), end(3, 10*time.Second, gone), end(2, 15*time.Second, nil)}},
		{"too long", 0, func(*Pool) { time.Sleep(2 * time.Minute) },
			ends{end(3, 10*time.Second, gone), end(0, time.Minute, ErrQuotaExceeded), end(1, time.Minute, ErrQuotaExceeded), end(2, time.Minute, ErrQuotaExceeded)}},
		{"too slow", .01, func(p *Pool) {
			p.EndLoan(5, false)
			p.EndLoan(5, false)
		}, ends{end(0, 0, ErrQuotaExceeded), end(1, 0, ErrQuotaExceeded), end(2, 0, ErrQuotaExceeded), end(3, 10*time.Second, gone)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, q := lent(t, tt.perSecond), waittest.NewQueue()
				ctx, end := waittest.CancelAfter(t.Context(), 10*time.Second, gone)
				defer end()
				q.Join(0, func() error { return p.AwaitLoan(t.Context(), 5) })
				q.Join(1, func() error { return p.AwaitLoan(t.Context(), 5) })
				q.Join(2, func() error { return p.AwaitLoan(t.Context(), 5) })
				q.Join(3, func() error { return p.Await(ctx, 5) })
				tt.do(p)
				wantEnds(t, q, tt.want...)
				if p.waiting.Load() != 0 || len(p.line) != 0 {
					t.Errorf("%d are in line", len(p.line))
				}
			})
		})
	}
}

// A caller that is granted tokens and leaves at the same instant ends the loan, so
// that the next in line gets them.
func TestPoolLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := lent(t, 0)
		w := p.join(5)
		p.EndLoan(5, true)
		p.leave(w)
		if got, loans := p.Tokens(), p.lent.Load(); got != 5 || loans != 1 {
			t.Errorf("%d tokens and %d loans, want 5 and 1", got, loans)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Await(ctx, 6); err != context.Canceled || p.Tokens() != 5 {
			t.Errorf("%v, %d tokens", err, p.Tokens())
		}
	})
}
