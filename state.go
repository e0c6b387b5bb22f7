package awsretry

import (
	"iter"
	"time"

	"example.com/awsretry/internal/admission"
)

// State describes the retry token bucket, the shared Retry-After and the rate
// limiter of a partition. The limiter's fields are zero except in adaptive mode.
type State struct {
	Tokens       int     // in the retry token bucket; math.MaxInt if there is no quota
	Capacity     int     // of that bucket; math.MaxInt if there is no quota
	Limited      bool    // the send rate is limited
	MeasuredRate float64 // outcomes per second; with ScaledPacing those that are not throttled
	SendRate     float64 // of the rate limiter, in requests per second

	Waiting      int           // requests in line for a send token, or held back by a shared Retry-After
	ExpectedWait time.Duration // of a new request, of the route that waits longest
	RetryAfter   time.Duration // until the end of the shared Retry-After; 0 if none is in force

	// Limits are the limits that the service announced, less the requests in
	// flight, with RateLimit.Limits.
	Limits []Limit

	Fleet FleetState // with Transport.Shared
}

// FleetState describes the buckets of all Transports that share a partition, as of
// the last grant. It is zero before the first one.
type FleetState struct {
	Leased  bool    // a grant is in force
	Idle    bool    // in adaptive mode: there is none because the process needs none; the store responds
	Slow    bool    // the store responds so late that the process sends less than its share
	Members int     // how many Transports share the partition, without those that are idle
	Rate    float64 // of all of them, in requests per second; 0 if it is not limited

	// Tokens is how many tokens the shared retry token bucket has. Each process has
	// a few more, which are its State.Tokens.
	Tokens int
}

// State returns the state of the named partition. It returns false if no
// request has used the partition, or newer partitions have replaced it. The
// name is that of a request, or the one that Partitions yields, which differs
// if the name is longer than 255 bytes.
func (t *Transport) State(partition string) (State, bool) {
	c := t.config.Load()
	if c == nil {
		return State{}, false
	}
	p := c.partitions.Find(partition)
	if p == nil {
		return State{}, false
	}
	return stateOf(p), true
}

// Partitions yields the name and the state of every partition, the most
// recently used first.
func (t *Transport) Partitions() iter.Seq2[string, State] {
	return func(yield func(string, State) bool) {
		c := t.config.Load()
		if c == nil {
			return
		}
		for _, p := range c.partitions.All() {
			if !yield(p.Name, stateOf(p)) {
				return
			}
		}
	}
}

func stateOf(p *admission.Partition) State {
	s := State{Tokens: p.Quota.Tokens(), Capacity: p.Quota.Size(), RetryAfter: p.Gate.ClosedFor(time.Now())}
	if p.Pacer != nil {
		s.MeasuredRate, s.SendRate, s.Limited = p.Pacer.Rates()
		s.Waiting, s.ExpectedWait = p.Pacer.Line()
		for _, limit := range p.Pacer.Limits() {
			s.Limits = append(s.Limits, Limit(limit))
		}
	}
	s.Waiting += p.HeldBack()
	s.ExpectedWait = max(s.ExpectedWait, s.RetryAfter)
	if grant := p.Share.Granted(); grant != nil {
		now := time.Now()
		s.Fleet = FleetState{
			Leased: now.Before(grant.Until), Slow: grant.Slow,
			Members: grant.Members, Rate: grant.FleetRate, Tokens: grant.FleetTokens,
		}
		s.Fleet.Idle = !s.Fleet.Leased && now.Before(grant.IdleUntil)
	}
	return s
}

// Shared lets many processes share the buckets of a Transport's partitions. Only
// packages of this repository can implement it: fleet does, with Valkey or Redis.
// Its methods must be safe for concurrent use and must not wait for a network.
type Shared interface {
	// Join begins to share a partition. The first request of the partition calls
	// it. If it panics, the next request calls it again. It is not called for a
	// Transport that has no quota, is not in adaptive mode and does not share a
	// Retry-After.
	Join(*admission.Share)

	// FirstRate is the highest send rate of a process in adaptive mode that has not
	// had a lease, in requests per second. 0 means any.
	FirstRate() float64

	// Validate returns an error if the configuration is not valid, or not valid
	// for Transports with that mode. It is part of what Transport.Validate
	// returns.
	Validate(Mode) error
}
