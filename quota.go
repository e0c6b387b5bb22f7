package awsretry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/bucket"
)

// ErrQuotaExceeded is returned by [Quota.Acquire] when the retry token bucket
// has too few tokens.
var ErrQuotaExceeded = errors.New("awsretry: retry capacity exceeded")

// defaultQuotaCapacity is maxCapacity (AWS SDK for Kotlin, "Retries").
const defaultQuotaCapacity = 500

// A QuotaConfig configures a retry token bucket. A retry draws tokens from it,
// a success returns tokens, and a retry that the bucket cannot pay for is not
// made. The zero value is the bucket of the AWS SDKs' standard mode: 500
// tokens, which come back with successes only (AWS SDKs and Tools Reference
// Guide, "Retry behavior"; AWS SDK for Kotlin, "Retries").
//
// The costs and the increment are what a [Transport] draws and returns. A
// [Quota] used by itself ignores them: its caller chooses each amount.
type QuotaConfig struct {
	// Capacity is the number of tokens in a full bucket, which a new one is. 0
	// means 500. Negative means that there is no quota: every retry is allowed.
	// It counts tokens, not retries: if it is below the cost of a retry, which
	// is 5 to 14 tokens by default, no retry is made.
	Capacity int

	// RetryCost is the cost of a retry after a transient failure, TimeoutCost
	// after a client-side timeout, and ThrottlingCost after a throttling
	// response, in tokens. 0 means the cost of the Transport's Revision (5, 10
	// and 10 in [Classic]). Negative means free.
	RetryCost, TimeoutCost, ThrottlingCost int

	// InitialCost is the cost of a first attempt, in tokens. 0 means free. It
	// must not be negative or above Capacity.
	InitialCost int

	// SuccessIncrement is the number of tokens that the success of a first
	// attempt returns. 0 means 1. Negative means none.
	SuccessIncrement int

	// RefillPerSecond is the number of tokens that come back per second,
	// whatever happens. It may be a fraction. 0 means that tokens come back
	// with successes only. It must not be negative.
	RefillPerSecond float64

	// Wait makes Acquire block, first come first served, instead of returning
	// ErrQuotaExceeded. It needs a RefillPerSecond: without one the wait might
	// never end. A wait that is not expected to end before the context's
	// deadline is not begun.
	Wait bool
}

// validate returns an error that names the first invalid field. The caller adds
// the package's prefix.
func (c QuotaConfig) validate() error {
	switch {
	case !(c.RefillPerSecond >= 0) || math.IsInf(c.RefillPerSecond, 1):
		return fmt.Errorf("Quota.RefillPerSecond is %v; it must be a finite number of tokens, 0 or more",
			c.RefillPerSecond)
	case c.Wait && c.RefillPerSecond < bucket.MinRate:
		return fmt.Errorf("Quota.Wait is true and Quota.RefillPerSecond is %v; "+
			"it must be at least %.2g, a token in 146 years, for a wait to end", c.RefillPerSecond, bucket.MinRate)
	case c.InitialCost < 0:
		return fmt.Errorf("Quota.InitialCost is %d; it must be 0 or more", c.InitialCost)
	case c.Capacity >= 0 && c.InitialCost > c.capacity():
		return fmt.Errorf("Quota.InitialCost is %d; it must be at most Quota.Capacity, %d", c.InitialCost, c.capacity())
	}
	return nil
}

// capacity returns Capacity or its default. It is negative if there is no quota.
func (c QuotaConfig) capacity() int { return cmp.Or(c.Capacity, defaultQuotaCapacity) }

// A Quota is a retry token bucket. [NewQuota] makes one; the zero Quota has no
// tokens and refuses every retry. A [Transport] has one for each partition. It
// is safe for concurrent use.
type Quota struct {
	err       error // of an invalid configuration
	unlimited bool
	wait      bool
	capacity  int
	tokens    atomic.Int64   // from 0 to capacity; unused where refill is set
	refill    *bucket.Bucket // nil if tokens do not come back with time; then no lock and no clock is needed

	lent atomic.Int64              // retries that may return their tokens
	line atomic.Pointer[tokenLine] // of await; nil before its first use
}

// NewQuota returns a full bucket. If c is invalid, every [Quota.Acquire]
// returns an error that names the field and what is allowed.
func NewQuota(c QuotaConfig) *Quota {
	if err := c.validate(); err != nil {
		return &Quota{err: fmt.Errorf("awsretry: %w", err)}
	}
	q := &Quota{capacity: c.capacity(), wait: c.Wait}
	if q.capacity < 0 {
		q.unlimited, q.capacity = true, math.MaxInt
	}
	if c.RefillPerSecond > 0 && !q.unlimited {
		q.refill = bucket.New(time.Now(), c.RefillPerSecond, float64(q.capacity))
	}
	q.tokens.Store(int64(q.capacity))
	return q
}

// Acquire draws n tokens. If there are fewer, it returns [ErrQuotaExceeded] or,
// with QuotaConfig.Wait, waits in line for them. In either case it returns
// ErrQuotaExceeded at once if n exceeds the capacity, and an error that wraps
// ErrQuotaExceeded if the wait, with RefillPerSecond alone, is not expected to
// end before ctx's deadline. If ctx has ended, or ends during the wait, Acquire
// draws nothing and returns the context's cause. It always returns nil for an n
// of 0 or less, and if there is no quota.
func (q *Quota) Acquire(ctx context.Context, n int) error {
	switch {
	case q.err != nil:
		return q.err
	case q.unlimited || n <= 0:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case n > q.capacity:
		return ErrQuotaExceeded
	case q.refill == nil:
		return q.draw(int64(n))
	case q.wait:
		return q.drawInLine(ctx, n)
	case !q.refill.Take(float64(n)):
		return ErrQuotaExceeded
	}
	return nil
}

