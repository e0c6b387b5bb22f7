// Package pacer decides when a request may be sent to a service that throttles: at
// the rate of a law of package pacing or of a lease, and when every limit that the
// service announces has room for it.
package pacer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/tokens"
)

var (
	// ErrRateLimited is that of package awsretry.
	ErrRateLimited = errors.New("awsretry: send rate limited")

	// ErrTooLate is wrapped by the error of a wait that would end after the context's
	// deadline.
	ErrTooLate = errors.New("would not end before the context's deadline")
)

// NewLaw returns another law, on a clock whose zero is start.
func (p *Pacer) NewLaw(start time.Time) pacing.Law { return p.config.newLaw(start) }

// A Pacer hands out send tokens, first come first served. Before the first
// throttling response, announced limit or lease, requests need no token. A Pacer is
// safe for concurrent use.
type Pacer struct {
	config     Config                   // written once
	start      time.Time                // zero of the bucket's clock; written once
	limiting   atomic.Bool              // true from the first throttling response on; written with mu held
	announcing atomic.Bool              // there is a ledger; written with mu held
	limitNames atomic.Pointer[[]string] // of the ledger's limits; written with the bucket's mutex held
	bucket     *tokens.Bucket
	ledger     *announced.Ledger // guarded by the bucket's mutex; written before announcing is true
	sent       atomic.Int64      // attempts since Counts

	mu             sync.Mutex    // guards the fields below; locked before the bucket's
	updated        time.Duration // when update was last called, on the bucket's clock
	began          time.Duration // when the first throttling response came, like updated
	law            pacing.Law    // of this process alone
	leased         *leased       // nil unless many processes share the rate
	lapsing        *time.Timer   // calls lapse at the end of the lease; nil before the first one
	lapsed         func()        // see OnLapsed; may be nil
	rate, capacity float64       // of the bucket
}

// New returns a Pacer that does not limit yet.
func New(c Config) *Pacer {
	c, start := c.WithDefaults(), time.Now()
	p := &Pacer{config: c, start: start, bucket: tokens.New(start, 0, 0), law: c.newLaw(start)}
	if c.Limits {
		p.keepLedger()
	}
	return p
}

// TakesTokens reports whether a request needs a token.
func (p *Pacer) TakesTokens() bool { return p.limiting.Load() || p.announcing.Load() }

// Take takes a token for one request, if there is one and no other request waits for
// it. It must not be called unless TakesTokens returns true. Take returns the send
// time, by which the outcome is reported. It reads the clock once.
func (p *Pacer) Take(req announced.Request) (sent time.Duration, ok bool) {
	now, ok := p.bucket.TakeNow(1, req)
	if ok {
		p.sent.Add(1)
	}
	if !p.needsSendTime() {
		now = notLimited
	}
	return now, ok
}

// Wait waits in line for the token of one request, unless requests need none. It
// returns the send time, and reports whether it took a token. Its error is the
// cause of ctx's end, or wraps ErrRateLimited.
func (p *Pacer) Wait(ctx context.Context, req announced.Request) (sent time.Duration, taken bool, err error) {
	switch {
	case ctx.Err() != nil:
		return notLimited, false, context.Cause(ctx)
	case !p.TakesTokens():
		return p.SendFree(), false, nil
	case p.config.FailFast:
		if sent, taken = p.Take(req); !taken {
			err = ErrRateLimited
		}
		return sent, taken, err
	}
	longest, limited := p.MaxWait()
	sent, err = p.bucket.WaitFor(ctx, 1, req, longest, limited)
	if err == nil {
		p.sent.Add(1)
		if !p.needsSendTime() {
			sent = notLimited
		}
		return sent, true, nil
	}
	var tooLong *tokens.TooLongError
	switch {
	case !errors.As(err, &tooLong):
	case limited && tooLong.Expected > longest:
		err = fmt.Errorf("%w: the expected wait of %v is longer than MaxWait, %v", ErrRateLimited, tooLong.Expected, longest)
	default:
		err = fmt.Errorf("%w: the expected wait of %v %w", ErrRateLimited, tooLong.Expected, ErrTooLate)
	}
	return notLimited, false, err
}

// MaxWait returns the longest wait that Wait begins. ok is false if only the
// context limits it.
func (p *Pacer) MaxWait() (d time.Duration, ok bool) { return p.config.MaxWait, p.config.MaxWait > 0 }

