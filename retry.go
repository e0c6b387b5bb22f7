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

// decide reports whether another attempt follows, as far as that is known
// before the delay, and draws the tokens for it.
func (a *attempt) decide(c *call) bool {
	if a.Stop = a.final(c); a.Stop != "" {
		return false
	}
	delay := a.delay(c)
	if a.Stop = a.tooLate(c, delay); a.Stop != "" {
		return false
	}
	if a.Stop = c.lineTooLong(delay); a.Stop != "" {
		c.partition.share.refuseSendToken()
		return false
	}
	switch {
	case !c.body.Replayable():
		a.Stop = StopBody
	case !a.draw(c):
		a.Stop = StopQuota
		if c.longPolls() {
			a.Delay = delay
		}
	default:
		a.Delay = delay
	}
	return a.Stop == ""
}

// final returns why no other attempt can follow, "" if one may.
func (a *attempt) final(c *call) Stop {
	switch {
	case a.canceled:
		return StopCanceled
	case a.Class == Success:
		return StopSuccess
	case !a.Class.Retryable():
		return StopPermanent
	case c.switchedOff():
		return StopDisabled
	case c.outerRetries():
		return StopOuterRetry
	case c.caller.ended() != nil:
		return StopCanceled
	case a.Number >= c.maxAttempts():
		return StopMaxAttempts
	case a.asked > c.maxRetryAfter:
		return StopRetryAfter
	}
	return ""
}

// delay returns the delay before the next attempt: the backoff's, and at least
// the one that the service asks for.
func (a *attempt) delay(c *call) time.Duration {
	d := a.backoffDelay(c)
	if a.Response != nil && c.revision == Revision2026 {
		d = awsproto.AmzRetryAfter(a.Response.Header, d)
	}
	if a.asked == 0 {
		return d
	}
	asked := gate.Spread(c.caller.Context, c.partitions.spreader, a.asked, c.spread.of(a.asked))
	status := a.Response.StatusCode
	if c.mode == Legacy && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		return addSaturating(d, asked)
	}
	return max(d, asked)
}

// backoffDelay returns the delay of the backoff that applies to the request.
func (a *attempt) backoffDelay(c *call) time.Duration {
	backoff, revision := c.backoff, Exponential{}
	switch {
	case c.dynamoDB != nil && awsproto.DynamoDB(c.req):
		backoff, revision = c.dynamoDB.backoff, backoffDynamoDB2026
	case c.revision == Revision2026:
		revision = backoff2026
	}
	if c.options != nil && c.options.backoff != nil {
		backoff = completed(c.options.backoff, revision)
	}
	return max(backoff.Delay(a.Number-1, a.Class, a.before.delay), 0)
}

// tooLate returns why the next attempt could not be sent in time, as far as
// that is known before the delay, and "" if it may be.
func (a *attempt) tooLate(c *call, delay time.Duration) Stop {
	wait := addSaturating(delay, a.tokenWait(c))
	if c.partition.gate.Load() != nil { // another response's Retry-After may be longer
		wait = max(wait, c.partition.gate.ClosedFor(time.Now()))
	}
	if c.outlivesDeadline(wait) {
		return StopDeadline
	}
	return ""
}

