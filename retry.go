package awsretry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/gate"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/respbody"
)

// decide decides whether another attempt follows, as far as that is known
// before the delay, and draws the tokens for it. If it returns false, it sets
// the record's Stop.
func (a *attempt) decide(c *call) bool {
	if a.record.Stop = a.final(c); a.record.Stop != "" {
		return false
	}
	delay := a.nextDelay(c)
	if a.record.Stop = a.tooLate(c, delay); a.record.Stop != "" {
		return false
	}
	if a.record.Stop = c.lineTooLong(delay); a.record.Stop != "" {
		c.partition.share.refuseSendToken()
		return false
	}
	switch {
	case !c.body.Replayable():
		a.record.Stop = StopBody
	case !a.draw(c):
		a.record.Stop = StopQuota
		if c.longPolls() {
			a.record.Delay = delay
		}
	default:
		a.record.Delay = delay
	}
	return a.record.Stop == ""
}

// final returns the reason why no attempt can follow this one, or "" if one
// may.
func (a *attempt) final(c *call) Stop {
	switch {
	case a.canceled:
		return c.interrupted()
	case a.record.Class == Success:
		return StopSuccess
	case !a.record.Class.Retryable():
		return StopPermanent
	case c.switchedOff():
		return StopDisabled
	case c.outerRetries():
		return StopOuterRetry
	case c.caller.ended() != nil:
		return c.interrupted()
	case a.record.Number >= c.maxAttempts():
		return StopMaxAttempts
	case a.record.Asked > c.config.maxRetryAfter:
		return StopRetryAfter
	}
	return ""
}

// nextDelay returns the delay before the next attempt: that of the backoff, but
// at least the one that the service asked for.
func (a *attempt) nextDelay(c *call) time.Duration {
	d := a.backoffDelay(c)
	if a.record.Response != nil && c.config.revision == Revision2026 {
		d = awsproto.AmzRetryAfter(a.record.Response.Header, d)
	}
	if a.record.Asked == 0 {
		return d
	}
	asked := gate.Spread(c.caller.Context, c.config.partitions.spreader, a.record.Asked, c.config.spread.of(a.record.Asked))
	status := a.record.Response.StatusCode
	if c.config.mode == Legacy && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		return addSaturating(d, asked)
	}
	return max(d, asked)
}

// backoffDelay returns the delay of the request's backoff.
func (a *attempt) backoffDelay(c *call) time.Duration {
	backoff, revision := c.config.backoff, Exponential{}
	switch {
	case c.config.dynamoDB != nil && awsproto.DynamoDB(c.req):
		backoff, revision = c.config.dynamoDB.backoff, backoffDynamoDB2026
	case c.config.revision == Revision2026:
		revision = backoff2026
	}
	if c.options != nil && c.options.backoff != nil {
		backoff = completed(c.options.backoff, revision)
	}
	return max(backoff.Delay(a.record.Number-1, a.record.Class, a.before.delay), 0)
}

// tooLate returns StopDeadline if the next attempt could not be sent before the
// deadline, as far as that is known before the delay, and "" otherwise.
func (a *attempt) tooLate(c *call, delay time.Duration) Stop {
	wait := addSaturating(delay, a.tokenWait(c))
	if c.partition.gate.Load() != nil { // the Retry-After of another response may be longer
		wait = max(wait, c.partition.gate.ClosedFor(time.Now()))
	}
	if c.outlivesDeadline(wait) {
		return StopDeadline
	}
	return ""
}

// lineTooLong returns the reason to stop if the next attempt would not get a
// send token in time at the current send rate, and "" otherwise.
func (c *call) lineTooLong(delay time.Duration) Stop {
	limiter := c.partition.limiter
	if limiter == nil || c.config.failFast {
		return ""
	}
	expected := limiter.expectedWait()
	longest, limited := limiter.maxWait()
	switch {
	case limited && expected-delay > longest:
		return StopRateLimit
	case c.outlivesDeadline(expected):
		return StopDeadline
	}
	return ""
}

// tokenWait returns a lower bound on the wait for the retry tokens.
func (a *attempt) tokenWait(c *call) time.Duration {
	if !c.config.waitTokens {
		return 0
	}
	return c.partition.quota.soonest(c.config.costs.of(a.record.Class))
}