// PutBack returns the token of a request that was not sent, and ends the request.
func (p *Pacer) PutBack(sent time.Duration) {
	p.sent.Add(-1)
	p.bucket.Put(1)
	p.Settle(sent, false)
}

// begins makes requests need tokens of the law's rate. It requires that p.mu is
// held.
func (p *Pacer) begins() {
	if !p.limiting.Load() {
		p.limiting.Store(true)
		p.began = p.updated
		p.bucket.Pace()
	}
}

// ExpectedWait returns how long a new request would wait at the current rate.
func (p *Pacer) ExpectedWait(req *http.Request) time.Duration {
	if !p.TakesTokens() {
		return 0
	}
	return p.bucket.ExpectedWait(1, p.Request(req))
}

// Waiting returns how many callers wait for a token.
func (p *Pacer) Waiting() int { return p.bucket.Waiting() }

// Line returns how many callers wait for a token, and how long a new one would wait
// at the current rate, if its route were the one that waits longest.
func (p *Pacer) Line() (waiting int, expected time.Duration) {
	if !p.TakesTokens() {
		return 0, 0
	}
	return p.bucket.Line(1)
}

// notLimited is the send time of an attempt that took no token, unless many
// processes share the rate.
const notLimited time.Duration = 0

// SendTime returns the send time of a request that is sent now and whose token
// was taken elsewhere.
func (p *Pacer) SendTime() time.Duration {
	if !p.needsSendTime() {
		return notLimited
	}
	return p.bucket.Now()
}

// SendFree returns the send time of a request that needs no token. Where many
// processes share the rate, round trips are measured before it is limited.
func (p *Pacer) SendFree() time.Duration {
	if p.leased == nil {
		return notLimited
	}
	p.sent.Add(1)
	return p.bucket.Now()
}

// needsSendTime reports whether the outcome of an attempt depends on when it was
// sent.
func (p *Pacer) needsSendTime() bool {
	return p.config.Scaled || p.leased != nil || p.announcing.Load()
}

// Update counts the outcome of the request that was sent at sent, and ends it.
func (p *Pacer) Update(sent time.Duration, throttled bool) {
	p.Settle(sent, true)
	p.Count(sent, throttled)
}

// UpdateNow is Update for a request that was sent just now.
func (p *Pacer) UpdateNow(throttled bool) { p.updateLatest(p.SendTime(), throttled) }

// UpdateSent is Update for a caller that knows the send time only approximately.
func (p *Pacer) UpdateSent(sent time.Time, throttled bool) {
	p.updateLatest(sent.Sub(p.start), throttled)
}

// Count is Update for a request that has ended.
func (p *Pacer) Count(sent time.Duration, throttled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.update(p.bucket.Now(), sent, throttled)
}

// update is Count at the time now. It requires that p.mu is held.
func (p *Pacer) update(now, sent time.Duration, throttled bool) {
	now = max(now, p.updated) // so that no interval is negative
	p.updated = now
	switch sent = min(sent, now); {
	case p.leased != nil:
		p.leased.update(now, sent, throttled)
	case sent < p.began: // it took no token, only limits
		p.law.Update(now, notLimited, throttled)
	default:
		p.law.Update(now, sent, throttled)
	}
	if p.lapsed != nil && !p.leased.inForce(now) {
		p.lapsed()
	}
	p.setRate(now)
	if throttled { // not before there is a rate to wait at
		p.begins()
	}
}

// setRate gives the bucket the law's rate. It does not lock the bucket if the
// rate is the same, as it mostly is before the first throttling response.
// It requires that p.mu is held.
func (p *Pacer) setRate(now time.Duration) {
	rate, capacity := p.law.Pace()
	if p.leased != nil {
		rate, capacity = p.leased.pace(now)
	}
	if rate != p.rate || capacity != p.capacity {
		p.rate, p.capacity = rate, capacity
		p.bucket.SetRate(now, rate, capacity)
	}
}

// Rates returns the measured rate, the send rate, and whether that is limited.
func (p *Pacer) Rates() (measured, send float64, limited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.law.Measured(), p.rate, p.limiting.Load()
}

// Delays reports whether requests may have to wait.
func (p *Pacer) Delays() (delays bool) {
	if p.limiting.Load() || !p.announcing.Load() {
		return p.limiting.Load()
	}
	p.withLedger(func(now time.Duration) { delays = p.ledger.Limits(now) })
	return delays
}
