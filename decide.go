package awsretry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/jitter"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/replay"
	"example.com/awsretry/internal/respbody"
)

// run makes the present attempt and those that follow it, up to the last.
func (c *call) run() (*http.Response, error) {
	for {
		if err := c.waitTurn(); err != nil {
			return nil, err
		}
		if err := c.exchange(); err != nil {
			return nil, err
		}
		if !c.conclude() {
			return c.finish()
		}
	}
}

// conclude takes the outcome of the present attempt. It returns true when another
// attempt is due, which is the present one then.
func (c *call) conclude() bool {
	c.classify()
	c.applyOutcome()
	if !c.decide() || !c.pause() {
		return false
	}
	c.advance()
	return true
}

// decide decides whether another attempt follows, as far as that is known
// before the delay, and draws the tokens for it. If it returns false, it sets
// the record's Stop.
func (c *call) decide() bool {
	if c.record.Stop = c.final(); c.record.Stop != "" {
		return false
	}
	delay := c.nextDelay()
	if c.record.Stop = c.tooLate(delay); c.record.Stop != "" {
		return false
	}
	if c.record.Stop = c.lineTooLong(delay); c.record.Stop != "" {
		c.partition.Share.RefuseSendToken()
		return false
	}
	switch {
	case !c.body.Replayable():
		c.stopForBody()
	case !c.draw():
		c.record.Stop = StopQuota
		if c.longPolls() {
			c.record.Delay = delay
		}
	default:
		c.record.Delay = delay
	}
	return c.record.Stop == ""
}

// final returns the reason why no attempt can follow this one, or "" if one
// may.
func (c *call) final() Stop {
	switch {
	case c.canceled:
		return c.interrupted()
	case c.record.Class == Success:
		return StopSuccess
	case errors.Is(c.body.Err(), replay.ErrDiffers):
		c.record.BodyErr = replay.ErrDiffers
		return StopBody
	case !c.record.Class.Retryable():
		return StopPermanent
	case c.options.noRetry:
		return StopDisabled
	case c.outer:
		return StopOuterRetry
	case c.caller.Ended() != nil:
		return c.interrupted()
	case c.record.Number >= c.attempts:
		return StopMaxAttempts
	case c.record.Asked > c.config.maxRetryAfter:
		return StopRetryAfter
	}
	return ""
}

// nextDelay returns the delay before the next attempt: that of the backoff, but
// at least the one that the service asked for.
func (c *call) nextDelay() time.Duration {
	d := c.backoffDelay()
	if c.record.Response != nil && c.config.revision == Revision2026 {
		d = awsproto.AmzRetryAfter(c.record.Response.Header, d)
	}
	if c.record.Asked == 0 {
		return d
	}
	asked := c.partition.Spread.Add(c.record.Asked, c.config.spread.of(c.record.Asked))
	status := c.record.Response.StatusCode
	if c.config.mode == Legacy && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		return jitter.Add(d, asked)
	}
	return max(d, asked)
}

// backoffDelay returns the delay of the request's backoff.
func (c *call) backoffDelay() time.Duration {
	backoff, revision := c.config.backoff, Exponential{}
	switch {
	case c.config.dynamoDB != nil && awsproto.DynamoDB(c.req):
		backoff, revision = c.config.dynamoDB.backoff, backoffDynamoDB2026
	case c.config.revision == Revision2026:
		revision = backoff2026
	}
	if c.options.backoff != nil {
		backoff = completed(c.options.backoff, revision)
	}
	return max(backoff.Delay(c.record.Number-1, c.record.Class, c.before.delay), 0)
}

// tooLate returns StopDeadline if the next attempt could not be sent before the
// deadline, as far as that is known before the delay, and "" otherwise.
func (c *call) tooLate(delay time.Duration) Stop {
	wait := jitter.Add(delay, c.tokenWait())
	if c.partition.Gate.Load() != nil { // the Retry-After of another response may be longer
		wait = max(wait, c.partition.Gate.ClosedFor(time.Now()))
	}
	if c.caller.Outlives(wait) {
		return StopDeadline
	}
	return ""
}