// draw draws the tokens for a retry, and reports whether there may be one. If
// they have to be waited for, it leaves that to pause.
func (a *attempt) draw(c *call) bool {
	cost := c.config.costs.of(a.record.Class)
	if c.config.waitTokens && cost <= c.config.capacity {
		a.unpaid = cost
		return true
	}
	if c.partition.quota.lend(c.caller.Context, cost) != nil {
		throttled := a.record.Class == Throttled
		c.partition.share.refuse(throttled)
		a.granting = !c.patient && c.partition.share.mayGrant(cost, throttled)
		if (c.patient || a.granting) && cost <= c.config.capacity && c.caller.ended() == nil {
			a.unpaid = cost
			return true
		}
		return false
	}
	a.next.borrowed(c.partition, cost)
	if cost > 0 {
		c.partition.share.signal()
	}
	return true
}

const (
	// readWait is the minimum time that a retry waits for a Read of the caller's
	// body in progress. If the Read takes longer, the caller may be writing the
	// rest of the body only after it has the response.
	readWait = time.Second

	// drainWait is the minimum time that a retry waits for the rest of the
	// response before it, so that its connection can be used again. A new
	// connection takes about as long.
	drainWait = 100 * time.Millisecond
)

// pause waits until the next attempt is due, and reports whether it may be
// sent.
func (a *attempt) pause(c *call) bool {
	if a.mayBeRefused(c) {
		return a.pauseKeeping(c)
	}
	return a.pauseDiscarding(c)
}

// mayBeRefused reports whether the tokens that the next attempt waits for may
// come too late. The response is kept until that is known.
func (a *attempt) mayBeRefused(c *call) bool {
	if c.config.failFast || a.unpaid > 0 {
		return true
	}
	limiter := c.partition.limiter
	if limiter == nil && !c.config.shareRetryAfter {
		return false
	}
	if _, ok := c.caller.Deadline(); ok || limiter == nil {
		return ok
	}
	_, ok := limiter.maxWait()
	return ok
}

// pauseDiscarding sleeps for the delay while the rest of the response is read.
func (a *attempt) pauseDiscarding(c *call) bool {
	left, ok := a.takeBody(c, a.record.Delay)
	if !ok {
		return false
	}
	a.report(c)
	discarded := a.discard(c)
	slept := c.sleep(left)
	a.finishDiscarding(c, discarded, max(drainWait-left, 0))
	if !slept || c.caller.ended() != nil {
		a.stopAt(c.interrupted())
		return false
	}
	return true
}

// pauseKeeping sleeps for the delay and waits for tokens. It keeps the
// response, which is returned if the tokens are refused.
func (a *attempt) pauseKeeping(c *call) bool {
	defer a.own.Hold()()
	if err := a.waitForTokens(c); err != nil {
		a.endWaiting(c, err)
		return false
	}
	if _, ok := a.takeBody(c, 0); !ok {
		return false
	}
	a.report(c)
	a.finishDiscarding(c, a.discard(c), drainWait)
	return true
}

// waitForTokens sleeps for the delay and waits for what the next attempt needs.
func (a *attempt) waitForTokens(c *call) error {
	left := a.record.Delay
	if a.unpaid > 0 {
		var err error
		if left, err = a.pay(c); err != nil {
			return err
		}
	}
	if !c.sleep(left) {
		return c.caller.ended()
	}
	return c.admit(&a.next)
}

// pay waits for the retry tokens that draw left to pause. It returns what is left
// of the delay, of which a wait for a fleet is a part.
func (a *attempt) pay(c *call) (left time.Duration, err error) {
	start := time.Now()
	if err := a.acquireInTime(c); err != nil {
		return 0, err
	}
	a.next.borrowed(c.partition, a.unpaid)
	a.unpaid = 0
	if left = a.record.Delay; a.granting {
		left = max(left-time.Since(start), 0)
	}
	if c.outlivesDeadline(left) {
		return 0, errTooLate
	}
	return left, nil
}