// lineTooLong returns why the next attempt would not get a send token in time
// at the present send rate, and "" if it would.
func (c *call) lineTooLong(delay time.Duration) Stop {
	limiter := c.partition.limiter
	if limiter == nil || c.failFast {
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

// tokenWait returns the least time that a wait for the retry tokens takes.
func (a *attempt) tokenWait(c *call) time.Duration {
	if !c.waitTokens {
		return 0
	}
	return c.partition.quota.soonest(c.costs.of(a.Class))
}

// draw draws the tokens for a retry. If the request's body turns out not to be
// replayable during the pause, they are put back. With Quota.Wait it leaves them to pause.
func (a *attempt) draw(c *call) bool {
	cost := c.costs.of(a.Class)
	if c.waitTokens && cost <= c.capacity {
		a.unpaid = cost
		return true
	}
	if c.partition.quota.lend(c.caller.Context, cost) != nil {
		c.partition.share.refuse()
		if c.patient && cost <= c.capacity && c.caller.ended() == nil {
			a.unpaid = cost
			return true
		}
		return false
	}
	a.next.retryTokens, a.next.lent = cost, cost > 0
	if cost > 0 {
		c.partition.share.signal()
	}
	return true
}

const (
	// readWait is the least time that a retry waits for a Read of the caller's
	// body that is under way. One that takes longer may be of a body that the
	// caller goes on writing when it has the response.
	readWait = time.Second

	// drainWait is the least time that a retry waits for the rest of the
	// response before it, so that its connection can be used again. A new
	// connection takes about as long.
	drainWait = 100 * time.Millisecond
)

// pause waits until the next attempt is due, and reports whether it is to be
// sent.
func (a *attempt) pause(c *call) bool {
	if a.mayBeRefused(c) {
		return a.pauseKeeping(c)
	}
	return a.pauseDiscarding(c)
}

// mayBeRefused reports whether the tokens that the next attempt waits for may
// come too late for it. The response is kept until that is known.
func (a *attempt) mayBeRefused(c *call) bool {
	if c.failFast || a.unpaid > 0 {
		return true
	}
	limiter := c.partition.limiter
	if limiter == nil && !c.shareRetryAfter {
		return false
	}
	if _, ok := c.caller.Deadline(); ok || limiter == nil {
		return ok
	}
	_, ok := limiter.maxWait()
	return ok
}

// pauseDiscarding sleeps the delay while the rest of the response is read.
func (a *attempt) pauseDiscarding(c *call) bool {
	left, ok := a.takeBody(c, a.Delay)
	if !ok {
		return false
	}
	a.report(c)
	discarded := a.discard(c)
	slept := c.sleep(left)
	a.finishDiscarding(c, discarded, max(drainWait-left, 0))
	if !slept || c.caller.ended() != nil {
		a.stopAt(StopCanceled)
		return false
	}
	return true
}

// pauseKeeping sleeps the delay and waits for tokens while the response is
// kept, for it is returned if the tokens are refused.
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

// waitForTokens sleeps the delay and waits for what the next attempt needs.
func (a *attempt) waitForTokens(c *call) error {
	if a.unpaid > 0 {
		if err := a.pay(c); err != nil {
			return err
		}
	}
	if !c.sleep(a.Delay) {
		return c.caller.ended()
	}
	return c.admit(&a.next)
}

// pay waits for the retry tokens that the next attempt has to wait for.
func (a *attempt) pay(c *call) error {
	if err := a.acquireInTime(c); err != nil {
		return err
	}
	a.next.retryTokens, a.next.lent, a.unpaid = a.unpaid, a.unpaid > 0, 0
	if c.outlivesDeadline(a.Delay) {
		return errTooLate
	}
	return nil
}

// acquireInTime waits for the retry tokens, but no longer than the delay after
// it allows.
func (a *attempt) acquireInTime(c *call) error {
	ctx := c.caller.waiting()
	if deadline, ok := ctx.Deadline(); ok {
		earlier, end := context.WithDeadlineCause(ctx, deadline.Add(-a.Delay), errTooLate)
		defer end()
		ctx = earlier
	}
	if !c.waitTokens {
		return c.partition.quota.await(ctx, a.unpaid)
	}
	return c.partition.quota.lend(ctx, a.unpaid)
}

// endWaiting ends the call after an error of waitForTokens.
func (a *attempt) endWaiting(c *call, err error) {
	switch {
	case c.caller.ended() != nil:
		a.giveUp()
	case errors.Is(err, ErrQuotaExceeded) && !c.waitTokens:
		a.stopAt(StopQuota)
	case errors.Is(err, errTooLate), errors.Is(err, ErrQuotaExceeded): // the line was longer than expected
		a.stopAt(StopDeadline)
	case errors.Is(err, ErrRateLimited):
		a.stopAt(StopRateLimit)
	default:
		a.giveUp()
	}
}

// takeBody takes the request's body from the attempt, for the next one. It may
// call GetBody, so the response must not be discarded before. It returns what is
// left of the delay then.
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
		a.giveUp()
	default:
		a.stopAt(StopBody)
	}
	return 0, false
}

// patience returns how long a Read of the caller's body that is under way is
// waited for: as long as the delay, which passes meanwhile, at least a second,
// and not up to the deadline, when the response would be lost.
func (a *attempt) patience(c *call, delay time.Duration) time.Duration {
	limit := max(readWait, delay)
	if deadline, ok := c.caller.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline)/2, 1))
	}
	return limit
}

// discard ends a response that another attempt replaces. Its connection is used
// again after throttling, and generally not after a transient failure (AWS SDKs
// and Tools Reference Guide, "Retry behavior"). The 2026 revision always uses
// it again, unless nothing came back over it.
func (a *attempt) discard(c *call) *respbody.Discarded {
	a.next.freshConn = a.needsFreshConn(c)
	if a.Response == nil {
		return nil
	}
	reuse := a.Class == Throttled || c.revision == Revision2026
	a.closed = true
	return respbody.Discard(a.Response, reuse, a.own.Ender())
}

// needsFreshConn reports whether the next attempt would otherwise meet the
// connection that failed.
func (a *attempt) needsFreshConn(c *call) bool {
	switch {
	case c.conns == nil,
		a.Class == Throttled,
		a.Class == Transient && c.revision == Revision2026,
		neterr.DialFailed(a.Err),
		neterr.StreamFailed(a.Err):
		return false
	}
	return !a.abandoned
}

// finishDiscarding waits for what is left to do with a response after the
// delay, but not up to the deadline.
func (a *attempt) finishDiscarding(c *call, d *respbody.Discarded, limit time.Duration) {
	if d != nil {
		d.Finish(c.caller.waiting(), min(limit, a.patience(c, 0)))
	}
}
