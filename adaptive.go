package awsretry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/bucket"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/sharing"
)

// ErrRateLimited is returned by [RateLimiter.Wait] when there is no send token
// and RateLimitConfig.FailFast is set. The error for a wait that would be longer
// than RateLimitConfig.MaxWait or the context's deadline allows wraps it, as does
// RoundTrip's error if a shared Retry-After ends after the deadline.
var ErrRateLimited = errors.New("awsretry: send rate limited")

// errTooLate is wrapped by the error of a wait that would end after the context's
// deadline.
var errTooLate = errors.New("would not end before the context's deadline")

// A RateLimiter limits the rate at which requests are sent to a service that
// throttles. Throttling responses lower the rate; other outcomes raise it, as
// the [Pacing] says. Before the first throttling response it does not limit.
// [NewRateLimiter] makes one; the zero RateLimiter never limits. It is safe for
// concurrent use.
//
// Call [RateLimiter.Wait] before each attempt and [RateLimiter.UpdateSent] or
// [RateLimiter.Update] after each outcome. Callers who must wait are served
// first come first served.
type RateLimiter struct {
	err        error                    // of an invalid configuration
	config     RateLimitConfig          // with the defaults; written once
	start      time.Time                // zero of the bucket's clock; written once
	limiting   atomic.Bool              // true from the first throttling response on; written with mu held
	announcing atomic.Bool              // the bucket has a ledger; written with mu held
	limitNames atomic.Pointer[[]string] // of the ledger's limits; written with the bucket's mutex held
	bucket     *bucket.Bucket           // of send tokens; nil if err is set, and in the zero RateLimiter
	sent       atomic.Int64             // attempts since takeCounts

	mu             sync.Mutex    // guards the fields below; locked before the bucket's
	updated        time.Duration // when update was last called, on the bucket's clock
	law            pacing.Law
	leased         *pacing.Leased // the law if many processes share the limiter, or nil
	lapsing        *time.Timer    // calls lapse at the end of the lease; nil before the first one
	lapsed         func()         // see onLapsed; may be nil
	rate, capacity float64        // of the bucket
	aloneAtMost    float64        // the highest rate without a lease; 0 means any
}

// NewRateLimiter returns a limiter that does not limit yet. If c is invalid,
// every [RateLimiter.Wait] returns an error that names the field and what is
// allowed.
func NewRateLimiter(c RateLimitConfig) *RateLimiter {
	if err := c.validate(); err != nil {
		return &RateLimiter{err: fmt.Errorf("awsretry: %w", err)}
	}
	c.Beta = cmp.Or(c.Beta, c.defaultBeta())
	c.ScaleConstant = cmp.Or(c.ScaleConstant, defaultScaleConstant)
	c.Smoothing = cmp.Or(c.Smoothing, defaultSmoothing)
	c.MinFillRate = cmp.Or(c.MinFillRate, defaultMinFillRate)
	c.MinCapacity = cmp.Or(c.MinCapacity, defaultMinCapacity)
	c.MeasureInterval = cmp.Or(c.MeasureInterval, defaultMeasureInterval)
	start := time.Now()
	l := &RateLimiter{config: c, start: start, bucket: bucket.New(start, 0, 0), law: newLaw(c, start)}
	if c.Limits != nil {
		l.keepLedger()
	}
	return l
}

// newLaw returns the law of a configuration that has its defaults, on a clock
// whose zero is start.
func newLaw(c RateLimitConfig, start time.Time) pacing.Adopter {
	limits := pacing.Limits{MinRate: c.MinFillRate, MinCapacity: c.MinCapacity}
	meter := pacing.NewMeter(start, c.MeasureInterval, c.Smoothing)
	if c.Pacing == ScaledPacing {
		return pacing.NewScaled(limits, meter, c.Beta)
	}
	return pacing.NewCubic(limits, meter, c.Beta, c.ScaleConstant)
}

