package awsretry

import (
	"errors"
	"net/http"
	"net/url"
	"time"
)

// delay is the pause before the retry of a. It is short where it is no longer than MaxRetryAfter allows.
func (c *call) delay(a *Attempt) (d time.Duration, short bool) {
	d = c.nextPause(a)
	if a.Response == nil {
		return d, true
	}
	if c.revision == Revision2026 {
		d = amzRetryAfter(a.Response.Header, d)
	}
	if c.maxRetryAfter < 0 || len(a.Response.Header["Retry-After"]) == 0 {
		return d, true
	}
	asked := retryAfter(a.Response.Header, time.Now())
	if asked > c.maxRetryAfter {
		return 0, false
	}
	if status := a.Response.StatusCode; c.mode == Legacy && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		return addSaturating(d, asked), true
	}
	return max(d, asked), true
}

// nextPause is the backoff's.
func (c *call) nextPause(a *Attempt) time.Duration {
	backoff := c.backoff
	if c.dynamoDB != nil && dynamoDB(c.req) {
		backoff = c.dynamoDB.backoff
	}
	return max(backoff.Delay(a.Number-1, a.Class, c.lastDelay), 0)
}

// readWait is how long a retry waits, where its own pause is not longer, for a Read of the caller's body that is under way when
// the answer is there. One that takes longer may be of a body which the caller goes on writing when it has the answer.
const readWait = time.Second

// pause sleeps, and reports whether the next attempt is to be made.
func (c *call) pause(a *Attempt) bool {
	if (c.failFast || c.unpaid > 0) && !c.pauseHolding(a) {
		a.Delay = 0
		return false
	}
	left, ok := c.commit(a)
	if !ok {
		a.Delay = 0
		return false
	}
	c.tell(a)
	c.discard(a)
	if !c.failFast && !c.sleep(left) {
		a.Stop = StopCanceled
		return false
	}
	c.body.wait(c.ctx.Done(), cancelOf(c.req))
	if c.ended() != nil {
		a.Stop = StopCanceled
		return false
	}
	c.lastDelay, c.unpaid = a.Delay, 0
	return true
}

// commit makes certain that the next attempt can have the body, and returns what is left of the pause then.
func (c *call) commit(a *Attempt) (left time.Duration, ok bool) {
	defer c.attempt.hold()()
	var limit time.Duration // none after a transport error: there is no answer that the caller could wait for
	if a.Err == nil {
		limit = max(readWait, a.Delay)
	}
	waited, ok := c.body.commit(limit, c.ctx.Done())
	if !ok {
		if a.Stop = StopBody; c.ended() != nil {
			a.Stop = StopCanceled
		}
	}
	return a.Delay - waited, ok
}

// pauseHolding does what may end in giving the answer back: it waits for the tokens that are not drawn yet (Quota.Wait), and under
// RateLimit.FailFast for the pause to pass, behind which the rate limiter may refuse the next attempt.
func (c *call) pauseHolding(a *Attempt) bool {
	defer c.attempt.hold()()
	if c.unpaid > 0 {
		if c.acquire(c.unpaid) != nil {
			a.Stop = StopCanceled
			return false
		}
		if c.outlivesDeadline(a.Delay) {
			a.Stop = StopDeadline
			return false
		}
	}
	if !c.failFast {
		return true
	}
	if !c.sleep(a.Delay) {
		a.Stop = StopCanceled
		return false
	}
	taken, err := c.partition.limiter.wait(c.ctx)
	switch {
	case err == nil:
		c.sendToken, c.sendTokenTaken = true, taken
		return true
	case errors.Is(err, ErrRateLimited):
		a.Stop = StopRateLimit
	default:
		a.Stop = StopCanceled
	}
	return false
}

// outlivesDeadline reports whether a pause from now on would not end before the context's deadline.
func (c *call) outlivesDeadline(pause time.Duration) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && !time.Now().Add(pause).Before(deadline)
}

// sleep reports whether the whole pause was slept.
func (c *call) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.ended() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
	case <-cancelOf(c.req):
	}
	return false
}

// sleepHolding sleeps while the answer is kept.
func (c *call) sleepHolding(d time.Duration) {
	defer c.attempt.hold()()
	c.sleep(d)
}

// discard ends an answer that another attempt replaces. Its connection is used again after throttling, and generally not
// after a transient failure (AWS SDKs and Tools Reference Guide, "Retry behavior"); the 2026 revision uses it always.
func (c *call) discard(a *Attempt) {
	c.lastErr = a.Err
	if a.Err != nil {
		c.newConn = false
		return
	}
	reuse := a.Class == Throttled || c.revision == Revision2026
	c.newConn = !reuse && c.fresh != nil && a.Response.ProtoMajor == 1 && usesPool(c.req.URL)
	c.lastStatus, c.lastCode = a.Response.StatusCode, a.Code
	c.closed, c.answer = true, nil
	discard(c.ctx, a.Response, reuse)
}

// usesPool reports whether an *http.Transport sends to u over connections of its own. Other schemes are those of
// RegisterProtocol, which a clone does not know.
func usesPool(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }
