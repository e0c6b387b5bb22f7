package awsretry

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/sharing"
)

// Shared is where many processes share the buckets of a Transport's partitions.
// Only packages of this repository can implement it: fleet does, with Valkey or
// Redis. Its methods must be safe for concurrent use and must not wait for a
// network.
type Shared interface {
	// Join begins to share a partition. The first request of the partition calls
	// it. If it panics, the next request calls it again. It is not called for a
	// Transport that has no quota, is not in adaptive mode and does not share a
	// Retry-After.
	Join(sharing.Share)

	// FirstRate is the highest send rate of a process in adaptive mode that has not
	// had a lease, in requests per second. 0 means any.
	FirstRate() float64

	// Validate returns an error if the configuration is not valid, or not valid
	// for Transports with that mode. It is part of what Transport.Validate
	// returns.
	Validate(Mode) error
}

// A localShare implements [sharing.Share] for one partition of a Transport.
type localShare struct {
	name           string
	quota          *Quota
	limiter        *RateLimiter // nil except in adaptive mode
	capacity, cost int          // of a process's retry token bucket, and of a retry at most
	perCall        int          // what the retries of a call cost at most
	trafficOfCall  float64      // retry tokens that a call adds to the capacity; 0 if that does not change

	quotaText   string // see Settings
	firstTokens int    // see FirstTokens

	// These refer to the Transport and the partition weakly.
	inUse      func() bool          // something refers to the Transport
	retryAfter func() time.Duration // how long a Retry-After is in force that other processes should know
	holdBack   func(time.Duration)  // puts one of theirs in force

	joined  time.Time
	dropped atomic.Bool   // the table does not have the partition any more
	wake    chan struct{} // has a buffer of one
	refused atomic.Int64  // retries since the last Usage
	spared  atomic.Int64  // of them, those after throttling
	notSent atomic.Int64  // attempts since the last Usage
	grant   atomic.Pointer[sharing.Grant]
}

func (s *localShare) Partition() string { return s.name }

func (s *localShare) RetryTokens() (capacity, cost, perCall int, ok bool) {
	return s.capacity, s.cost, min(s.perCall, s.capacity), s.capacity > 0
}

func (s *localShare) Settings() (quota, law string) {
	if s.limiter == nil {
		return s.quotaText, ""
	}
	own := s.limiter.config
	own.FailFast, own.MaxWait = false, 0 // each process may have its own, and functions
	usual := NewRateLimiter(RateLimitConfig{Pacing: own.Pacing}).config
	return s.quotaText, strings.TrimSpace(own.Pacing.String() + " " + unusual(own, usual))
}

// unusual returns the names and values of the fields that are not the usual ones,
// but for functions. A store takes more memory for long texts.
func unusual(own, usual any) string {
	var words []string
	v, u := reflect.ValueOf(own), reflect.ValueOf(usual)
	for i := range v.NumField() {
		if field := v.Field(i); field.Comparable() && !field.Equal(u.Field(i)) {
			words = append(words, fmt.Sprintf("%s:%v", v.Type().Field(i).Name, field))
		}
	}
	return strings.Join(words, " ")
}

func (s *localShare) FirstTokens() int { return s.firstTokens }

func (s *localShare) NewLaw(start time.Time) (law pacing.Adopter, ok bool) {
	if s.limiter == nil {
		return nil, false
	}
	return s.limiter.config.forPacer().Law(start), true
}

func (s *localShare) Wake() <-chan struct{} { return s.wake }

// signal makes the fleet renew the lease early.
func (s *localShare) signal() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refuse counts a retry that the bucket refused.
func (s *localShare) refuse(throttled bool) {
	if s == nil {
		return
	}
	if throttled {
		s.spared.Add(1)
	}
	s.refused.Add(1)
	s.signal()
}

// mayGrant reports whether the fleet may have retry tokens for this process soon:
// those of others, or its first ones.
func (s *localShare) mayGrant(cost int, throttled bool) bool {
	const first = time.Second // which most stores need less than
	if s == nil {
		return false
	}
	grant := s.grant.Load()
	if grant == nil {
		return time.Since(s.joined) < first
	}
	tokens := grant.FleetTokens
	if throttled {
		tokens += grant.SpareTokens
	}
	return tokens >= cost && time.Now().Before(grant.Until)
}

// awaitSendToken is called before an attempt waits for a send token.
func (s *localShare) awaitSendToken() {
	if s == nil {
		return
	}
	waiting, expected := s.limiter.pacer.Line()
	if ahead, slotted := s.limiter.pacer.Ahead(); slotted {
		if ahead <= waiting {
			s.signal()
		}
		return
	}
	if waiting > 0 {
		return // the first in line has signaled
	}
	if grant := s.grant.Load(); grant == nil || expected > time.Until(grant.Until) {
		s.signal()
	}
}

// refuseSendToken counts an attempt that is not sent because a send token would
// come too late.
func (s *localShare) refuseSendToken() {
	if s != nil {
		s.notSent.Add(1)
		s.signal()
	}
}

func (s *localShare) Dropped() bool { return s.dropped.Load() || !s.inUse() }

// drop makes Dropped return true.
func (s *localShare) drop() {
	if s != nil {
		s.dropped.Store(true)
		s.signal()
	}
}

// left returns how many tokens the fleet has left, as far as this process knows.
func (s *localShare) left() int {
	own := s.quota.Tokens()
	if grant := s.grant.Load(); grant != nil {
		return min(grant.FleetTokens+own, s.capacity)
	}
	return min(own, s.firstTokens)
}

func (s *localShare) Usage() sharing.Usage {
	u := sharing.Usage{
		Tokens: s.quota.Tokens(), RetryAfter: s.retryAfter(),
		Spared: int(s.spared.Swap(0)), Refused: int(s.refused.Swap(0)), NotSent: int(s.notSent.Swap(0)),
	}
	if u.Traffic = -1; s.quota.seen != nil {
		u.Traffic = s.trafficOfCall * float64(s.quota.seen.Swap(0))
	}
	if s.limiter != nil {
		pacer := s.limiter.pacer
		u.Waiting, _ = pacer.Line()
		u.SendTokens, u.Unused = pacer.Unused()
		u.Said = pacer.Said()
		u.Sent, u.Counts = pacer.Counts()
	}
	return u
}

func (s *localShare) TakeTokens(n int) int { return s.quota.takeUpTo(n) }

func (s *localShare) AddTokens(n int) { s.quota.giveBack(n) }

func (s *localShare) Grant(g sharing.Grant) {
	s.grant.Store(&g)
	if s.limiter != nil {
		s.limiter.pacer.Lease(&g)
		if g.Said != nil {
			s.limiter.pacer.Hear(g.Said)
		}
	}
	if g.RetryAfter > 0 {
		s.holdBack(g.RetryAfter)
	}
}

func (s *localShare) Alone(rate float64) {
	if s.limiter != nil {
		s.limiter.pacer.Alone(rate)
	}
}

// granted returns the last grant, nil before the first one.
func (s *localShare) granted() *sharing.Grant {
	if s == nil {
		return nil
	}
	return s.grant.Load()
}