// Wait takes the token that one attempt needs, and waits in line for it. Before
// the first throttling response it takes nothing and returns nil. If ctx has
// ended, or ends during the wait, it takes nothing and returns the context's
// cause.
//
// With FailFast, Wait returns [ErrRateLimited] at once when there is no token.
// Otherwise it returns an error that wraps ErrRateLimited at once when the
// token, at the present send rate, is expected after more than MaxWait or not
// before ctx's deadline.
func (l *RateLimiter) Wait(ctx context.Context) error {
	_, _, err := l.wait(ctx, announced.Request{})
	return err
}

// wait is Wait for that request. It returns the send time, and
// reports whether it took a token.
func (l *RateLimiter) wait(ctx context.Context, req announced.Request) (sent time.Duration, taken bool, err error) {
	if l.err != nil {
		return 0, false, l.err
	}
	if ctx.Err() != nil {
		return 0, false, context.Cause(ctx)
	}
	if !l.limits() {
		return 0, false, nil
	}
	if !l.config.FailFast {
		sent, err = l.waitInLine(ctx, req)
	} else if sent, taken = l.bucket.TakeNow(1, req); !taken {
		err = ErrRateLimited
	}
	if err != nil {
		return 0, false, err
	}
	l.sent.Add(1)
	return sent, true, nil
}

// take takes the token of one attempt if it is there. The limiter must limit. It
// returns the send time for the attempt, and reads the clock once.
func (l *RateLimiter) take(req announced.Request) (sent time.Duration, ok bool) {
	now, ok := l.bucket.TakeNow(1, req)
	if ok {
		l.sent.Add(1)
	}
	if !l.needsSendTime() {
		now = notLimited
	}
	return now, ok
}

// waitInLine takes a token, and waits in line for it.
func (l *RateLimiter) waitInLine(ctx context.Context, req announced.Request) (sent time.Duration, err error) {
	maxWait, limited := l.maxWait()
	sent, err = l.bucket.WaitFor(ctx, 1, req, maxWait, limited)
	if err == nil {
		return sent, nil
	}
	var tooLong *bucket.TooLongError
	switch {
	case !errors.As(err, &tooLong):
		return 0, err
	case limited && tooLong.Expected > maxWait:
		return 0, fmt.Errorf("%w: the expected wait of %v is longer than MaxWait, %v",
			ErrRateLimited, tooLong.Expected, maxWait)
	}
	return 0, fmt.Errorf("%w: the expected wait of %v %w", ErrRateLimited, tooLong.Expected, errTooLate)
}

// maxWait returns the longest wait that waitInLine begins. ok is false if only
// the context limits it.
func (l *RateLimiter) maxWait() (d time.Duration, ok bool) {
	return l.config.MaxWait, l.config.MaxWait > 0
}

// putBack returns a token that was not used.
func (l *RateLimiter) putBack() {
	l.sent.Add(-1)
	l.bucket.Put(1)
}

// limits reports whether Wait takes tokens.
func (l *RateLimiter) limits() bool { return l.limiting.Load() || l.announcing.Load() }

// begins makes Wait take tokens of the law's rate. It requires that l.mu is held.
func (l *RateLimiter) begins() {
	if !l.limiting.Load() {
		l.limiting.Store(true)
		l.bucket.Pace()
	}
}

// line returns how many callers wait for a send token, and how long a new caller
// would wait at the present send rate.
func (l *RateLimiter) line() (waiting int, expected time.Duration) {
	if !l.limits() {
		return 0, 0
	}
	return l.bucket.Line(1)
}

// expectedWait returns how long a new caller of Wait would wait at the present
// send rate.
func (l *RateLimiter) expectedWait() time.Duration {
	_, expected := l.line()
	return expected
}

// Update counts the outcome of an attempt that was sent just now. throttled is
// true for a throttling response, and false for any other response and for a
// transport error.
func (l *RateLimiter) Update(throttled bool) {
	if l.bucket != nil {
		l.updateLatest(l.sendTime(), throttled)
	}
}

// UpdateSent is Update for an attempt that was sent at the given time, which
// [ScaledPacing] makes use of: requests that were sent before the rate was last
// cut do not cut it again. A zero time means before that.
func (l *RateLimiter) UpdateSent(sent time.Time, throttled bool) {
	if l.bucket != nil {
		l.updateLatest(sent.Sub(l.start), throttled)
	}
}

