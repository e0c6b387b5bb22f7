package awsretry

import (
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/pacing"
)

// Shared is where many processes share the buckets of a Transport's partitions.
// Package fleet has one that uses Valkey or Redis. Its methods must be safe for
// concurrent use, and must not wait for a network.
type Shared interface {
	// Join begins to share a partition. The first request that uses the
	// partition calls it. If it panics, the next one calls it again. It is not
	// called for a Transport that has no quota, is not in adaptive mode and does
	// not share a Retry-After.
	Join(*Share)

	// Validate returns an error if the configuration is not valid. It is part
	// of what Transport.Validate returns.
	Validate() error
}

// A Share is this process's part of a shared partition: the tokens and the rate
// that it may use without asking. A Share is safe for concurrent use.
type Share struct {
	name           string
	quota          *Quota
	limiter        *RateLimiter // nil except in adaptive mode
	capacity, cost int          // of the retry token bucket of all processes, and of a retry at most

	firstTokens int // see FirstTokens

	// These refer to the Transport and the partition weakly.
	inUse      func() bool          // something refers to the Transport
	retryAfter func() time.Duration // how long a Retry-After is in force that other processes should know
	holdBack   func(time.Duration)  // brings one of theirs into force

	dropped atomic.Bool   // the table does not have the partition any more
	wake    chan struct{} // holds a value from a signal to the next receive
	refused atomic.Int64  // retries since the last Usage
	notSent atomic.Int64  // attempts since the last Usage
	grant   atomic.Pointer[ShareGrant]
}

// ShareUsage is what a process used of its share and what it needs.
type ShareUsage struct {
	// Outcomes of attempts since the last Usage, by when they were sent: after
	// the last cut of the fleet's rate, or before it. They are counted in
	// adaptive mode only.
	Accepted, Throttled             int
	AcceptedBefore, ThrottledBefore int

	// Trip is the mean time from sending an attempt to its outcome, 0 if it is
	// not known.
	Trip time.Duration

	Waiting    int     // requests in line for a send token
	NotSent    int     // attempts since the last Usage that were refused, because a send token would come too late
	SendTokens float64 // saved up, at most 1
	Unused     float64 // send tokens that came back for nobody since the last Usage
	Tokens     int     // in the retry token bucket
	Refused    int     // retries that the bucket refused since the last Usage

	// RetryAfter is how long a Retry-After is in force, with
	// Transport.ShareRetryAfter.
	RetryAfter time.Duration
}

// A ShareGrant is what a process may use.
type ShareGrant struct {
	Until      time.Time     // the end of the lease of the rate
	Limited    bool          // the fleet's rate is limited
	Rate       float64       // of this process, in requests per second
	Burst      time.Duration // what a pause saves up is the tokens of that time
	Due        time.Time     // when a send token comes back, which sets the time of all of them; zero: at any time
	Cut        time.Time     // when the fleet's rate was cut last; the zero time if never
	FirstToken float64       // part of a send token, 0 to 1, for a process that had no rate: not all send at once
	RetryAfter time.Duration // how long the fleet's Retry-After is in force; 0 if there is none

	// When the lease has ended, the process goes on at its part of the fleet's
	// rate.
	FleetRate float64 // of all processes, in requests per second
	Members   int     // how many Transports share the partition, without those that are idle

	FleetTokens int // in the retry token bucket of all processes, apart from those that each of them has
}

// Partition returns the name of the partition.
func (s *Share) Partition() string { return s.name }

// RetryTokens returns the capacity of the retry token bucket of all processes,
// and the most that one retry costs. ok is false if there is no quota.
func (s *Share) RetryTokens() (capacity, cost int, ok bool) {
	return s.capacity, s.cost, s.capacity > 0
}

// FirstTokens returns how many tokens the retry token bucket of all processes
// begins with if this one makes it: its capacity or, if the partition replaces
// another one because there are too many, what that one had left. So made-up
// names lead to no more retries than one bucket pays for.
func (s *Share) FirstTokens() int { return s.firstTokens }

// NewLaw returns a new law of the rate limiter, for the rate of all processes,
// on a clock whose zero is start. ok is false except in adaptive mode.
func (s *Share) NewLaw(start time.Time) (law pacing.Adopter, ok bool) {
	if s.limiter == nil {
		return nil, false
	}
	return newLaw(s.limiter.config, start), true
}

// Wake returns a channel that has a value after something happened that the
// fleet should know at once: a retry drew tokens or was refused, a response was
// throttled, a Retry-After came, a request will wait for a send token longer
// than the lease or was refused one, an outcome came after the end of the lease,
// or the partition was dropped.
func (s *Share) Wake() <-chan struct{} { return s.wake }

// signal fills the channel of Wake.
func (s *Share) signal() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refuse counts a retry that the bucket refused.
func (s *Share) refuse() {
	if s != nil {
		s.refused.Add(1)
		s.signal()
	}
}

