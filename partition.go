package awsretry

import (
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/gate"
	"example.com/awsretry/internal/partitions"
	"example.com/awsretry/internal/sharing"
)

// A partition is what the requests to one service, or to one part of it, share.
type partition struct {
	name     string
	quota    *Quota
	limiter  *RateLimiter // nil except in adaptive mode
	gate     gate.Gate    // for Transport.ShareRetryAfter
	heldBack atomic.Int64 // how many requests wait for the gate
	share    *localShare  // nil if no other process shares the buckets
}

// limits reports whether a throttling response or a Retry-After delays the
// requests of p.
func (p *partition) limits() bool {
	if p.limiter != nil && p.limiter.pacer.Delays() {
		return true
	}
	return p.gate.Load() != nil && p.gate.ClosedFor(time.Now()) > 0
}

type partitionEntry = partitions.Entry[partition]

// A partitionKind makes the partitions of a Transport.
type partitionKind struct {
	newQuota   func() *Quota
	newLimiter func() *RateLimiter          // returns nil except in adaptive mode
	newShare   func(*partition) *localShare // of a new partition; nil if no other process shares the buckets
	joined     func(sharing.Share)          // called for each new share, by the request that uses it first
}

// New implements [partitions.Kind].
func (k *partitionKind) New(e *partitionEntry) { k.make(e, k.newQuota(), k.newLimiter(), k.newShare) }

func (k *partitionKind) make(e *partitionEntry, quota *Quota, limiter *RateLimiter, share func(*partition) *localShare) {
	p := &e.Value
	p.name, p.quota, p.limiter = e.Name, quota, limiter
	if share != nil {
		p.share = share(p)
	}
}

// Replace implements [partitions.Kind]. The tokens of a bucket that many processes
// share stay in the store; e begins with as many.
func (k *partitionKind) Replace(e, old, extra *partitionEntry) {
	quota, limiter := old.Value.quota, (*RateLimiter)(nil)
	if extra != nil {
		limiter = extra.Value.limiter
		e.Value.gate.Store(extra.Value.gate.Load())
	} else {
		limiter = k.newLimiter()
	}
	if k.newShare != nil {
		quota = k.newQuota()
		quota.takeUpTo(quota.Tokens() - old.Value.quota.Tokens())
	}
	k.make(e, quota, limiter, k.newShare)
	if k.newShare != nil {
		e.Value.share.firstTokens = old.Value.share.left()
	}
}

// Borrow implements [partitions.Kind].
func (k *partitionKind) Borrow(e, lender *partitionEntry) {
	k.make(e, lender.Value.quota, k.newLimiter(), nil)
}

// Dropped implements [partitions.Kind].
func (k *partitionKind) Dropped(e *partitionEntry) { e.Value.share.drop() }

// Fresh implements [partitions.Kind]. A bucket that many processes share counts as
// full if this process has the tokens of a retry.
func (k *partitionKind) Fresh(e *partitionEntry) bool {
	p := &e.Value
	full := p.quota.full()
	if p.share.granted() != nil {
		full = p.quota.Tokens() >= min(p.share.cost, p.share.capacity)
	}
	return full && !p.limits()
}

// Limits implements [partitions.Kind].
func (k *partitionKind) Limits(e *partitionEntry) bool { return e.Value.limits() }

// Join implements [partitions.Kind].
func (k *partitionKind) Join(e *partitionEntry) { k.joined(e.Value.share) }

// Joins implements [partitions.Kind].
func (k *partitionKind) Joins() bool { return k.newShare != nil }
