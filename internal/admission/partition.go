// Package admission decides when an attempt may be sent: with retry tokens, with
// a send token, and not while a shared Retry-After is in force. A Partition has what
// the requests to one service share for that, and a Permit what an attempt owns.
package admission

import (
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/jitter"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/tokens"
)

// A Partition has what the requests to one service, or to one part of it, share.
type Partition struct {
	Name   string
	Host   string // as spelled in the first request's URL; "" if the name is not a host
	Quota  *tokens.Quota
	Pacer  *pacer.Pacer  // nil except in adaptive mode
	Gate   Gate          // for a shared Retry-After
	Spread jitter.Spread // of the delays that Retry-After asks for
	Share  *Share        // nil if no other process shares the buckets

	heldBack atomic.Int64 // how many requests wait for the gate

	extra bool         // exceeds the table's size, and uses the bucket of another partition
	calls atomic.Int64 // in progress, or dropped
	joins bool         // the next request calls Table.Join; guarded by the table's mutex
}

// dropped is the value of calls of a partition that is no longer in the table.
const dropped = -1

// hold keeps p from being dropped until Release. It returns false if p was
// dropped already.
func (p *Partition) hold() bool {
	for {
		calls := p.calls.Load()
		if calls == dropped {
			return false
		}
		if p.calls.CompareAndSwap(calls, calls+1) {
			return true
		}
	}
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

// fresh reports whether p is as good as new. A bucket that many processes share
// counts as full if this process has the tokens of a retry.
func (p *Partition) fresh() bool {
	full := p.Quota.Full()
	if p.Share.Granted() != nil {
		full = p.Quota.Tokens() >= min(p.Share.config.Cost, p.Share.config.Capacity)
	}
	return full && !p.limits()
}
