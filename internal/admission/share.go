package admission

import (
	"sync/atomic"
	"time"
	"weak"

	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/tokens"
)

// A ShareConfig has the settings that all shares of a Transport have in common.
type ShareConfig struct {
	Capacity, Cost int     // of a process's retry token bucket, 0 if there is none, and of a retry at most
	PerCall        int     // what the retries of a call cost at most
	TrafficOfCall  float64 // retry tokens that a call adds to the capacity; 0 if that does not change
	Quota, Law     string  // see Share.Settings

	InUse  func() bool                       // something refers to the Transport
	Spread func(time.Duration) time.Duration // of a Retry-After

	LongestRetryAfter time.Duration // that other processes should know; 0 if none
}

// A Share is this process's part of a shared partition: the tokens and the rate
// that it may use without asking. Package fleet exchanges them with the other
// processes. A Share is safe for concurrent use. The methods that requests call do
// nothing if it is nil.
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
	grant   atomic.Pointer[pacer.Grant]
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
		p.Pacer.OnWait(s.awaitSendToken)
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

// Partition returns the name of the partition.
func (s *Share) Partition() string { return s.name }

// RetryTokens returns the capacity of the retry token bucket of a single
// process, the maximum cost of a retry, and the maximum cost of all retries of
// one call. ok is false if there is no quota.
func (s *Share) RetryTokens() (capacity, cost, perCall int, ok bool) {
	c := &s.config
	return c.Capacity, c.Cost, min(c.PerCall, c.Capacity), c.Capacity > 0
}

// Settings describes the settings that all processes must have in common: those
// of the quota, and those of the rate limiter, which are "" except in adaptive
// mode. Each text lists the settings that differ from the default, with their
// values, as words separated by spaces.
func (s *Share) Settings() (quota, law string) { return s.config.Quota, s.config.Law }

// FirstTokens returns how many tokens the shared retry token bucket starts with
// if this process creates it: as many as the bucket of a single process starts
// with or, if the partition replaces another one because there are too many, as
// many as the other one had left. So made-up partition names allow no more
// retries than one bucket pays for.
func (s *Share) FirstTokens() int { return s.firstTokens }

// NewLaw returns a new pacing law for the rate of all processes, on a clock
// that starts at start. ok is false except in adaptive mode.
func (s *Share) NewLaw(start time.Time) (law pacing.Law, ok bool) {
	if s.pacer == nil {
		return nil, false
	}
	return s.pacer.NewLaw(start), true
}

// Wake returns a channel that is signaled when the lease should be renewed
// early: a retry drew tokens or was refused, a response was throttled, a
// Retry-After came, a request will wait for a send token longer than the
// lease or was refused one, an outcome came after the end of the lease, or
// the partition was dropped.
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

// Refuse counts a retry that the bucket refused. It reports whether the fleet may
// have tokens for it soon: those of others, or its first ones.
func (s *Share) Refuse(cost int, throttled bool) (granting bool) {
	const first = time.Second // which most stores need less than
	if s == nil {
		return false
	}
	s.refused.Add(1)
	if throttled {
		s.spared.Add(1)
	}
	s.Signal()
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

// awaitSendToken is called when an attempt begins to wait for a send token, after
// others.
func (s *Share) awaitSendToken(others int, expected time.Duration) {
	if ahead, slotted := s.pacer.Ahead(); slotted {
		if ahead <= others {
			s.Signal()
		}
		return
	}
	if others > 0 {
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

// Dropped reports whether the Transport no longer has the partition, or nothing
// refers to the Transport.
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

// A Usage is what a process has used of its share, and what it needs.
type Usage struct {
	pacer.Counts // since the last Usage, in adaptive mode only

	Waiting    int     // requests in line for a send token
	NotSent    int     // attempts since the last Usage that were refused because a send token would come too late
	SendTokens float64 // send tokens in the bucket, at most 1, or the number of slots that are still ahead
	Unused     float64 // send tokens since the last Usage that were lost because the bucket was full
	Tokens     int     // tokens in the retry token bucket
	Traffic    float64 // how much the calls since the last Usage add to the capacity for a minute; negative if it is fixed
	Refused    int     // retries that the retry token bucket refused since the last Usage
	Spared     int     // those of Refused that followed a throttling response

	// RetryAfter is how long a Retry-After remains in force, with
	// Transport.ShareRetryAfter.
	RetryAfter time.Duration

	// Said has the limits that a response announced last, or is nil if none did.
	// Other processes use them only if they read limits themselves.
	Said *pacer.Announcement
}

// Usage returns what the process has used since the last call, and what it
// needs.
func (s *Share) Usage() Usage {
	u := Usage{
		Tokens: s.quota.Tokens(), RetryAfter: s.retryAfter(),
		Spared: int(s.spared.Swap(0)), Refused: int(s.refused.Swap(0)), NotSent: int(s.notSent.Swap(0)),
	}
	if calls, ok := s.quota.TakeSeen(); ok {
		u.Traffic = s.config.TrafficOfCall * float64(calls)
	} else {
		u.Traffic = -1
	}
	if pacer := s.pacer; pacer != nil {
		u.Waiting = pacer.Waiting()
		u.SendTokens, u.Unused = pacer.Unused()
		u.Said = pacer.Said()
		u.Counts = pacer.Counts()
	}
	return u
}

// TakeTokens draws up to n tokens from the retry token bucket of this
// process, and returns how many it drew.
func (s *Share) TakeTokens(n int) int { return s.quota.TakeUpTo(n) }

// AddTokens adds n tokens to the retry token bucket of this process.
func (s *Share) AddTokens(n int) { s.quota.PutBack(n) }

// Grant sets what the process may use from now on.
func (s *Share) Grant(g pacer.Grant) {
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

// Alone ends the lease. Until the next one, the process may send at most rate
// requests per second. See [pacer.Grant] for firstToken.
func (s *Share) Alone(rate, firstToken float64) {
	if s.pacer == nil {
		return
	}
	if g := s.grant.Load(); g != nil {
		ended := *g
		ended.Until, ended.IdleUntil = time.Now(), time.Time{}
		s.grant.Store(&ended)
	}
	s.pacer.Alone(rate, firstToken)
}

// Granted returns the last grant, nil before the first one.
func (s *Share) Granted() *pacer.Grant {
	if s == nil {
		return nil
	}
	return s.grant.Load()
}