// acquireInTime waits for the retry tokens, as long as the delay after it would
// end before the deadline.
func (a *attempt) acquireInTime(c *call) error {
	ctx := c.caller.waiting()
	switch deadline, ok := ctx.Deadline(); {
	case a.granting:
		within, end := context.WithTimeoutCause(ctx, a.grantWait(), ErrQuotaExceeded)
		defer end()
		ctx = within
	case ok:
		earlier, end := context.WithDeadlineCause(ctx, deadline.Add(-a.record.Delay), errTooLate)
		defer end()
		ctx = earlier
	}
	if a.granting {
		return c.partition.share.awaitTokens(ctx, a.unpaid)
	}
	if !c.config.waitTokens {
		return c.partition.quota.await(ctx, a.unpaid)
	}
	return c.partition.quota.lend(ctx, a.unpaid)
}

// grantWait returns how long a retry waits for the tokens of a fleet: its delay,
// and after throttling at least as long as it takes to hear from the fleet.
func (a *attempt) grantWait() time.Duration {
	const renewal = 250 * time.Millisecond
	if a.record.Class == Throttled {
		return max(a.record.Delay, renewal)
	}
	return a.record.Delay
}

// endWaiting ends the call after an error of waitForTokens.
func (a *attempt) endWaiting(c *call, err error) {
	switch {
	case c.caller.ended() != nil:
		a.giveUp(c)
	case errors.Is(err, ErrQuotaExceeded) && !c.config.waitTokens:
		a.stopAt(StopQuota)
	case errors.Is(err, errTooLate), errors.Is(err, ErrQuotaExceeded): // the wait is longer than expected
		a.stopAt(StopDeadline)
	case errors.Is(err, ErrRateLimited):
		a.stopAt(StopRateLimit)
	default:
		a.giveUp(c)
	}
}

// takeBody takes the request's body from the attempt, for the next one. It
// returns what is left of the delay. It may end the call, so it requires that
// the response is not discarded yet.
func (a *attempt) takeBody(c *call, delay time.Duration) (left time.Duration, ok bool) {
	if !c.body.Copied() {
		return delay, true
	}
	defer a.own.Hold()()
	waited, ok := c.body.Freeze(c.caller.waiting(), a.patience(c, delay))
	switch {
	case ok:
		return max(delay-waited, 0), true
	case c.caller.ended() != nil:
		a.giveUp(c)
	default:
		a.stopAt(StopBody)
	}
	return 0, false
}

// patience returns how long takeBody waits for a Read of the caller's body in
// progress: for the delay, which passes meanwhile, but at least for a second.
// It leaves half of the time until the deadline, after which the response would
// be lost.
func (a *attempt) patience(c *call, delay time.Duration) time.Duration {
	limit := max(readWait, delay)
	if deadline, ok := c.caller.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline)/2, 1))
	}
	return limit
}

// discard ends a response that another attempt replaces. After throttling its
// connection is used again, and generally not after a transient failure (AWS
// SDKs and Tools Reference Guide, "Retry behavior"). The 2026 revision always
// uses it again, unless there was no response.
func (a *attempt) discard(c *call) *respbody.Discarded {
	a.next.freshConn = a.needsFreshConn(c)
	if a.record.Response == nil {
		return nil
	}
	reuse := a.record.Class == Throttled || c.config.revision == Revision2026
	a.closed = true
	return respbody.Discard(a.record.Response, reuse, a.own.Ender())
}

// needsFreshConn reports whether the next attempt might otherwise use the
// connection that failed.
func (a *attempt) needsFreshConn(c *call) bool {
	switch {
	case c.config.conns == nil,
		a.record.Class == Throttled,
		a.record.Class == Transient && c.config.revision == Revision2026,
		neterr.DialFailed(a.record.Err),
		neterr.StreamFailed(a.record.Err):
		return false
	}
	return !a.abandoned
}

// finishDiscarding waits after the delay until the response is discarded, for
// at most limit and not up to the deadline.
func (a *attempt) finishDiscarding(c *call, d *respbody.Discarded, limit time.Duration) {
	if d != nil {
		d.Finish(c.caller.waiting(), min(limit, a.patience(c, 0)))
	}
}
