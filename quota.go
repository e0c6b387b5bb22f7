package awsretry

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"example.com/awsretry/internal/invalid"
	"example.com/awsretry/internal/tokens"
)

// ErrQuotaExceeded is returned by [Quota.Acquire] when the retry token bucket
// has too few tokens.
var ErrQuotaExceeded = tokens.ErrQuotaExceeded

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
	// Capacity is the number of tokens in a full bucket. A new bucket is full. 0
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
	// regardless of outcomes. It may be a fraction. 0 means that tokens come back
	// only with successes. It must not be negative.
	RefillPerSecond float64

	// Share makes the capacity follow the traffic: the bucket holds the cost of all
	// retries of this share of the last minute's calls (0.2 means every fifth call),
	// but at most Capacity, and at least the cost of one call's retries, with which it
	// starts. With Transport.Shared, the calls are those of all processes, and these
	// limits are for each of them. A [Quota] used by itself counts calls of Release,
	// each with two retries at the highest of the costs. Share must be from 0 to 1. 0
	// means that the capacity is always Capacity. It cannot be combined with
	// InitialCost and RefillPerSecond.
	Share float64

	// Wait makes Acquire block, first come first served, instead of returning
	// ErrQuotaExceeded. It needs a RefillPerSecond: without one the wait might
	// never end. Acquire does not begin a wait that is not expected to end before
	// the context's deadline.
	Wait bool
}

// validate returns an error that names the first invalid field. The caller adds
// the package's prefix.
func (c QuotaConfig) validate() error {
	if c.Share > 0 && c.Share <= 1 && (c.Capacity < 0 || c.InitialCost > 0 || c.RefillPerSecond > 0) {
		return fmt.Errorf("Quota.Share is %v, Quota.Capacity %d, Quota.InitialCost %d and Quota.RefillPerSecond %v; "+
			"with a Share, Capacity must not be negative and the others must be 0",
			c.Share, c.Capacity, c.InitialCost, c.RefillPerSecond)
	}
	return cmp.Or(
		invalid.Check(c.Share >= 0 && c.Share <= 1, "Quota.Share", c.Share,
			"from 0 to 1, where 0 means a capacity that does not change"),
		invalid.Check(c.RefillPerSecond >= 0 && !math.IsInf(c.RefillPerSecond, 1), "Quota.RefillPerSecond", c.RefillPerSecond,
			"a finite number of tokens, 0 or more"),
		invalid.Check(!c.Wait || c.RefillPerSecond >= tokens.MinRate,
			"Quota.Wait is true and Quota.RefillPerSecond", c.RefillPerSecond,
			"at least %.2g, a token in 146 years, for a wait to end", tokens.MinRate),
		invalid.Check(c.InitialCost >= 0, "Quota.InitialCost", c.InitialCost, "0 or more"),
		invalid.Check(c.Capacity < 0 || c.InitialCost <= c.capacity(), "Quota.InitialCost", c.InitialCost,
			"at most Quota.Capacity, %d", c.capacity()),
	)
}

// capacity returns Capacity or its default. It is negative if there is no quota.
func (c QuotaConfig) capacity() int { return cmp.Or(c.Capacity, defaultQuotaCapacity) }

// The cost of a retry in tokens (AWS SDK for Kotlin, "Retries", and the 2026
// revision), and what a success returns.
var (
	classicCosts = QuotaConfig{RetryCost: 5, TimeoutCost: 10, ThrottlingCost: 10}
	costs2026    = QuotaConfig{RetryCost: 14, TimeoutCost: 14, ThrottlingCost: 5}
)

const defaultSuccessIncrement = 1 // AWS SDK for Kotlin, "Retries"

// withDefaults returns c with the amounts in place of zeros, and with 0 for costs and
// increments that are negative.
func (c QuotaConfig) withDefaults(r Revision) QuotaConfig {
	usual := classicCosts
	if r == Revision2026 {
		usual = costs2026
	}
	c.Capacity = c.capacity()
	c.RetryCost = max(cmp.Or(c.RetryCost, usual.RetryCost), 0)
	c.TimeoutCost = max(cmp.Or(c.TimeoutCost, usual.TimeoutCost), 0)
	c.ThrottlingCost = max(cmp.Or(c.ThrottlingCost, usual.ThrottlingCost), 0)
	c.SuccessIncrement = max(cmp.Or(c.SuccessIncrement, defaultSuccessIncrement), 0)
	return c
}

// The methods below are those of a QuotaConfig with its defaults.

// cost returns what a retry costs after an outcome of the class.
func (c *QuotaConfig) cost(class Class) int {
	switch class {
	case Throttled:
		return c.ThrottlingCost
	case Timeout:
		return c.TimeoutCost
	}
	return c.RetryCost
}

// mostCost returns the cost of the dearest retry.
func (c *QuotaConfig) mostCost() int { return max(c.RetryCost, c.TimeoutCost, c.ThrottlingCost) }

// costOfCall returns the most that the retries of a call with so many attempts cost.
func (c *QuotaConfig) costOfCall(attempts int) int {
	cost := float64(c.mostCost()) * float64(max(attempts-1, 1))
	return int(min(cost, math.MaxInt32))
}

// forBucket returns c as package tokens has it, for calls with so many attempts.
func (c *QuotaConfig) forBucket(attempts int) tokens.QuotaConfig {
	return tokens.QuotaConfig{
		Capacity: c.Capacity, PerSecond: c.RefillPerSecond, Wait: c.Wait, Share: c.Share, PerCall: c.costOfCall(attempts),
	}
}

// inCommon names the fields that are not the usual ones, for those who share a
// bucket. A store takes more memory for long texts.
func (c *QuotaConfig) inCommon() string {
	usual := QuotaConfig{}.withDefaults(Classic)
	return fmt.Sprint("Capacity:", c.Capacity) + unusual("RetryCost", c.RetryCost, usual.RetryCost) +
		unusual("TimeoutCost", c.TimeoutCost, usual.TimeoutCost) +
		unusual("ThrottlingCost", c.ThrottlingCost, usual.ThrottlingCost) +
		unusual("SuccessIncrement", c.SuccessIncrement, usual.SuccessIncrement) + unusual("Share", c.Share, 0)
}

// unusual returns a word for a setting, after a space, or "" if it has its default.
func unusual[T comparable](name string, is, usual T) string {
	if is == usual {
		return ""
	}
	return fmt.Sprintf(" %s:%v", name, is)
}

// A Quota is a retry token bucket. [NewQuota] makes one; the zero Quota has no
// tokens and refuses every retry. A [Transport] has one for each partition. It
// is safe for concurrent use.
type Quota struct {
	err    error // of an invalid configuration
	bucket tokens.Quota
}

// NewQuota returns a full bucket. If c is invalid, every [Quota.Acquire]
// returns an error that names the field and what is allowed.
func NewQuota(c QuotaConfig) *Quota {
	if err := c.validate(); err != nil {
		return &Quota{err: fmt.Errorf("awsretry: %w", err)}
	}
	q := new(Quota)
	c = c.withDefaults(Classic)
	q.bucket.Fill(c.forBucket(standardAttempts))
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
	if q.err != nil {
		return q.err
	}
	return q.bucket.Acquire(ctx, n)
}

// Release returns n tokens; those above the capacity are dropped. An n of 0 or
// less changes nothing.
func (q *Quota) Release(n int) { q.bucket.Release(n) }

// Tokens returns how many whole tokens can be drawn now, or [math.MaxInt] if
// there is no quota.
func (q *Quota) Tokens() int { return q.bucket.Tokens() }
