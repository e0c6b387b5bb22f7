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
	left = a.Delay
	if c.failFast { // it is over
		left = 0
	}
	waited, ok := c.body.commit(c.patience(a, left), c.ctx.Done(), cancelOf(c.req))
	switch {
	case ok:
		return left - waited, true
	case c.ended() != nil:
		c.giveUpAnswer(a)
	default:
		a.Stop = StopBody
	}
	return 0, false
}

// patience is how long a Read of the caller's body that is under way is waited for: as long as the pause, which passes meanwhile, a
// second at least, and not up to the deadline, when the answer would be lost. After a transport error there is no answer that
// the caller could wait for, and so no limit (0), unless the attempt's time-out is what ended it.
func (c *call) patience(a *Attempt, pause time.Duration) time.Duration {
	if a.Err != nil && !outran(a.Err) {
		return 0
	}
	limit := max(readWait, pause)
	if deadline, ok := c.ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline)/2, 1))
	}
	return limit
}

// pauseHolding does what may end in giving the answer back: it waits for the tokens that are not drawn yet (Quota.Wait), and under
// RateLimit.FailFast for the pause to pass, behind which the rate limiter may refuse the next attempt.
func (c *call) pauseHolding(a *Attempt) bool {
	defer c.attempt.hold()()
	if c.unpaid > 0 {
		if err := c.acquire(c.unpaid); errors.Is(err, ErrQuotaExceeded) {
			a.Stop = StopDeadline // others have joined the line since decide looked
			return false
		} else if err != nil {
			c.giveUpAnswer(a)
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
		c.giveUpAnswer(a)
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
		c.giveUpAnswer(a)
	}
	return false
}

// giveUpAnswer ends an answer that was kept, because the caller's context has ended and the answer's body with it.
func (c *call) giveUpAnswer(a *Attempt) {
	a.Stop = StopCanceled
	if a.Response != nil {
		c.forget(a)
		a.Response.Body.Close()
	}
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
	if a.Err != nil {
		c.lastErr, c.newConn = a.Err, false
		return
	}
	reuse := a.Class == Throttled || c.revision == Revision2026
	c.newConn = !reuse && c.fresh != nil && a.Response.ProtoMajor == 1 && usesPool(c.req.URL)
	c.forget(a)
	discard(c.ctx, a.Response, reuse)
}

// forget keeps of an answer that is about to be closed what an error may tell of it.
func (c *call) forget(a *Attempt) {
	c.lastErr, c.lastStatus, c.lastCode = nil, a.Response.StatusCode, a.Code
	c.closed, c.answer = true, nil
}

// usesPool reports whether an *http.Transport sends to u over connections of its own. Other schemes are those of
// RegisterProtocol, which a clone does not know.
func usesPool(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }
