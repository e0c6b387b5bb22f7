package pacer

import (
	"time"

	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/tokens"
)

// A Grant is what a process may use.
type Grant struct {
	Until      time.Time     // the end of the lease of the rate
	IdleUntil  time.Time     // later than Until if the process is idle: it renews until then
	Slow       bool          // renewals take too much of a lease
	Limited    bool          // the fleet's rate is limited
	Rate       float64       // of this process, in requests per second
	Burst      time.Duration // a quiet process saves the tokens of at most this time
	FirstToken float64       // a fraction of a send token for a process that had no rate, so that not all send at once
	RetryAfter time.Duration // how long the fleet's Retry-After remains in force; 0 means none

	// After the end of the lease, the process continues at its part of the fleet's
	// rate.
	FleetRate float64 // of all processes, in requests per second
	Members   int     // how many Transports share the partition, without those that are idle

	// AloneAtMost is the highest rate of this process without a lease, or 0 if
	// there is none. If it is set, a process with a lease sends in slots: the first
	// one at FirstSlot, and the others at intervals of Every.
	AloneAtMost float64
	FirstSlot   time.Time
	Every       time.Duration
	Slots       int

	// Said has the limits that a response to another process announced last, or is
	// nil if none did.
	Said *Said

	FleetTokens int // tokens in the shared retry token bucket, without those that processes hold
	SpareTokens int // additional tokens for retries after a throttling response
}

// Share makes p follow the leases of a fleet. It must be called before p is used.
func (p *Pacer) Share() {
	if alone, ok := p.law.(pacing.Adopter); ok {
		p.leased = pacing.NewLeased(alone)
		p.law = p.leased
	}
	if p.announcing.Load() {
		p.withLedger(func(time.Duration) { p.ledger.Keep() })
	}
}

// OnWait makes p call f when a request has joined the line, with how many were in
// it and how long the wait is expected to be.
func (p *Pacer) OnWait(f func(ahead int, expected time.Duration)) { p.bucket.OnWait(f) }

// OnLapsed makes p call f for each outcome that comes after the end of the
// lease. It must be called before p has a lease.
func (p *Pacer) OnLapsed(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapsed = f
}

// Lease sets the rate of p until the end of the grant.
func (p *Pacer) Lease(g *Grant) {
	if p.leased == nil {
		return
	}
	lease := pacing.Lease{
		Until: max(g.Until.Sub(p.start), 0), Limited: g.Limited,
		Rate: g.Rate, Capacity: max(g.Rate*g.Burst.Seconds(), p.config.MinCapacity),
		Alone: max(g.FleetRate/float64(max(g.Members, 1)), p.config.MinRate),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updated = max(p.bucket.Now(), p.updated)
	begins := p.leased.Lease(p.updated, lease)
	p.aloneAtMost, p.firstToken = g.AloneAtMost, g.FirstToken
	p.setRate(p.updated)
	switch {
	case g.AloneAtMost > 0:
		p.bucket.AddSlots(tokens.Slots{At: g.FirstSlot.Sub(p.start), Every: g.Every, N: g.Slots})
	case begins:
		p.bucket.SetTokens(g.FirstToken)
	}
	if lease.Limited {
		p.begins()
	}
	if p.lapsing == nil {
		p.lapsing = time.AfterFunc(time.Until(g.Until), p.lapse)
	} else {
		p.lapsing.Reset(time.Until(g.Until))
	}
}

// lapse sets the rate that p has without a lease. A timer calls it at the end of the
// lease, because no outcome may come before the callers in line are served.
func (p *Pacer) lapse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updated = max(p.bucket.Now(), p.updated)
	p.leased.Lapse(p.updated)
	p.setRate(p.updated)
	if p.aloneAtMost > 0 && !p.leased.InForce(p.updated) {
		p.bucket.ClearSlots(p.firstToken)
	}
}

// Alone ends the lease of p. Until the next lease, its rate is at most rate. See
// Grant for firstToken.
func (p *Pacer) Alone(rate, firstToken float64) {
	if p.leased == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updated, p.aloneAtMost, p.firstToken = max(p.bucket.Now(), p.updated), rate, firstToken
	p.leased.Lease(p.updated, pacing.Lease{Until: p.updated, Limited: true, Alone: rate})
	p.leased.Lapse(p.updated)
	p.setRate(p.updated)
	p.bucket.ClearSlots(firstToken)
	p.begins()
}

// Counts returns how many attempts were sent since the last call, and how many
// were throttled.
func (p *Pacer) Counts() (sent int, throttled pacing.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leased == nil {
		return 0, throttled
	}
	n := max(p.sent.Load(), 0) // below 0 after an attempt that counted was not sent
	p.sent.Add(-n)
	return int(n), p.leased.Take()
}

// Unused returns how many tokens are in the bucket, at most one, or how many slots
// are ahead, and how many tokens were lost since the last call.
func (p *Pacer) Unused() (saved, lost float64) {
	saved, lost = min(p.bucket.Tokens(), 1), p.bucket.TakeLost()
	if n, slotted := p.bucket.Ahead(); slotted {
		saved = float64(n)
	}
	return saved, lost
}

// Ahead returns how many slots can still be used, if callers wait for them.
func (p *Pacer) Ahead() (n int, slotted bool) { return p.bucket.Ahead() }