// awaitSendToken is called before an attempt waits for a send token.
func (s *Share) awaitSendToken() {
	if s == nil {
		return
	}
	waiting, expected := s.limiter.line()
	if waiting > 0 {
		return // the first in line was known
	}
	if grant := s.grant.Load(); grant == nil || expected > time.Until(grant.Until) {
		s.signal()
	}
}

// refuseSendToken counts an attempt that is not sent because a send token would
// come too late.
func (s *Share) refuseSendToken() {
	if s != nil {
		s.notSent.Add(1)
		s.signal()
	}
}

// Dropped reports whether the Transport does not have the partition any more,
// or nothing refers to the Transport.
func (s *Share) Dropped() bool { return s.dropped.Load() || !s.inUse() }

// drop makes Dropped true.
func (s *Share) drop() {
	if s != nil {
		s.dropped.Store(true)
		s.signal()
	}
}

// left returns how many tokens the fleet has, as far as this process knows.
func (s *Share) left() int {
	own := s.quota.Tokens()
	if grant := s.grant.Load(); grant != nil {
		return min(grant.FleetTokens+own, s.capacity)
	}
	return min(own, s.firstTokens)
}

// Usage returns what was used since the last call, and what is needed.
func (s *Share) Usage() ShareUsage {
	u := ShareUsage{
		Tokens: s.quota.Tokens(), RetryAfter: s.retryAfter(),
		Refused: int(s.refused.Swap(0)), NotSent: int(s.notSent.Swap(0)),
	}
	if s.limiter != nil {
		u.Waiting, _ = s.limiter.line()
		if b := s.limiter.bucket; b != nil {
			u.SendTokens, u.Unused = min(b.Tokens(), 1), b.TakeLost()
		}
		counts := s.limiter.takeCounts()
		u.Accepted, u.Throttled = counts.Accepted, counts.Throttled
		u.AcceptedBefore, u.ThrottledBefore = counts.AcceptedBefore, counts.ThrottledBefore
		if counts.TripsOf > 0 {
			u.Trip = counts.Trips / time.Duration(counts.TripsOf)
		}
	}
	return u
}

// TakeTokens draws up to n tokens from the retry token bucket of this process,
// and returns how many.
func (s *Share) TakeTokens(n int) int { return s.quota.takeUpTo(n) }

// AddTokens adds n tokens to the retry token bucket of this process.
func (s *Share) AddTokens(n int) { s.quota.Release(n) }

// Grant gives the process what it may use from now on.
func (s *Share) Grant(g ShareGrant) {
	s.grant.Store(&g)
	if s.limiter != nil {
		s.limiter.lease(g.Until, g.Cut, g.Due, g.FirstToken, pacing.Lease{
			Limited: g.Limited, Rate: g.Rate, Capacity: g.Rate * g.Burst.Seconds(),
			Alone: g.FleetRate / float64(max(g.Members, 1)),
		})
	}
	if g.RetryAfter > 0 {
		s.holdBack(g.RetryAfter)
	}
}

// granted returns the last grant, nil before the first one.
func (s *Share) granted() *ShareGrant {
	if s == nil {
		return nil
	}
	return s.grant.Load()
}

// share makes l the limiter of one of many processes. It must be called before
// l is used.
func (l *RateLimiter) share() {
	if alone, ok := l.law.(pacing.Adopter); ok {
		l.leased = pacing.NewLeased(alone)
		l.law = l.leased
	}
}

// onLapsed makes l call f for each outcome that comes after the end of the
// lease. It must be called before l has a lease.
func (l *RateLimiter) onLapsed(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapsed = f
}

// lease gives l a rate until the time. cut is when the rate of all processes was
// cut last, the zero time if never. first is the part of a token that l begins
// with if it had no rate.
func (l *RateLimiter) lease(until, cut, due time.Time, first float64, lease pacing.Lease) {
	if l.leased == nil {
		return
	}
	lease.Until = max(until.Sub(l.start), 0)
	if !cut.IsZero() {
		lease.Cut = max(cut.Sub(l.start), 1)
	}
	lease.Capacity = max(lease.Capacity, l.config.MinCapacity)
	lease.Alone = max(lease.Alone, l.config.MinFillRate)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updated = max(l.bucket.Now(), l.updated)
	begins := l.leased.Lease(l.updated, lease)
	l.setRate(l.updated)
	if begins {
		l.bucket.Put(first)
	}
	if !due.IsZero() {
		l.bucket.Align(due.Sub(l.start))
	}
	if lease.Limited {
		l.limiting.Store(true)
	}
	if l.lapsing == nil {
		l.lapsing = time.AfterFunc(time.Until(until), l.lapse)
	} else {
		l.lapsing.Reset(time.Until(until))
	}
}

// lapse makes those who wait at the rate of a lease that has ended wait at the
// rate of this process alone. An outcome may not come before that.
func (l *RateLimiter) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updated = max(l.bucket.Now(), l.updated)
	l.leased.Lapse(l.updated)
	l.setRate(l.updated)
}

// takeCounts returns the outcomes since the last call.
func (l *RateLimiter) takeCounts() pacing.Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leased == nil {
		return pacing.Counts{}
	}
	return l.leased.Take()
}
