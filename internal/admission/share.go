package admission

import (
	"sync/atomic"
	"time"
	"weak"

	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/sharing"
	"example.com/awsretry/internal/tokens"
)

// A ShareConfig has the settings that all shares of a Transport have in common.
type ShareConfig struct {
	Capacity, Cost int     // of a process's retry token bucket, 0 if there is none, and of a retry at most
	PerCall        int     // what the retries of a call cost at most
	TrafficOfCall  float64 // retry tokens that a call adds to the capacity; 0 if that does not change
	Quota, Law     string  // see sharing.Share.Settings

	InUse  func() bool                       // something refers to the Transport
	Spread func(time.Duration) time.Duration // of a Retry-After

	LongestRetryAfter time.Duration // that other processes should know; 0 if none
}

// A Share implements [sharing.Share] for one partition of a Transport. Its methods
// that are not of that interface do nothing if it is nil.
type Share struct {
	config      ShareConfig
	name        string
	partition   weak.Pointer[Partition] // so that a fleet does not keep it
	quota       *tokens.Quota
	pacer       *pacer.Pacer // nil except in adaptive mode
	firstTokens int          // see FirstTokens

	joined  time.Time
	dropped atomic.Bool   // the table no longer has the partition
	wake    chan struct{} // has a buffer of one
	refused atomic.Int64  // retries since the last Usage
	spared  atomic.Int64  // of them, those after throttling
	notSent atomic.Int64  // attempts since the last Usage
	grant   atomic.Pointer[sharing.Grant]
}

// NewShare returns the share of a new partition. It refers to the partition
// weakly, and so must the functions of c to the Transport.
func NewShare(p *Partition, c ShareConfig) *Share {
	s := &Share{
		config: c, name: p.Name, partition: weak.Make(p), quota: p.Quota, pacer: p.Pacer,
		firstTokens: min(p.Quota.Tokens(), c.Capacity), joined: time.Now(), wake: make(chan struct{}, 1),
	}
	if p.Pacer != nil {
		p.Pacer.OnLapsed(s.Signal)
	}
	return s
}

// retryAfter returns how long a Retry-After that other processes should know remains
// in force.
func (s *Share) retryAfter() time.Duration {
	if p := s.partition.Value(); p != nil && s.config.LongestRetryAfter > 0 {
		return p.Gate.ClosedFor(time.Now())
	}
	return 0
}

// holdBack puts a Retry-After of another process in force.
func (s *Share) holdBack(d time.Duration) {
	if p := s.partition.Value(); p != nil && d <= s.config.LongestRetryAfter {
		p.Gate.Close(time.Now(), d, s.config.Spread(d))
	}
}

// Partition implements [sharing.Share].
func (s *Share) Partition() string { return s.name }

// RetryTokens implements [sharing.Share].
func (s *Share) RetryTokens() (capacity, cost, perCall int, ok bool) {
	c := &s.config
	return c.Capacity, c.Cost, min(c.PerCall, c.Capacity), c.Capacity > 0
}

// Settings implements [sharing.Share].
func (s *Share) Settings() (quota, law string) { return s.config.Quota, s.config.Law }

// FirstTokens implements [sharing.Share].
func (s *Share) FirstTokens() int { return s.firstTokens }

// NewLaw implements [sharing.Share].
func (s *Share) NewLaw(start time.Time) (law pacing.Adopter, ok bool) {
	if s.pacer == nil {
		return nil, false
	}
	return s.pacer.NewLaw(start), true
}

// Wake implements [sharing.Share].
func (s *Share) Wake() <-chan struct{} { return s.wake }

// Signal makes the fleet renew the lease early.
func (s *Share) Signal() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Refuse counts a retry that the bucket refused.
func (s *Share) Refuse(throttled bool) {
	if s == nil {
		return
	}
	if throttled {
		s.spared.Add(1)
	}
	s.refused.Add(1)
	s.Signal()
}

// MayGrant reports whether the fleet may have retry tokens for this process soon:
// those of others, or its first ones.
func (s *Share) MayGrant(cost int, throttled bool) bool {
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
func (s *Share) awaitSendToken() {
	if s == nil {
		return
	}
	waiting, expected := s.pacer.Line()
	if ahead, slotted := s.pacer.Ahead(); slotted {
		if ahead <= waiting {
			s.Signal()
		}
		return
	}
	if waiting > 0 {
		return // the first in line has signaled
	}
	if grant := s.grant.Load(); grant == nil || expected > time.Until(grant.Until) {
		s.Signal()
	}
}

// RefuseSendToken counts an attempt that is not sent because a send token would
// come too late.
func (s *Share) RefuseSendToken() {
	if s != nil {
		s.notSent.Add(1)
		s.Signal()
	}
}

// Dropped implements [sharing.Share].
func (s *Share) Dropped() bool { return s.dropped.Load() || !s.config.InUse() }

// drop makes Dropped return true.
func (s *Share) drop() {
	if s != nil {
		s.dropped.Store(true)
		s.Signal()
	}
}

// left returns how many tokens the fleet has left, as far as this process knows.
func (s *Share) left() int {
	own := s.quota.Tokens()
	if grant := s.grant.Load(); grant != nil {
		return min(grant.FleetTokens+own, s.config.Capacity)
	}
	return min(own, s.firstTokens)
}

// Usage implements [sharing.Share].
func (s *Share) Usage() sharing.Usage {
	u := sharing.Usage{
		Tokens: s.quota.Tokens(), RetryAfter: s.retryAfter(),
		Spared: int(s.spared.Swap(0)), Refused: int(s.refused.Swap(0)), NotSent: int(s.notSent.Swap(0)),
	}
	if calls, ok := s.quota.TakeSeen(); ok {
		u.Traffic = s.config.TrafficOfCall * float64(calls)
	} else {
		u.Traffic = -1
	}
	if pacer := s.pacer; pacer != nil {
		u.Waiting, _ = pacer.Line()
		u.SendTokens, u.Unused = pacer.Unused()
		u.Said = pacer.Said()
		u.Sent, u.Counts = pacer.Counts()
	}
	return u
}

// TakeTokens implements [sharing.Share].
func (s *Share) TakeTokens(n int) int { return s.quota.TakeUpTo(n) }

// AddTokens implements [sharing.Share].
func (s *Share) AddTokens(n int) { s.quota.PutBack(n) }

// Grant implements [sharing.Share].
func (s *Share) Grant(g sharing.Grant) {
	s.grant.Store(&g)
	if s.pacer != nil {
		s.pacer.Lease(&g)
		if g.Said != nil {
			s.pacer.Hear(g.Said)
		}
	}
	if g.RetryAfter > 0 {
		s.holdBack(g.RetryAfter)
	}
}

// Alone implements [sharing.Share].
func (s *Share) Alone(rate float64) {
	if s.pacer != nil {
		s.pacer.Alone(rate)
	}
}

// Granted returns the last grant, nil before the first one.
func (s *Share) Granted() *sharing.Grant {
	if s == nil {
		return nil
	}
	return s.grant.Load()
}