// updateLatest is updateAt for a caller who knows only about when the request
// was sent.
func (l *RateLimiter) updateLatest(sent time.Duration, throttled bool) {
	if l.announcing.Load() {
		l.settle(l.latest(sent), true)
	}
	l.count(sent, throttled)
}

// notLimited is the send time of an attempt that took no send token, unless many
// processes share the limiter.
const notLimited time.Duration = 0

// sendTime returns the time on the bucket's clock if the limiter uses the send
// time of an attempt that took a token, or notLimited.
func (l *RateLimiter) sendTime() time.Duration {
	if !l.needsSendTime() {
		return notLimited
	}
	return l.bucket.Now()
}

// sharedSendTime returns the time on the bucket's clock if many processes share
// the limiter, which measures round trips before it limits, or notLimited.
func (l *RateLimiter) sharedSendTime() time.Duration {
	if l == nil || l.leased == nil {
		return notLimited
	}
	l.sent.Add(1)
	return l.bucket.Now()
}

// needsSendTime reports whether the outcome of an attempt depends on when it was
// sent.
func (l *RateLimiter) needsSendTime() bool {
	return l.config.Pacing != CubicPacing || l.leased != nil || l.announcing.Load()
}

// updateAt counts the outcome of an attempt. sent is its send time on the
// bucket's clock.
func (l *RateLimiter) updateAt(sent time.Duration, throttled bool) {
	l.settle(sent, true)
	l.count(sent, throttled)
}

// count is updateAt for a request that is settled.
func (l *RateLimiter) count(sent time.Duration, throttled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.update(l.bucket.Now(), sent, throttled)
}

// update is updateAt at the time now. It requires that l.mu is held.
func (l *RateLimiter) update(now, sent time.Duration, throttled bool) {
	now = max(now, l.updated) // so that no interval is negative
	l.updated = now
	l.law.Update(now, min(sent, now), throttled)
	if l.lapsed != nil && !l.leased.InForce(now) {
		l.lapsed()
	}
	l.setRate(now)
	if throttled { // not before there is a rate to wait at
		l.begins()
	}
}

// setRate gives the bucket the law's rate. It does not lock the bucket if the
// rate is the same, as it mostly is before the first throttling response.
// It requires that l.mu is held.
func (l *RateLimiter) setRate(now time.Duration) {
	rate, capacity := l.law.Pace()
	if l.aloneAtMost > 0 && !l.leased.InForce(now) {
		rate, capacity = min(rate, l.aloneAtMost), 1
	}
	if rate != l.rate || capacity != l.capacity {
		l.rate, l.capacity = rate, capacity
		l.bucket.SetRate(now, rate, capacity)
	}
}

// Rates returns the measured rate of outcomes, or with ScaledPacing of those
// that were not throttled, and the rate at which send tokens come back, both
// per second. It also returns whether the limiter limits, which it does from
// the first throttling response on. The send rate is 0 until the first
// [RateLimiter.Update], and until the limiter limits with ScaledPacing.
func (l *RateLimiter) Rates() (measured, send float64, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.law == nil {
		return 0, 0, false
	}
	return l.law.Measured(), l.rate, l.limiting.Load()
}

// Announce tells the limiter what a response announced whose request was sent at
// that time. From then on Wait also waits until every limit has room for a
// request. A response to whose request the service said no counts as one that
// says that nothing remains. Call it before [RateLimiter.UpdateSent].
//
// Wait counts a request as in flight until Update or UpdateSent. A limit is
// forgotten if a response after its reset does not announce it.
func (l *RateLimiter) Announce(sent time.Time, limits []Limit) {
	if l.bucket == nil {
		return
	}
	throttled := false
	for _, limit := range limits {
		throttled = throttled || limit.Remaining < 1
	}
	if len(limits) > 0 {
		l.keepLedger()
	}
	if l.announcing.Load() {
		l.announce(l.latest(sent.Sub(l.start)), announcement{limits: limits, throttled: throttled, pending: true})
	}
}

// latest returns the send time, on the bucket's clock, of the request in flight
// that a caller of Wait most likely means by that time.
func (l *RateLimiter) latest(sent time.Duration) time.Duration {
	l.bucket.Ledger(func(ledger *announced.Ledger, now time.Duration) {
		if sent < 0 || sent > now { // a zero time
			sent = now
		}
		sent = ledger.Latest(sent)
	})
	return sent
}

