package tokens

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// ErrQuotaExceeded is returned when there are too few tokens for a retry. It is the
// ErrQuotaExceeded of package awsretry.
var ErrQuotaExceeded = errors.New("awsretry: retry capacity exceeded")

// A QuotaConfig configures a Quota, as an awsretry.QuotaConfig with its defaults.
type QuotaConfig struct {
	Capacity  int     // at most; negative means that there is no quota
	PerSecond float64 // tokens that are refilled per second
	Wait      bool    // Acquire waits in line

	// Share sets the capacity to the cost of the retries of this share of the last
	// minute's calls, which is up to PerCall tokens a call. 0 means Capacity.
	Share   float64
	PerCall int

	// Part means that the Quota is one process's part of a bucket with a Share. It
	// counts the calls, and begins with the tokens of one call.
	Part bool
}

// A Quota is a retry token bucket. The zero Quota has no tokens. A Quota is safe
// for concurrent use.
type Quota struct {
	config    QuotaConfig
	unlimited bool
	calls     *counter      // of the last minute; nil without Share
	seen      *atomic.Int64 // calls since TakeSeen; nil except for a Part
	pool      *Pool         // nil in the zero Quota
}

// NewQuota returns a full bucket. c must be valid.
func NewQuota(c QuotaConfig) *Quota {
	q := &Quota{config: c}
	if c.Capacity < 0 {
		q.unlimited, q.config.Capacity, c.PerSecond = true, math.MaxInt, 0
	}
	var size func() int
	if c.Share > 0 && !c.Part {
		q.calls, size = newCounter(), q.sizeForCalls
	}
	q.pool = NewPool(q.config.Capacity, c.PerSecond, size)
	if c.Part {
		q.seen = new(atomic.Int64)
		q.TakeUpTo(q.Tokens() - c.PerCall)
	}
	return q
}

// sizeForCalls returns the capacity with Share.
func (q *Quota) sizeForCalls() int {
	calls := max(q.config.Share*float64(q.calls.count()), 1)
	return int(min(calls*float64(q.config.PerCall), float64(q.config.Capacity)))
}

// SawCall counts a call for Share.
func (q *Quota) SawCall() {
	switch {
	case q.calls != nil:
		q.calls.add()
	case q.seen != nil:
		q.seen.Add(1)
	}
}

// TakeSeen returns how many calls a Part has seen since the last TakeSeen. ok is
// false if q is not a Part.
func (q *Quota) TakeSeen() (n int64, ok bool) {
	if q.seen == nil {
		return 0, false
	}
	return q.seen.Swap(0), true
}

// Acquire implements awsretry.Quota's Acquire.
func (q *Quota) Acquire(ctx context.Context, n int) error {
	switch {
	case q.unlimited || n <= 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case n > q.config.Capacity:
		return ErrQuotaExceeded
	case q.config.Wait:
		return q.acquireInLine(ctx, n)
	case !q.pool.Take(n):
		return ErrQuotaExceeded
	}
	return nil
}

// acquireInLine draws n tokens, and waits in line for them.
func (q *Quota) acquireInLine(ctx context.Context, n int) error {
	err := q.pool.Wait(ctx, n)
	var tooLong *TooLongError
	if errors.As(err, &tooLong) {
		return fmt.Errorf("%w: the expected wait of %v would not end before the context's deadline",
			ErrQuotaExceeded, tooLong.Expected)
	}
	return err
}

// Soonest returns how long Acquire would wait for n tokens.
func (q *Quota) Soonest(n int) time.Duration { return q.pool.Soonest(n) }

// Release puts n tokens back, and counts a call.
func (q *Quota) Release(n int) {
	q.SawCall()
	q.PutBack(n)
}

// PutBack puts n tokens back.
func (q *Quota) PutBack(n int) {
	if q.pool != nil {
		q.pool.Put(n)
	}
}

// TakeUpTo draws n tokens, or as many as there are, and returns how many.
func (q *Quota) TakeUpTo(n int) int {
	if q.unlimited || q.pool == nil {
		return 0
	}
	return q.pool.TakeUpTo(n)
}

// Tokens returns how many whole tokens can be drawn now, or [math.MaxInt] if
// there is no quota.
func (q *Quota) Tokens() int {
	if q.pool == nil {
		return 0
	}
	return q.pool.Tokens()
}

// Size returns the present capacity, or [math.MaxInt] if there is no quota.
func (q *Quota) Size() int { return q.pool.Size() }

// Full reports whether the bucket is full.
func (q *Quota) Full() bool { return q.Tokens() >= q.Size() }

// Lend draws n tokens for a retry. Until EndLoan, AwaitLoan expects that they may
// be put back.
func (q *Quota) Lend(ctx context.Context, n int) error {
	err := q.Acquire(ctx, n)
	if err == nil && n > 0 {
		q.pool.BeginLoan()
	}
	return err
}

// EndLoan ends a loan of n tokens. It puts them back if back is true.
func (q *Quota) EndLoan(n int, back bool) {
	if n > 0 {
		q.pool.EndLoan(n, back)
	}
}

// AwaitLoan is Lend, but waits in line for tokens that are refilled over time or
// put back by retries in progress.
func (q *Quota) AwaitLoan(ctx context.Context, n int) error { return q.pool.AwaitLoan(ctx, n) }

// AwaitGrant is Lend, but waits in line until ctx ends.
func (q *Quota) AwaitGrant(ctx context.Context, n int) error { return q.pool.Await(ctx, n) }
