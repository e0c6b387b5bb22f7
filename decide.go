package awsretry

import "time"

// decide says whether another attempt follows, and draws the tokens for it.
func (c *call) decide(a *Attempt) bool {
	a.Stop = c.stop(a)
	return a.Stop == ""
}

func (c *call) stop(a *Attempt) Stop {
	switch {
	case c.abandoned:
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
	}
	delay, short := c.delay(a)
	if !short {
		return StopRetryAfter
	}
	if c.outlivesDeadline(addSaturating(delay, c.tokenWait(a.Class))) {
		return StopDeadline
	}
	if !c.body.canRetry() {
		return StopBody
	}
	if !c.draw(a.Class) {
		if c.longPolls() {
			a.Delay = delay
		}
		return StopQuota
	}
	a.Delay = delay
	return ""
}

// mayRetry reports whether any answer to the attempt of that number can be followed by a retry.
func (c *call) mayRetry(number int) bool {
	return number < c.maxAttempts() && !c.switchedOff() && !c.outerRetries()
}

func (c *call) switchedOff() bool { return c.options != nil && c.options.noRetry }

func (c *call) outerRetries() bool { return !c.nested && outerLoop(c.req) }

// maxAttempts is how often the request may be sent.
func (c *call) maxAttempts() int {
	if c.dynamoDB != nil && dynamoDB(c.req) {
		return c.dynamoDB.attempts
	}
	return c.attempts
}

// tokenWait is how long the tokens for a retry have to be waited for at least.
func (c *call) tokenWait(class Class) time.Duration {
	if !c.waitTokens {
		return 0
	}
	return c.partition.quota.soonest(c.costs.of(class))
}

// draw draws the tokens for a retry, or leaves them to the pause where they are to be waited for.
func (c *call) draw(class Class) bool {
	cost := c.costs.of(class)
	if c.waitTokens && cost <= c.capacity {
		c.unpaid = cost
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