// draw takes n tokens of a bucket without a refill.
func (q *Quota) draw(n int64) error {
	for {
		tokens := q.tokens.Load()
		if tokens < n {
			return ErrQuotaExceeded
		}
		if q.tokens.CompareAndSwap(tokens, tokens-n) {
			return nil
		}
	}
}

// drawInLine takes n tokens of a bucket with a refill, and waits in line for
// them.
func (q *Quota) drawInLine(ctx context.Context, n int) error {
	err := q.refill.Wait(ctx, float64(n))
	if err == nil {
		return nil
	}
	var tooLong *bucket.TooLongError
	if errors.As(err, &tooLong) {
		return fmt.Errorf("%w: the expected wait of %v would not end before the context's deadline",
			ErrQuotaExceeded, tooLong.Expected)
	}
	return err
}

// Release returns n tokens; those above the capacity are dropped. An n of 0 or
// less changes nothing.
func (q *Quota) Release(n int) {
	switch {
	case q.refill == nil:
		q.putBack(int64(n))
	case n > 0:
		q.refill.Put(float64(n))
		q.wake()
	}
}

// putBack returns n tokens to a bucket without a refill.
func (q *Quota) putBack(n int64) {
	for {
		tokens := q.tokens.Load()
		room := int64(q.capacity) - tokens
		if room == 0 || n <= 0 { // full, as after most successes of a healthy service
			return
		}
		if q.tokens.CompareAndSwap(tokens, tokens+min(n, room)) {
			q.wake()
			return
		}
	}
}

// takeUpTo draws n tokens, or as many as there are, and returns how many.
func (q *Quota) takeUpTo(n int) int {
	if q.unlimited || q.err != nil {
		return 0
	}
	for n = min(n, q.Tokens()); n > 0; n = min(n, q.Tokens()) {
		if q.refill != nil && q.refill.Take(float64(n)) || q.refill == nil && q.draw(int64(n)) == nil {
			return n
		}
	}
	return 0
}

// Tokens returns how many whole tokens can be drawn now, or [math.MaxInt] if
// there is no quota.
func (q *Quota) Tokens() int {
	if q.refill == nil {
		return int(q.tokens.Load())
	}
	tokens := q.refill.Tokens()
	if tokens >= float64(q.capacity) {
		return q.capacity // a capacity near the greatest int has no exact float
	}
	return int(tokens)
}

// full reports whether no tokens are drawn.
func (q *Quota) full() bool { return q.Tokens() >= q.capacity }

// soonest returns how long Acquire would wait in line for n tokens if tokens
// came back with time only.
func (q *Quota) soonest(n int) time.Duration {
	if q.refill == nil || n <= 0 {
		return 0
	}
	_, expected := q.refill.Line(float64(n))
	return expected
}

// lend draws n tokens for a retry. Until settle, await expects that they may come
// back.
func (q *Quota) lend(ctx context.Context, n int) error {
	err := q.Acquire(ctx, n)
	if err == nil && n > 0 {
		q.lent.Add(1)
	}
	return err
}

// settle returns the n tokens that lend drew if back is true, and ends the loan.
func (q *Quota) settle(n int, back bool) {
	if n <= 0 {
		return
	}
	if back {
		q.Release(n)
	}
	if q.lent.Add(-1) == 0 {
		q.wake()
	}
}

// tokenPatience is how long await waits while no caller in line gets tokens.
const tokenPatience = time.Minute

// A tokenLine is where retries wait for the tokens of others, first come first
// served.
type tokenLine struct {
	turn    chan struct{} // full while the first in line watches the bucket
	changed chan struct{} // signaled when tokens came back or none are lent any more
	waiting atomic.Int64
	moved   time.Time // when a caller got tokens; guarded by turn
}

// wake makes the first in line check the bucket.
func (q *Quota) wake() {
	if l := q.line.Load(); l != nil && l.waiting.Load() > 0 {
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

// await is lend, but waits in line for tokens that may come back: with time, or
// from retries that are in progress. It returns ErrQuotaExceeded if neither can
// bring any, and when no caller in line got tokens for tokenPatience.
func (q *Quota) await(ctx context.Context, n int) error {
	start, l := time.Now(), q.line.Load()
	if l == nil {
		q.line.CompareAndSwap(nil, &tokenLine{turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)})
		l = q.line.Load()
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if l.moved.Before(start) {
		l.moved = start
	}
	for {
		lent := q.lent.Load() > 0 // before lend, because settle changes the bucket first
		err := q.lend(ctx, n)
		if err == nil {
			l.moved = time.Now()
		}
		if err == nil || !errors.Is(err, ErrQuotaExceeded) {
			return err
		}
		left := tokenPatience - time.Since(l.moved)
		if left <= 0 || !lent && q.refillTime(n) > left {
			return ErrQuotaExceeded
		}
		timer := time.NewTimer(min(left, q.refillTime(n)))
		select {
		case <-l.changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// refillTime returns how long it takes until n tokens have come back with time.
func (q *Quota) refillTime(n int) time.Duration {
	if q.refill == nil {
		return math.MaxInt64
	}
	return max(q.soonest(n), time.Millisecond)
}
