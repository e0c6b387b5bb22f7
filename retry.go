package awsretry

import (
	"errors"
	"net/http"
	"time"

	"example.com/awsretry/internal/respbody"
)

// decide says whether another attempt follows, and draws the tokens for it.
func (c *call) decide(a *attempt) bool {
	a.Stop = c.stop(a)
	return a.Stop == ""
}

func (c *call) stop(a *attempt) Stop {
	asked := c.askedPause(a)
	switch {
	case a.abandoned:
		return StopCanceled
	case a.Class == Success:
		return StopSuccess
	case !a.Class.Retryable():
		return StopPermanent
	case c.switchedOff():
		return StopDisabled
	case c.outerRetries():
		return StopOuterRetry
	case c.ended() != nil:
		return StopCanceled
	case a.Number >= c.maxAttempts():
		return StopMaxAttempts
	case asked > c.maxRetryAfter && c.maxRetryAfter >= 0:
		return StopRetryAfter
	}
	delay := c.delay(a, asked)
	if stop := c.tooLate(a.Class, delay); stop != "" {
		return stop
	}
	if !c.body.CanRetry() {
		return StopBody
	}
	if !c.draw(a) {
		if c.longPolls() {
			a.Delay = delay
		}
		return StopQuota
	}
	a.Delay = delay
	return ""
}

// tooLate returns why the next attempt could not be sent in time, as far as that
// is known before the pause.
func (c *call) tooLate(class Class, delay time.Duration) Stop {
	wait := addSaturating(delay, c.tokenWait(class))
	if limiter := c.partition.limiter; limiter != nil && !c.failFast {
		expected, soonest := limiter.expectedWait(), limiter.soonest()
		if maxWait, ok := limiter.maxWait(); ok && expected-delay > maxWait {
			return StopRateLimit
		}
		wait = max(wait, soonest)
	}
	if c.partition.gate.Load() != nil { // another's Retry-After may be longer
		closed, _ := c.partition.gate.closedFor(time.Now())
		wait = max(wait, closed)
	}
	if c.outlivesDeadline(wait) {
		return StopDeadline
	}
	return ""
}

// mayRetry reports whether any outcome of the attempt of that number can be
// followed by a retry.
func (c *call) mayRetry(number int) bool {
	return number < c.maxAttempts() && !c.switchedOff() && !c.outerRetries()
}

func (c *call) switchedOff() bool { return c.options != nil && c.options.noRetry }

func (c *call) outerRetries() bool { return !c.nested && outerLoop(c.req) }

// maxAttempts is how often the request may be sent.
func (c *call) maxAttempts() int {
	switch {
	case c.options != nil && c.options.maxAttempts > 0:
		return c.options.maxAttempts
	case c.dynamoDB != nil && dynamoDB(c.req):
		return c.dynamoDB.attempts
	}
	return c.attempts
}

// attemptTimeout is how long an attempt may take; 0 where there is no time-out.
func (c *call) attemptTimeout() time.Duration {
	if c.options != nil && c.options.hasTimeout {
		return c.options.timeout
	}
	return c.timeout
}

// tokenWait is how long the tokens for a retry have to be waited for at least.
func (c *call) tokenWait(class Class) time.Duration {
	if !c.waitTokens {
		return 0
	}
	return c.partition.quota.soonest(c.costs.of(class))
}

// draw draws the tokens for a retry, or leaves them to the pause where they are
// to be waited for.
func (c *call) draw(a *attempt) bool {
	cost := c.costs.of(a.Class)
	if c.waitTokens && cost <= c.capacity {
		a.unpaid = cost
		return true
	}
	if c.partition.quota.Acquire(c.ctx, cost) != nil {
		return false
	}
	c.drawn = cost
	return true
}

// longPolls reports whether the caller repeats the request in a loop of its own.
func (c *call) longPolls() bool {
	switch {
	case c.longPoll != nil:
		return c.longPoll(c.req)
	case c.revision == Revision2026:
		return awsLongPoll(c.req)
	}
	return false
}

