package awsretry

import (
	"errors"
	"net/http"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/jitter"
	"example.com/awsretry/internal/replay"
)

// decide decides whether another attempt follows, as far as that is known
// before the delay, and draws the tokens for it. If it returns false, it sets
// the record's Stop.
func (c *call) decide() bool {
	if c.now.record.Stop = c.whyStop(); c.now.record.Stop != "" {
		return false
	}
	delay := c.nextDelay()
	if c.now.record.Stop = c.tooLate(delay); c.now.record.Stop != "" {
		return false
	}
	if c.now.record.Stop = c.lineTooLong(delay); c.now.record.Stop != "" {
		c.partition.Share.RefuseSendToken()
		return false
	}
	switch c.now.record.Delay = delay; {
	case !c.body.Replayable():
		c.stopForBody()
	case !c.draw():
		if c.stop(StopQuota); c.longPolls() {
			c.now.record.Delay = delay
		}
	}
	return c.now.record.Stop == ""
}

// whyStop returns the reason why no attempt can follow this one, or "" if one
// may.
func (c *call) whyStop() Stop {
	switch {
	case c.now.canceled:
		return c.stopOfContext()
	case c.now.record.Class == Success:
		return StopSuccess
	case errors.Is(c.body.Err(), replay.ErrDiffers):
		c.now.record.BodyErr = replay.ErrDiffers
		return StopBody
	case !c.now.record.Class.Retryable():
		return StopPermanent
	case c.options.noRetry:
		return StopDisabled
	case c.outer:
		return StopOuterRetry
	case c.caller.Ended() != nil:
		return c.stopOfContext()
	case c.now.record.Number >= c.attempts:
		return StopMaxAttempts
	case c.now.record.Asked > c.config.maxRetryAfter:
		return StopRetryAfter
	}
	return ""
}

// nextDelay returns the delay before the next attempt: that of the backoff, but
// at least the one that the service asked for.
func (c *call) nextDelay() time.Duration {
	d := c.backoffDelay()
	if c.now.record.Response != nil && c.config.revision == Revision2026 {
		d = awsproto.AmzRetryAfter(c.now.record.Response.Header, d)
	}
	if c.now.record.Asked == 0 {
		return d
	}
	asked := c.partition.Spread.Add(c.now.record.Asked, c.config.spread.of(c.now.record.Asked))
	status := c.now.record.Response.StatusCode
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
	return max(backoff.Delay(c.now.record.Number-1, c.now.record.Class, c.now.before.delay), 0)
}

// tooLate returns StopDeadline if the next attempt could not be sent before the
// deadline, as far as that is known before the delay, and "" otherwise.
func (c *call) tooLate(delay time.Duration) Stop {
	wait := max(delay, c.partition.Quota.Soonest(c.cost()))
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

// cost returns the retry tokens that the next attempt costs.
func (c *call) cost() int {
	if c.now.free {
		return 0
	}
	return c.config.quota.cost(c.now.record.Class)
}

// draw draws the tokens for a retry, and reports whether there may be one. If
// there are too few, pause waits for them if Quota.Wait is set, or if a fleet may have
// some for this process soon.
func (c *call) draw() bool {
	from, cost := c.partition, c.cost()
	if c.now.next.Draw(from, cost) {
		if cost > 0 {
			from.Share.Signal()
		}
		return true
	}
	granting := from.Share.Refuse(cost, c.now.record.Class == Throttled)
	if cost > c.config.quota.Capacity || !granting && !from.Quota.Waits() {
		return false
	}
	c.now.unpaid = cost
	return true
}

// longPolls reports whether the caller repeats the request in a loop of its
// own.
func (c *call) longPolls() bool {
	switch {
	case c.config.transport.LongPoll != nil:
		return c.config.transport.LongPoll(c.req)
	case c.config.revision == Revision2026:
		if awsproto.LongPolls(c.req) {
			return true
		}
		open := c.body.Whole()
		return open != nil && awsproto.LongPollsByForm(c.req.Header, open())
	}
	return false
}