// lineTooLong returns the reason to stop if the next attempt would not get a
// send token in time at the current send rate, and "" otherwise.
func (c *call) lineTooLong(delay time.Duration) Stop {
	limiter := c.partition.Pacer
	if limiter == nil || c.config.failFast {
		return ""
	}
	expected := limiter.ExpectedWait(c.req)
	longest, limited := limiter.MaxWait()
	switch {
	case limited && expected-delay > longest:
		return StopRateLimit
	case c.caller.Outlives(expected):
		return StopDeadline
	}
	return ""
}

// tokenWait returns a lower bound on the wait for the retry tokens.
func (c *call) tokenWait() time.Duration {
	if !c.config.waitTokens {
		return 0
	}
	return c.partition.Quota.Soonest(c.config.costs.of(c.record.Class))
}

// draw draws the tokens for a retry, and reports whether there may be one. If
// they have to be waited for, it leaves that to pause.
func (c *call) draw() bool {
	cost := c.config.costs.of(c.record.Class)
	if c.config.waitTokens && cost <= c.config.capacity {
		c.unpaid = cost
		return true
	}
	if c.partition.Quota.Lend(c.caller.Context, cost) != nil {
		throttled := c.record.Class == Throttled
		c.partition.Share.Refuse(throttled)
		c.granting = !c.patient && c.partition.Share.MayGrant(cost, throttled)
		if (c.patient || c.granting) && cost <= c.config.capacity && c.caller.Ended() == nil {
			c.unpaid = cost
			return true
		}
		return false
	}
	c.next.Own(c.partition, cost)
	if cost > 0 {
		c.partition.Share.Signal()
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
func (c *call) pause() bool {
	if c.mayBeRefused() {
		return c.pauseKeeping()
	}
	return c.pauseDiscarding()
}

// mayBeRefused reports whether the tokens that the next attempt waits for may
// come too late. The response is kept until that is known.
func (c *call) mayBeRefused() bool {
	if c.config.failFast || c.unpaid > 0 {
		return true
	}
	limiter := c.partition.Pacer
	if limiter == nil && !c.config.shareRetryAfter {
		return false
	}
	if _, ok := c.caller.Deadline(); ok || limiter == nil {
		return ok
	}
	_, ok := limiter.MaxWait()
	return ok
}

// pauseDiscarding sleeps for the delay while the rest of the response is read.
func (c *call) pauseDiscarding() bool {
	left, ok := c.takeBody(c.record.Delay)
	if !ok {
		return false
	}
	c.report()
	discarded := c.discard()
	slept := c.caller.Sleep(left)
	c.finishDiscarding(discarded, max(drainWait-left, 0))
	if !slept || c.caller.Ended() != nil {
		c.stopAt(c.interrupted())
		return false
	}
	return true
}

// pauseKeeping sleeps for the delay and waits for tokens. It keeps the
// response, which is returned if the tokens are refused.
func (c *call) pauseKeeping() bool {
	defer c.own.Hold()()
	if err := c.waitForTokens(); err != nil {
		c.endWaiting(err)
		return false
	}
	if _, ok := c.takeBody(0); !ok {
		return false
	}
	c.report()
	c.finishDiscarding(c.discard(), drainWait)
	return true
}

// waitForTokens sleeps for the delay and waits for what the next attempt needs.
func (c *call) waitForTokens() error {
	left := c.record.Delay
	if c.unpaid > 0 {
		var err error
		if left, err = c.pay(); err != nil {
			return err
		}
	}
	if !c.caller.Sleep(left) {
		return c.caller.Ended()
	}
	return c.admit(&c.next)
}

// pay waits for the retry tokens that draw left to pause. It returns what is left
// of the delay, of which a wait for a fleet is a part.
func (c *call) pay() (left time.Duration, err error) {
	start := time.Now()
	if err := c.acquireInTime(); err != nil {
		return 0, err
	}
	c.next.Own(c.partition, c.unpaid)
	c.unpaid = 0
	if left = c.record.Delay; c.granting {
		left = max(left-time.Since(start), 0)
	}
	if c.caller.Outlives(left) {
		return 0, pacer.ErrTooLate
	}
	return left, nil
}

// acquireInTime waits for the retry tokens, as long as the delay after it would
// end before the deadline.
func (c *call) acquireInTime() error {
	ctx := c.caller.Waiting()
	switch deadline, ok := ctx.Deadline(); {
	case c.granting:
		within, end := context.WithTimeoutCause(ctx, c.grantWait(), ErrQuotaExceeded)
		defer end()
		ctx = within
	case ok:
		earlier, end := context.WithDeadlineCause(ctx, deadline.Add(-c.record.Delay), pacer.ErrTooLate)
		defer end()
		ctx = earlier
	}
	if c.granting {
		return c.partition.Quota.AwaitGrant(ctx, c.unpaid)
	}
	if !c.config.waitTokens {
		return c.partition.Quota.AwaitLoan(ctx, c.unpaid)
	}
	return c.partition.Quota.Lend(ctx, c.unpaid)
}

// grantWait returns how long a retry waits for the tokens of a fleet: its delay,
// and after throttling at least as long as it takes to hear from the fleet.
func (c *call) grantWait() time.Duration {
	const renewal = 250 * time.Millisecond
	if c.record.Class == Throttled {
		return max(c.record.Delay, renewal)
	}
	return c.record.Delay
}

// endWaiting ends the call after an error of waitForTokens.
func (c *call) endWaiting(err error) {
	switch {
	case c.caller.Ended() != nil:
		c.giveUp()
	case errors.Is(err, ErrQuotaExceeded) && !c.config.waitTokens:
		c.stopAt(StopQuota)
	case errors.Is(err, pacer.ErrTooLate), errors.Is(err, ErrQuotaExceeded): // the wait is longer than expected
		c.stopAt(StopDeadline)
	case errors.Is(err, ErrRateLimited):
		c.stopAt(StopRateLimit)
	default:
		c.giveUp()
	}
}

// takeBody takes the request's body from the attempt, for the next one. It
// returns what is left of the delay. It may end the call, so it requires that
// the response is not discarded yet.
func (c *call) takeBody(delay time.Duration) (left time.Duration, ok bool) {
	if !c.body.Copied() {
		return delay, true
	}
	defer c.own.Hold()()
	waited, ok := c.body.Freeze(c.caller.Waiting(), c.patience(delay))
	switch {
	case ok:
		return max(delay-waited, 0), true
	case c.caller.Ended() != nil:
		c.giveUp()
	default:
		c.stopForBody()
	}
	return 0, false
}

// stopForBody ends the call because the request body cannot be sent again.
func (c *call) stopForBody() {
	c.stopAt(StopBody)
	c.record.BodyErr = c.body.Why()
}

// patience returns how long takeBody waits for a Read of the caller's body in
// progress: for the delay, which passes meanwhile, but at least for a second.
// It leaves half of the time until the deadline, after which the response would
// be lost.
func (c *call) patience(delay time.Duration) time.Duration {
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
func (c *call) discard() *respbody.Discarded {
	c.leaves = c.leavesConn()
	if c.record.Response == nil {
		return nil
	}
	reuse := c.record.Class == Throttled || c.config.revision == Revision2026
	c.closed = true
	return respbody.Discard(c.record.Response, reuse, c.own.Ender())
}

// leavesConn reports whether the next attempt might otherwise use the connection
// that failed.
func (c *call) leavesConn() bool {
	switch {
	case c.config.conns == nil,
		c.record.Class == Throttled,
		c.record.Class == Transient && c.config.revision == Revision2026,
		neterr.DialFailed(c.record.Err),
		neterr.StreamFailed(c.record.Err):
		return false
	}
	return !c.abandoned
}

// finishDiscarding waits after the delay until the response is discarded, for
// at most limit and not up to the deadline.
func (c *call) finishDiscarding(d *respbody.Discarded, limit time.Duration) {
	if d != nil {
		d.Finish(c.caller.Waiting(), min(limit, c.patience(0)))
	}
}