// askedPause returns the pause that the service asks for, 0 where it asks for
// none. Where it is shared, it holds from here on for the whole partition.
func (c *call) askedPause(a *attempt) time.Duration {
	if a.Response == nil || !a.Class.Retryable() || c.maxRetryAfter < 0 {
		return 0
	}
	asked, ok := time.Duration(0), false
	if c.retryAfter != nil {
		var body []byte
		if a.ahead != nil {
			body = a.ahead.Stop()
		}
		asked, ok = c.retryAfter(a.Response, body)
	}
	if !ok {
		if len(a.Response.Header["Retry-After"]) == 0 {
			return 0
		}
		asked = retryAfter(a.Response.Header, time.Now())
	}
	asked = max(asked, 0)
	if c.shareRetryAfter && 0 < asked && asked <= c.maxRetryAfter {
		c.partition.gate.close(time.Now(), asked, c.spreadOf(asked))
	}
	return asked
}

// delay is the pause before the retry of a, where the service asked for that
// one.
func (c *call) delay(a *attempt, asked time.Duration) time.Duration {
	d := c.nextPause(a)
	if a.Response != nil && c.revision == Revision2026 {
		d = amzRetryAfter(a.Response.Header, d)
	}
	if asked > 0 {
		asked = addSaturating(asked, between0And(c.spreadOf(asked)))
		if c.mode == Legacy && (a.Response.StatusCode == http.StatusTooManyRequests || a.Response.StatusCode == http.StatusServiceUnavailable) {
			return addSaturating(d, asked)
		}
	}
	return max(d, asked)
}

// nextPause is the backoff's.
func (c *call) nextPause(a *attempt) time.Duration {
	backoff, revision := c.backoff, Exponential{}
	switch {
	case c.dynamoDB != nil && dynamoDB(c.req):
		backoff, revision = c.dynamoDB.backoff, backoffDynamoDB2026
	case c.revision == Revision2026:
		revision = backoff2026
	}
	if c.options != nil && c.options.backoff != nil {
		backoff = completed(c.options.backoff, revision)
	}
	return max(backoff.Delay(a.Number-1, a.Class, c.lastDelay), 0)
}

const (
	// readWait is how long a retry waits, where its own pause is not longer, for
	// a Read of the caller's body that is under way. One that takes longer may be
	// of a body that the caller goes on writing when it has the response.
	readWait = time.Second

	// drainWait is how long a retry waits, where its own pause is not longer, for
	// the rest of the response before it, so that its connection can be used
	// again. A new connection takes about as long.
	drainWait = 100 * time.Millisecond
)

// pause waits until the next attempt is due, and reports whether it is to be
// sent.
func (c *call) pause(a *attempt) bool {
	var ok bool
	if c.mayBeRefused(a) {
		ok = c.pauseKeeping(a)
	} else {
		ok = c.pauseDiscarding(a)
	}
	if ok {
		c.lastDelay = a.Delay
	} else if a.Stop != StopCanceled || !a.told {
		a.Delay = 0
	}
	return ok
}

// mayBeRefused reports whether the tokens that the next attempt waits for may
// come too late for it. The response is kept until that is known.
func (c *call) mayBeRefused(a *attempt) bool {
	if c.failFast || a.unpaid > 0 {
		return true
	}
	if c.partition.limiter == nil && !c.shareRetryAfter {
		return false
	}
	_, deadline := c.ctx.Deadline()
	return deadline || c.maxWait > 0
}

// pauseDiscarding sleeps the pause while what is left of the response is read.
func (c *call) pauseDiscarding(a *attempt) bool {
	left, ok := c.takeBody(a, a.Delay)
	if !ok {
		return false
	}
	c.tell(a)
	discarded := c.discard(a)
	slept := c.sleep(left)
	c.finishDiscarding(discarded, max(drainWait-left, 0))
	if !slept || c.ended() != nil {
		a.Stop = StopCanceled
		return false
	}
	return true
}

