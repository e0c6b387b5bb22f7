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

	// Part means that the Quota is one process's part of a bucket, for whose tokens
	// Await waits. With a Share it counts the calls, and begins with the tokens of one
	// call.
	Part bool
}

// A Quota is a retry token bucket of whole tokens. Unless callers may wait for them,
// it has neither a lock nor a clock. The zero Quota has no tokens. A Quota is safe
// for concurrent use.
type Quota struct {
	config    QuotaConfig
	unlimited bool
	calls     *counter      // of the last minute; nil without Share
	seen      *atomic.Int64 // calls since TakeSeen; nil except for a Part with a Share
	tokens    atomic.Int64  // those above Size do not count; unused if bucket is set
	bucket    *Bucket       // nil if tokens are not refilled over time, and nobody waits for any
}

// NewQuota returns a full bucket. c must be valid.
func NewQuota(c QuotaConfig) *Quota {
	q := new(Quota)
	q.Fill(c)
	return q
}

// Fill makes the zero Quota a full bucket. c must be valid.
func (q *Quota) Fill(c QuotaConfig) {
	q.config, q.unlimited = c, c.Capacity < 0
	switch {
	case q.unlimited:
		q.config.Capacity = math.MaxInt
	case c.PerSecond > 0 || c.Part:
		q.bucket = New(time.Now(), c.PerSecond, float64(c.Capacity))
	}
	switch {
	case c.Share > 0 && !c.Part:
		q.calls = newCounter()
	case c.Share > 0:
		q.seen = new(atomic.Int64)
		q.TakeUpTo(c.Capacity - c.PerCall)
	}
	q.tokens.Store(int64(q.Size()))
}

// Size returns the present capacity, or [math.MaxInt] if there is no quota.
func (q *Quota) Size() int {
	if q.calls == nil {
		return q.config.Capacity
	}
	return q.sizeForCalls()
}

func (q *Quota) sizeForCalls() int { // apart, so that Size is inlined
	calls := max(q.config.Share*float64(q.calls.count()), 1)
	return int(min(calls*float64(q.config.PerCall), float64(q.config.Capacity)))
}

// Tokens returns how many whole tokens can be drawn now, or [math.MaxInt] if
// there is no quota.
func (q *Quota) Tokens() int {
	if q.bucket == nil {
		return min(int(q.tokens.Load()), q.Size())
	}
	tokens := q.bucket.Tokens()
	if tokens >= float64(q.config.Capacity) {
		return q.config.Capacity // a capacity near the greatest int has no exact float
	}
	return int(tokens)
}

// Full reports whether the bucket is full.
func (q *Quota) Full() bool { return q.Tokens() >= q.Size() }

// SawCall counts a call for Share.
func (q *Quota) SawCall() {
	switch {
	case q.calls != nil:
		q.calls.add()
	case q.seen != nil:
		q.seen.Add(1)
	}
}

// TakeSeen returns how many calls a Part with a Share has seen since the last
// TakeSeen. ok is false if q is not one.
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
	case q.config.Wait && n <= q.config.Capacity:
		return q.wait(ctx, n)
	case !q.Take(n):
		return ErrQuotaExceeded
	}
	return nil
}

// wait draws n tokens, and waits in line for them.
func (q *Quota) wait(ctx context.Context, n int) error {
	err := q.bucket.Wait(ctx, float64(n))
	var tooLong *TooLongError
	if errors.As(err, &tooLong) {
		return fmt.Errorf("%w: the expected wait of %v would not end before the context's deadline",
			ErrQuotaExceeded, tooLong.Expected)
	}
	return err
}

// Await is Acquire for a Part, and waits in line for up to d for tokens that are put
// back.
func (q *Quota) Await(ctx context.Context, n int, d time.Duration) error {
	within, end := context.WithTimeoutCause(ctx, d, ErrQuotaExceeded)
	defer end()
	return q.bucket.Wait(timeless{within}, float64(n))
}

// A timeless context does not tell its deadline, by which no wait without a rate is
// expected to end.
type timeless struct{ context.Context }

func (timeless) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// Waits reports whether Acquire may wait.
func (q *Quota) Waits() bool { return q.config.Wait }

// Soonest returns how long Acquire would wait for n tokens. For more than there can
// be, it does not wait.
func (q *Quota) Soonest(n int) time.Duration {
	if !q.Waits() || q.bucket == nil || n <= 0 || n > q.config.Capacity {
		return 0
	}
	_, expected := q.bucket.Line(float64(n))
	return expected
}

// Take draws n tokens if there are enough and nobody waits, and reports whether
// it did.
func (q *Quota) Take(n int) bool {
	switch {
	case q.unlimited || n <= 0:
		return true
	case n > q.config.Capacity:
		return false
	case q.bucket != nil:
		return q.bucket.Take(float64(n))
	}
	size := int64(q.Size())
	for {
		tokens := q.tokens.Load()
		left := min(tokens, size) - int64(n)
		if left < 0 {
			return false
		}
		if q.tokens.CompareAndSwap(tokens, left) {
			return true
		}
	}
}

// TakeUpTo draws n tokens, or as many as there are, and returns how many. It draws
// those too for which callers wait.
func (q *Quota) TakeUpTo(n int) int {
	switch {
	case q.unlimited:
		return 0
	case q.bucket != nil:
		return q.bucket.takeUpTo(n)
	}
	for n = min(n, q.Tokens()); n > 0; n = min(n, q.Tokens()) {
		if q.Take(n) {
			return n
		}
	}
	return 0
}

// Release puts n tokens back, and counts a call.
func (q *Quota) Release(n int) {
	q.SawCall()
	q.PutBack(n)
}

// PutBack puts n tokens back, up to the capacity. An n of 0 or less changes
// nothing.
func (q *Quota) PutBack(n int) {
	if q.bucket != nil {
		if n > 0 {
			q.bucket.Put(float64(n))
		}
		return
	}
	size := int64(q.Size())
	for {
		tokens := q.tokens.Load()
		room := size - tokens
		if room <= 0 || n <= 0 { // full, as after most successes of a healthy service
			return
		}
		if q.tokens.CompareAndSwap(tokens, tokens+min(int64(n), room)) {
			return
		}
	}
}
