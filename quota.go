package awsretry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// ErrQuotaExceeded is returned by [Quota.Acquire] when the retry token bucket holds too few tokens.
var ErrQuotaExceeded = errors.New("awsretry: retry capacity exceeded")

// defaultQuotaCapacity is maxCapacity in AWS SDK for Kotlin, "Retries".
const defaultQuotaCapacity = 500

// QuotaConfig describes a retry token bucket: retries draw tokens from it, successes put tokens back, and no retry is made
// that it cannot pay for. The zero value is the bucket of the AWS SDKs' standard mode: 500 tokens that come back with
// successes only (AWS SDKs and Tools Reference Guide, "Retry behavior"; AWS SDK for Kotlin, "Retries").
//
// The costs and increments are amounts that the [Transport] draws and puts back. A [Quota] used by itself is told each
// amount by its caller and only looks at Capacity, RefillPerSecond and Wait.
type QuotaConfig struct {
	// Capacity is the number of tokens in a full bucket; a bucket starts full. 0 means 500. Negative means that there is
	// no quota and every retry is allowed. It counts tokens, not retries: with a Capacity below the cost of a retry, 5 to 14
	// tokens unless set, no retry is ever made.
	Capacity int

	// RetryCost is what a retry after a transient failure draws, TimeoutCost one after a time-out on this side, and
	// ThrottlingCost one after a throttling answer, in tokens. 0 means the cost of the Transport's Revision (5, 10 and 10
	// in [Classic]). Negative means free.
	RetryCost, TimeoutCost, ThrottlingCost int

	// InitialCost is what a first attempt draws, in tokens. 0 means that first attempts are free. It must not be negative
	// or above Capacity.
	InitialCost int

	// SuccessIncrement is what the success of a first attempt puts back, in tokens. 0 means 1, negative means none.
	SuccessIncrement int

	// RefillPerSecond is the number of tokens that come back in a second whatever happens, which may be a fraction. 0
	// means that tokens come back with successes only. It must not be negative.
	RefillPerSecond float64

	// Wait makes who finds too few tokens wait for them, first come first served, instead of giving up. It needs a
	// RefillPerSecond, without which the wait might never end. A wait that is not expected to end before the context's
	// deadline is not begun.
	Wait bool
}

// validate returns an error that names the first field that makes no sense. The caller adds the package's prefix.
func (c QuotaConfig) validate() error {
	switch {
	case !(c.RefillPerSecond >= 0) || math.IsInf(c.RefillPerSecond, 1):
		return fmt.Errorf("Quota.RefillPerSecond is %v; it must be a finite number of tokens, 0 or more", c.RefillPerSecond)
	case c.Wait && c.RefillPerSecond < minRate:
		return fmt.Errorf("Quota.Wait is true and Quota.RefillPerSecond is %v; it must be at least %.2g, a token in 146 years, for a wait to end",
			c.RefillPerSecond, minRate)
	case c.InitialCost < 0:
		return fmt.Errorf("Quota.InitialCost is %d; it must be 0 or more", c.InitialCost)
	case c.Capacity >= 0 && c.InitialCost > c.capacity():
		return fmt.Errorf("Quota.InitialCost is %d; it must be at most Quota.Capacity, %d", c.InitialCost, c.capacity())
	}
	return nil
}

// capacity is Capacity with the default filled in; negative still means that there is no quota.
func (c QuotaConfig) capacity() int {
	if c.Capacity == 0 {
		return defaultQuotaCapacity
	}
	return c.Capacity
}

// A Quota is a retry token bucket. It may be used by itself or, through [Transport.Quota], one for each partition.
// [NewQuota] makes one; the zero Quota holds nothing and refuses every retry. It is safe for concurrent use.
type Quota struct {
	err       error // why the configuration makes no sense
	unlimited bool
	wait      bool
	capacity  int
	tokens    atomic.Int64 // between 0 and capacity; not used when refill is
	refill    *bucket      // nil where tokens do not come back with time: no lock then, and no clock
}

// NewQuota returns a full bucket. With a configuration that makes no sense, every [Quota.Acquire] returns an error that
// says which field and what is allowed.
func NewQuota(c QuotaConfig) *Quota {
	if err := c.validate(); err != nil {
		return &Quota{err: fmt.Errorf("awsretry: %w", err)}
	}
	q := &Quota{capacity: c.capacity(), wait: c.Wait}
	if q.capacity < 0 {
		q.unlimited, q.capacity = true, math.MaxInt
	}
	if c.RefillPerSecond > 0 && !q.unlimited {
		capacity := float64(q.capacity)
		q.refill = &bucket{start: time.Now(), tokens: capacity, capacity: capacity, rate: c.RefillPerSecond}
	}
	q.tokens.Store(int64(q.capacity))
	return q
}

// Acquire draws n tokens. It returns [ErrQuotaExceeded] when fewer are there, or, with QuotaConfig.Wait, waits in line for
// them; more than Capacity is ErrQuotaExceeded at once in either case, and a wait that is not expected to end before ctx's
// deadline, by RefillPerSecond alone, is at once an error that wraps it. When ctx has ended, or ends while Acquire waits,
// nothing is drawn and the context's cause is returned. An n of 0 or less, and a Quota without a limit, are always nil.
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
		return q.refill.take(ctx, float64(n), math.MaxInt64, ErrQuotaExceeded)
	case !q.refill.takeNow(float64(n)):
		return ErrQuotaExceeded
	}
	return nil
}

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

// Release puts n tokens back, and drops those that do not fit. An n of 0 or less changes nothing.
func (q *Quota) Release(n int) {
	if q.refill == nil {
		q.putBack(int64(n))
		return
	}
	if n <= 0 {
		return
	}
	q.refill.mu.Lock()
	defer q.refill.mu.Unlock()
	q.refill.put(q.refill.now(), float64(n))
}

func (q *Quota) putBack(n int64) {
	for {
		tokens := q.tokens.Load()
		room := int64(q.capacity) - tokens
		if room == 0 || n <= 0 { // full: every success of a healthy service comes here
			return
		}
		if q.tokens.CompareAndSwap(tokens, tokens+min(n, room)) {
			return
		}
	}
}

// Tokens returns how many whole tokens can be drawn now; [math.MaxInt] where there is no quota.
func (q *Quota) Tokens() int {
	if q.refill == nil {
		return int(q.tokens.Load())
	}
	q.refill.mu.Lock()
	defer q.refill.mu.Unlock()
	tokens := q.refill.level(q.refill.now()) + tokenSlack
	if tokens >= float64(q.capacity) {
		return q.capacity // one near the greatest int has no exact float
	}
	return int(tokens)
}

// full reports whether nothing is drawn.
func (q *Quota) full() bool { return q.Tokens() >= q.capacity }

// soonest is how long Acquire would wait for n tokens with QuotaConfig.Wait, behind those who are in line already, if none came
// back but with time.
func (q *Quota) soonest(n int) time.Duration {
	if q.refill == nil || n <= 0 {
		return 0
	}
	q.refill.mu.Lock()
	defer q.refill.mu.Unlock()
	return q.refill.expectedWait(q.refill.now(), float64(n))
}
