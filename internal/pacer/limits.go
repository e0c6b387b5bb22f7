package pacer

import (
	"net/http"
	"time"

	"example.com/awsretry/internal/announced"
)

// A Cost returns how many units a request takes from the named limit.
type Cost func(req *http.Request, limit string) float64

// An Announcement is the part of a response that concerns limits. Processes of a
// fleet send each other the fields that JSON has.
type Announcement struct {
	Limits     []announced.Limit
	Throttled  bool
	RetryAfter time.Duration `json:"-"` // 0 means none
	Free       bool          `json:"-"` // the service did not count the request
	Pending    bool          `json:"-"` // the request is in flight until Update

	// How long ago the request was sent and the response came, from Said and for
	// Hear.
	Sent, Heard time.Duration
}

// Announce updates the limits with the response to the request that was sent at
// sent.
func (p *Pacer) Announce(sent time.Duration, a Announcement) {
	p.withLedger(func(now time.Duration) {
		p.ledger.Announce(now, sent, announced.Answer{
			Limits: a.Limits, Throttled: a.Throttled, Free: a.Free, RetryAfter: a.RetryAfter,
		})
		if !a.Pending {
			p.ledger.Settle(sent, !a.Free)
		}
		p.noteNames()
	})
}

// AnnounceSent is Announce for a caller that knows the send time only approximately.
// It must be called before UpdateSent.
func (p *Pacer) AnnounceSent(sent time.Time, limits []announced.Limit) {
	throttled := false
	for _, limit := range limits {
		throttled = throttled || limit.Remaining < 1
	}
	if len(limits) > 0 {
		p.keepLedger()
	}
	if p.announcing.Load() {
		p.Announce(p.latest(sent.Sub(p.start)), Announcement{Limits: limits, Throttled: throttled, Pending: true})
	}
}

// updateLatest is Update for the request that was most likely sent at sent.
func (p *Pacer) updateLatest(sent time.Duration, throttled bool) {
	if p.announcing.Load() {
		p.Settle(p.latest(sent), true)
	}
	p.Count(sent, throttled)
}

// latest returns the send time of the request in flight that was most likely sent at
// sent.
func (p *Pacer) latest(sent time.Duration) time.Duration {
	p.withLedger(func(now time.Duration) {
		if sent < 0 || sent > now { // a zero time
			sent = now
		}
		sent = p.ledger.Latest(sent)
	})
	return sent
}

// Settle ends the request that was sent at sent. used reports whether the service may
// have counted it.
func (p *Pacer) Settle(sent time.Duration, used bool) {
	if p.announcing.Load() {
		p.withLedger(func(time.Duration) { p.ledger.Settle(sent, used) })
	}
}

// withLedger calls f with the ledger locked. There must be a ledger.
func (p *Pacer) withLedger(f func(now time.Duration)) { p.bucket.Locked(f) }

// keepLedger begins to count requests in flight, and to wait for limits.
func (p *Pacer) keepLedger() {
	if p.announcing.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.announcing.Load() {
		p.ledger = announced.New(p.config.Reserve)
		p.bucket.Limit(p.ledger, p.limiting.Load())
		p.announcing.Store(true)
	}
}

// noteNames makes Request ask for the limits of the ledger. It requires that the
// ledger is locked.
func (p *Pacer) noteNames() {
	if old, names := p.limitNames.Load(), p.ledger.Names(); len(names) > 0 && (old == nil || &(*old)[0] != &names[0]) {
		changed := names // which would be on the heap for each response
		p.limitNames.Store(&changed)
	}
}

// Request returns the properties of a request on which the limits depend. A request
// without a URL, which net/http refuses, has none.
func (p *Pacer) Request(req *http.Request) (r announced.Request) {
	if !p.announcing.Load() || req.URL == nil {
		return r
	}
	r.Route = announced.RouteOf(req.Method, req.URL.Path)
	names := p.limitNames.Load()
	if p.config.Cost == nil || names == nil {
		return r
	}
	r.Costs = make(map[string]float64, len(*names))
	for _, name := range *names {
		r.Costs[name] = p.config.Cost(req, name)
	}
	return r
}

// Limits returns the limits, less the requests in flight.
func (p *Pacer) Limits() (limits []announced.Limit) {
	if p.announcing.Load() {
		p.withLedger(func(now time.Duration) { limits = p.ledger.State(now) })
	}
	return limits
}

// Said returns the limits that a response announced last, or nil.
func (p *Pacer) Said() (said *Announcement) {
	if p.announcing.Load() {
		p.withLedger(func(now time.Duration) {
			if limits, throttled, sent, heard := p.ledger.Said(); len(limits) > 0 {
				said = &Announcement{Limits: limits, Throttled: throttled, Sent: now - sent, Heard: now - heard}
			}
		})
	}
	return said
}

// Hear updates the limits with a response to another process.
func (p *Pacer) Hear(said *Announcement) {
	if p.announcing.Load() {
		p.withLedger(func(now time.Duration) {
			p.ledger.Hear(now, now-said.Sent, now-said.Heard, said.Limits, said.Throttled)
			p.noteNames()
		})
	}
}
