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

// pause sleeps, and reports whether the next attempt is to be made.
func (c *call) pause(a *Attempt) bool {
	if c.failFast && !c.pauseHolding(a) {
		return false
	}
	if !c.commit(a) {
		return false
	}
	c.tell(a)
	c.discard(a)
	if !c.failFast && !c.rest(a) {
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

// commit makes certain that the next attempt can have the body.
func (c *call) commit(a *Attempt) bool {
	defer c.attempt.hold()()
	if c.body.commit(c.ctx.Done()) {
		return true
	}
	a.Delay = 0
	if a.Stop = StopBody; c.ended() != nil {
		a.Stop = StopCanceled
	}
	return false
}

// pauseHolding is the pause of RateLimit.FailFast: the answer is kept meanwhile, because it goes back where the rate limiter
// refuses the next attempt.
func (c *call) pauseHolding(a *Attempt) bool {
	defer c.attempt.hold()()
	if c.rest(a) {
		err := c.partition.limiter.Wait(c.ctx)
		if err == nil {
			c.sendToken = true
			return true
		}
		if errors.Is(err, ErrRateLimited) {
			a.Stop = StopRateLimit
			return false
		}
	}
	a.Stop = StopCanceled
	return false
}

// rest waits for the tokens that are not drawn yet, then for the pause to pass.
func (c *call) rest(a *Attempt) bool {
	return (c.unpaid == 0 || c.acquire(c.unpaid) == nil) && c.sleep(a.Delay)
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