// pauseKeeping sleeps the pause and waits for tokens while the response is kept,
// for it is returned where the tokens are refused.
func (c *call) pauseKeeping(a *attempt) bool {
	defer a.timeout.hold()()
	switch err := c.waitForTokens(a); {
	case err != nil && c.ended() != nil:
		c.giveUpResponse(a)
		return false
	case errors.Is(err, ErrQuotaExceeded), err == errNoTime:
		a.Stop = StopDeadline // the line proved longer than decide thought
		return false
	case errors.Is(err, ErrRateLimited):
		if a.Stop = StopRateLimit; !c.failFast && c.outlivesDeadline(c.expectedWait()) {
			a.Stop = StopDeadline
		}
		return false
	case err != nil:
		c.giveUpResponse(a)
		return false
	case a.Stop != "":
		return false
	}
	if _, ok := c.takeBody(a, 0); !ok {
		return false
	}
	c.tell(a)
	c.finishDiscarding(c.discard(a), drainWait)
	return true
}

// waitForTokens sleeps the pause and waits for what the next attempt needs.
func (c *call) waitForTokens(a *attempt) error {
	if a.unpaid > 0 {
		if err := c.acquire(a.unpaid); err != nil {
			return err
		}
		if c.outlivesDeadline(a.Delay) {
			a.Stop = StopDeadline
			return nil
		}
	}
	if !c.sleep(a.Delay) {
		return c.ended()
	}
	return c.waitForAdmission(true)
}

// expectedWait is how long an attempt that is not admitted would have to wait.
func (c *call) expectedWait() time.Duration {
	wait, _ := c.partition.gate.left(time.Now())
	if c.partition.limiter != nil {
		wait = max(wait, c.partition.limiter.expectedWait())
	}
	return wait
}

// takeBody takes the request's body from the attempt, for the next one. It
// returns what is left of the pause then.
func (c *call) takeBody(a *attempt, pause time.Duration) (left time.Duration, ok bool) {
	if !c.body.Copied() {
		return pause, true
	}
	defer a.timeout.hold()()
	waited, ok := c.body.Freeze(c.waitCtx(), c.patience(pause))
	switch {
	case ok:
		return max(pause-waited, 0), true
	case c.ended() != nil:
		c.giveUpResponse(a)
	default:
		a.Stop = StopBody
	}
	return 0, false
}

// patience is how long a Read of the caller's body that is under way is waited
// for: as long as the pause, which passes meanwhile, a second at least, and not
// up to the deadline, when the response would be lost.
func (c *call) patience(pause time.Duration) time.Duration {
	limit := max(readWait, pause)
	if deadline, ok := c.ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline)/2, 1))
	}
	return limit
}

// discard ends a response that another attempt replaces. Its connection is used
// again after throttling, and generally not after a transient failure (AWS SDKs
// and Tools Reference Guide, "Retry behavior"); the 2026 revision uses it
// always, unless nothing came back over it.
func (c *call) discard(a *attempt) *respbody.Discarded {
	c.leaveConnection(a)
	if a.Err != nil {
		c.last = failure{err: a.Err}
		return nil
	}
	reuse := a.Class == Throttled || c.revision == Revision2026
	c.forget(a)
	return respbody.Discard(a.Response, reuse, a.timeout.ender())
}

// leaveConnection says which connection the next attempt uses.
func (c *call) leaveConnection(a *attempt) {
	c.newConn = false
	switch {
	case c.conns == nil, a.Class == Throttled, a.Class == Transient && c.revision == Revision2026, dialFailed(a.Err):
		return
	}
	c.newConn = !a.detoured
}

// finishDiscarding waits for what is left to do with a response after the pause;
// not up to the deadline.
func (c *call) finishDiscarding(d *respbody.Discarded, limit time.Duration) {
	if d != nil {
		d.Finish(c.waitCtx(), min(limit, c.patience(0)))
	}
}

// forget keeps of a response that is about to be closed what an error may say of
// it.
func (c *call) forget(a *attempt) {
	c.last = failure{status: a.Response.StatusCode, code: a.Code}
	a.closed = true
}

// giveUpResponse ends a response that was kept, because the caller's context has
// ended and the body with it.
func (c *call) giveUpResponse(a *attempt) {
	a.Stop = StopCanceled
	if a.Response != nil {
		c.forget(a)
		respbody.Discard(a.Response, false, a.timeout.ender())
	}
}

// sleepKeeping sleeps while the response is kept.
func (c *call) sleepKeeping(a *attempt, d time.Duration) {
	defer a.timeout.hold()()
	c.sleep(d)
}
