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

// A permit is what an attempt needs before it is sent, apart from its request.
// It owns the tokens that were drawn for the attempt until release.
type permit struct {
	partition   *partition // of the tokens
	retryTokens int
	lent        bool // the retry tokens come back if the attempt succeeds
	sendToken   bool
	inFlight    bool // counted by the rate limiter until settled

	sendTime  time.Duration // on the rate limiter's clock; notLimited if the limiter does not need it
	admitted  bool          // neither the rate limiter nor a Retry-After delays the attempt
	waited    time.Duration // until it was admitted
	freshConn bool          // use a connection that no other request has used
}

// release ends the ownership of the tokens: it puts them back or gives them up.
// Further calls do nothing.
func (p *permit) release(putBack bool) {
	switch {
	case p.lent:
		p.partition.quota.endLoan(p.retryTokens, putBack)
	case putBack && p.retryTokens > 0:
		p.partition.quota.giveBack(p.retryTokens)
	}
	switch {
	case putBack && p.sendToken:
		p.partition.limiter.pacer.PutBack(p.sendTime)
	case p.inFlight:
		p.partition.limiter.pacer.Settle(p.sendTime, !p.sendToken)
	}
	p.retryTokens, p.lent, p.sendToken, p.inFlight = 0, false, false, false
}

// returnSendToken puts the send token back.
func (p *permit) returnSendToken() {
	p.partition.limiter.pacer.PutBack(p.sendTime)
	p.sendToken, p.inFlight = false, false
}

// move returns a permit that owns the tokens instead of p.
func (p *permit) move() permit {
	moved := *p
	p.retryTokens, p.lent, p.sendToken, p.inFlight = 0, false, false, false
	return moved
}

// own makes p the owner of tokens that Quota.lend or one of the waits for a loan returned.
func (p *permit) own(from *partition, tokens int) {
	p.partition, p.retryTokens, p.lent = from, tokens, tokens > 0
}
