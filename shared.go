package awsretry

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/bucket"
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

	mu   sync.Mutex // guards line
	line []*tokenWaiter
}

// A tokenWaiter is a retry that waits for tokens of the fleet.
type tokenWaiter struct {
	cost    int
	granted chan struct{} // closed, with the share's mutex held, when it has them
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
	return newLaw(s.limiter.config, start), true
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
	waiting, expected := s.limiter.line()
	if ahead, slotted := s.limiter.bucket.Ahead(); slotted {
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
		u.Waiting, _ = s.limiter.line()
		if b := s.limiter.bucket; b != nil {
			u.SendTokens, u.Unused = min(b.Tokens(), 1), b.TakeLost()
			if n, slotted := b.Ahead(); slotted {
				u.SendTokens = float64(n)
			}
		}
		u.Said = s.limiter.said()
		u.Sent, u.Counts = s.limiter.takeCounts()
	}
	return u
}

func (s *localShare) TakeTokens(n int) int { return s.quota.takeUpTo(n) }

// AddTokens also serves the line before it returns, so that it does not depend on
// the scheduler what a Usage after it sees.
func (s *localShare) AddTokens(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota.giveBack(n)
	for len(s.line) > 0 && s.quota.lend(context.Background(), s.line[0].cost) == nil {
		close(s.line[0].granted)
		s.line = s.line[1:]
	}
}

// awaitTokens draws tokens that the fleet grants until ctx ends, in line.
func (s *localShare) awaitTokens(ctx context.Context, cost int) error {
	w := &tokenWaiter{cost, make(chan struct{})}
	s.mu.Lock()
	s.line = append(s.line, w)
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.line, w); i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
	} else { // granted meanwhile
		s.quota.endLoan(cost, true)
	}
	return context.Cause(ctx)
}

func (s *localShare) Grant(g sharing.Grant) {
	s.grant.Store(&g)
	if s.limiter != nil {
		s.limiter.lease(&g, pacing.Lease{
			Limited: g.Limited, Rate: g.Rate, Capacity: g.Rate * g.Burst.Seconds(),
			Alone: g.FleetRate / float64(max(g.Members, 1)),
		})
		if g.Said != nil {
			s.limiter.hear(g.Said)
		}
	}
	if g.RetryAfter > 0 {
		s.holdBack(g.RetryAfter)
	}
}

func (s *localShare) Alone(rate float64) {
	if s.limiter != nil {
		s.limiter.alone(rate)
	}
}

// granted returns the last grant, nil before the first one.
func (s *localShare) granted() *sharing.Grant {
	if s == nil {
		return nil
	}
	return s.grant.Load()
}

// share makes l follow the leases of a fleet. It must be called before l is used.
func (l *RateLimiter) share() {
	if alone, ok := l.law.(pacing.Adopter); ok {
		l.leased = pacing.NewLeased(alone)
		l.law = l.leased
	}
	if l.announcing.Load() {
		l.bucket.Ledger(func(ledger *announced.Ledger, _ time.Duration) { ledger.Keep() })
	}
}

// onLapsed makes l call f for each outcome that comes after the end of the
// lease. It must be called before l has a lease.
func (l *RateLimiter) onLapsed(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lapsed = f
}

// lease sets the rate of l until the end of the grant.
func (l *RateLimiter) lease(g *sharing.Grant, lease pacing.Lease) {
	if l.leased == nil {
		return
	}
	lease.Until = max(g.Until.Sub(l.start), 0)
	lease.Capacity = max(lease.Capacity, l.config.MinCapacity)
	lease.Alone = max(lease.Alone, l.config.MinFillRate)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updated = max(l.bucket.Now(), l.updated)
	begins := l.leased.Lease(l.updated, lease)
	l.aloneAtMost = g.AloneAtMost
	l.setRate(l.updated)
	switch {
	case g.AloneAtMost > 0:
		l.bucket.AddSlots(bucket.Slots{At: g.FirstSlot.Sub(l.start), Every: g.Every, N: g.Slots})
	case begins:
		l.bucket.Put(g.FirstToken)
	}
	if lease.Limited {
		l.begins()
	}
	if l.lapsing == nil {
		l.lapsing = time.AfterFunc(time.Until(g.Until), l.lapse)
	} else {
		l.lapsing.Reset(time.Until(g.Until))
	}
}

// lapse sets the rate that l has without a lease. It is called at the end of the
// lease for callers who wait in line: no outcome may come before they are served.
func (l *RateLimiter) lapse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updated = max(l.bucket.Now(), l.updated)
	l.leased.Lapse(l.updated)
	l.setRate(l.updated)
	if l.aloneAtMost > 0 && !l.leased.InForce(l.updated) {
		l.bucket.ClearSlots()
	}
}

// alone ends the lease of l, which has rate at most until it has another one.
func (l *RateLimiter) alone(rate float64) {
	if l.leased == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updated, l.aloneAtMost = max(l.bucket.Now(), l.updated), rate
	l.leased.Lease(l.updated, pacing.Lease{Until: l.updated, Limited: true, Alone: rate})
	l.leased.Lapse(l.updated)
	l.setRate(l.updated)
	l.bucket.ClearSlots()
	l.begins()
}

// takeCounts returns how many attempts were sent since the last call, and how
// many were throttled.
func (l *RateLimiter) takeCounts() (sent int, throttled pacing.Counts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leased == nil {
		return 0, throttled
	}
	n := max(l.sent.Load(), 0) // below 0 after an attempt that counted was not sent
	l.sent.Add(-n)
	return int(n), l.leased.Take()
}