// An announcement is what a response says of the limits.
type announcement struct {
	limits     []Limit
	throttled  bool
	retryAfter time.Duration // 0: none
	free       bool          // the service did not count the request
	pending    bool          // the request counts as in flight until it is settled
}

// announce is Announce for the request with that send time. It reports whether a
// limit explains a throttling response.
func (l *RateLimiter) announce(sent time.Duration, a announcement) (explained bool) {
	var known [8]announced.Limit
	list := known[:0]
	for _, limit := range a.limits {
		list = append(list, announced.Limit(limit))
	}
	l.bucket.Ledger(func(ledger *announced.Ledger, now time.Duration) {
		explained = ledger.Announce(now, sent, announced.Answer{
			Limits: list, Throttled: a.throttled, Free: a.free, RetryAfter: a.retryAfter,
		})
		if !a.pending {
			ledger.Settle(sent, !a.free)
		}
		l.noteNames(ledger)
	})
	return explained
}

// noteNames makes request ask for the limits of the ledger. It requires that the
// bucket is locked.
func (l *RateLimiter) noteNames(ledger *announced.Ledger) {
	if old, names := l.limitNames.Load(), ledger.Names(); len(names) > 0 && (old == nil || &(*old)[0] != &names[0]) {
		changed := names // which would be on the heap for each response
		l.limitNames.Store(&changed)
	}
}

// said returns what a response announced last, or nil.
func (l *RateLimiter) said() (said *sharing.Said) {
	if l.announcing.Load() {
		l.bucket.Ledger(func(ledger *announced.Ledger, now time.Duration) {
			if limits, throttled, sent, heard := ledger.Said(); len(limits) > 0 {
				said = &sharing.Said{Limits: limits, Throttled: throttled, Sent: now - sent, Heard: now - heard}
			}
		})
	}
	return said
}

// hear is what a response to another process announced.
func (l *RateLimiter) hear(said *sharing.Said) {
	if l.announcing.Load() {
		l.bucket.Ledger(func(ledger *announced.Ledger, now time.Duration) {
			ledger.Hear(now, now-said.Sent, now-said.Heard, said.Limits, said.Throttled)
			l.noteNames(ledger)
		})
	}
}

// keepLedger begins to count requests in flight, and to wait for limits.
func (l *RateLimiter) keepLedger() {
	if l.announcing.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.announcing.Load() {
		l.bucket.Announce(announced.New(l.config.Reserve), l.limiting.Load())
		l.announcing.Store(true)
	}
}

// settle ends the request in flight with that send time. used says whether the
// service may have counted it.
func (l *RateLimiter) settle(sent time.Duration, used bool) {
	if l.announcing.Load() {
		l.bucket.Ledger(func(ledger *announced.Ledger, _ time.Duration) { ledger.Settle(sent, used) })
	}
}

// request returns what the limits need to know of a request.
func (l *RateLimiter) request(req *http.Request) (r announced.Request) {
	if !l.announcing.Load() {
		return r
	}
	r.Route = announced.RouteOf(req.Method, req.URL.Path)
	names := l.limitNames.Load()
	if l.config.Cost == nil || names == nil {
		return r
	}
	r.Costs = &announced.Costs{Names: *names}
	for i, name := range *names {
		r.Costs.Values[i] = l.config.Cost(req, name)
	}
	return r
}

// limitsNow returns the limits, with what is in flight taken off.
func (l *RateLimiter) limitsNow() (limits []Limit) {
	if l.announcing.Load() {
		l.bucket.Ledger(func(ledger *announced.Ledger, now time.Duration) {
			for _, limit := range ledger.State(now) {
				limits = append(limits, Limit(limit))
			}
		})
	}
	return limits
}

// delays reports whether requests may have to wait.
func (l *RateLimiter) delays() (delays bool) {
	if l.limiting.Load() || !l.announcing.Load() {
		return l.limiting.Load()
	}
	l.bucket.Ledger(func(ledger *announced.Ledger, now time.Duration) { delays = ledger.Limits(now) })
	return delays
}
