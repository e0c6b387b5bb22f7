// Package admission decides when an attempt may be sent: with retry tokens, with
// a send token, and not while a shared Retry-After is in force. A Partition has what
// the requests to one service share for that, and a Permit what an attempt owns.
package admission

import (
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/gate"
	"example.com/awsretry/internal/jitter"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/partitions"
	"example.com/awsretry/internal/sharing"
	"example.com/awsretry/internal/tokens"
)

// A Partition has what the requests to one service, or to one part of it, share.
type Partition struct {
	Name   string
	Quota  *tokens.Quota
	Pacer  *pacer.Pacer  // nil except in adaptive mode
	Gate   gate.Gate     // for a shared Retry-After
	Spread jitter.Spread // of the delays that Retry-After asks for
	Share  *Share        // nil if no other process shares the buckets

	heldBack atomic.Int64 // how many requests wait for the gate
}

// HeldBack returns how many requests wait for the end of a Retry-After.
func (p *Partition) HeldBack() int { return int(p.heldBack.Load()) }

// limits reports whether a throttling response or a Retry-After delays the
// requests of p.
func (p *Partition) limits() bool {
	if p.Pacer != nil && p.Pacer.Delays() {
		return true
	}
	return p.Gate.Load() != nil && p.Gate.ClosedFor(time.Now()) > 0
}

// An Entry is a Partition in a table.
type Entry = partitions.Entry[Partition]

// A Kind makes the partitions of a Transport.
type Kind struct {
	NewQuota func() *tokens.Quota
	NewPacer func() *pacer.Pacer     // returns nil except in adaptive mode
	NewShare func(*Partition) *Share // nil if no other process shares the buckets
	Joined   func(sharing.Share)     // called for each new share, by the request that uses it first
}

// New implements [partitions.Kind].
func (k *Kind) New(e *Entry) { k.make(e, k.NewQuota(), k.NewPacer(), k.NewShare) }

func (k *Kind) make(e *Entry, quota *tokens.Quota, pacer *pacer.Pacer, share func(*Partition) *Share) {
	p := &e.Value
	p.Name, p.Quota, p.Pacer = e.Name, quota, pacer
	if share != nil {
		p.Share = share(p)
	}
}

// Replace implements [partitions.Kind]. The tokens of a bucket that many processes
// share stay in the store; e begins with as many.
func (k *Kind) Replace(e, old, extra *Entry) {
	quota, pacer := old.Value.Quota, (*pacer.Pacer)(nil)
	if extra != nil {
		pacer = extra.Value.Pacer
		e.Value.Gate.Store(extra.Value.Gate.Load())
	} else {
		pacer = k.NewPacer()
	}
	if k.NewShare != nil {
		quota = k.NewQuota()
		quota.TakeUpTo(quota.Tokens() - old.Value.Quota.Tokens())
	}
	k.make(e, quota, pacer, k.NewShare)
	if k.NewShare != nil {
		e.Value.Share.firstTokens = old.Value.Share.left()
	}
}

// Borrow implements [partitions.Kind].
func (k *Kind) Borrow(e, lender *Entry) { k.make(e, lender.Value.Quota, k.NewPacer(), nil) }

// Dropped implements [partitions.Kind].
func (k *Kind) Dropped(e *Entry) { e.Value.Share.drop() }

// Fresh implements [partitions.Kind]. A bucket that many processes share counts as
// full if this process has the tokens of a retry.
func (k *Kind) Fresh(e *Entry) bool {
	p := &e.Value
	full := p.Quota.Full()
	if p.Share.Granted() != nil {
		full = p.Quota.Tokens() >= min(p.Share.config.Cost, p.Share.config.Capacity)
	}
	return full && !p.limits()
}

// Limits implements [partitions.Kind].
func (k *Kind) Limits(e *Entry) bool { return e.Value.limits() }

// Join implements [partitions.Kind].
func (k *Kind) Join(e *Entry) { k.Joined(e.Value.Share) }

// Joins implements [partitions.Kind].
func (k *Kind) Joins() bool { return k.NewShare != nil }
