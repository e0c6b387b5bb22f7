package pacer

import "time"

// Share makes p follow the leases of a fleet. It must be called before p is used.
func (p *Pacer) Share() {
	p.leased = &leased{alone: p.law, limits: p.config.limits()}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updated = max(p.bucket.Now(), p.updated)
	begins := p.leased.begin(p.updated, max(g.Until.Sub(p.start), 0), g)
	p.setRate(p.updated)
	switch {
	case g.AloneAtMost > 0:
		p.bucket.AddSlots(g.FirstSlot.Sub(p.start), g.Every, g.Slots)
	case begins:
		p.bucket.SetTokens(g.FirstToken)
	}
	if g.Limited {
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
	p.lapseNow()
}

// lapseNow is lapse at p.updated. It requires that p.mu is held.
func (p *Pacer) lapseNow() {
	p.leased.lapse(p.updated)
	p.setRate(p.updated)
	if p.leased.grant.AloneAtMost > 0 && !p.leased.inForce(p.updated) {
		p.bucket.ClearSlots(p.leased.grant.FirstToken)
	}
}

// Alone ends the lease of p. Until the next lease, its rate is at most rate, which
// is above 0. See Grant for firstToken.
func (p *Pacer) Alone(rate, firstToken float64) {
	if p.leased == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updated = max(p.bucket.Now(), p.updated)
	p.leased.begin(p.updated, p.updated, &Grant{Limited: true, FleetRate: rate, AloneAtMost: rate, FirstToken: firstToken})
	p.lapseNow()
	p.begins()
}

// Counts returns the counts since the last call.
func (p *Pacer) Counts() (c Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leased == nil {
		return c
	}
	n := max(p.sent.Load(), 0) // below 0 after an attempt that counted was not sent
	p.sent.Add(-n)
	c = p.leased.take()
	c.Sent = int(n)
	return c
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
