package awsretry

import (
	"errors"
	"time"

	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/respbody"
)

// waitTurn waits until the attempt may be sent.
func (c *call) waitTurn() error {
	if c.now.record.Number == 1 {
		if err := c.now.permit.Acquire(c.partition, &c.caller, c.config.quota.InitialCost); err != nil {
			return c.finishRefused(StopQuota, err)
		}
	}
	if err := c.now.permit.Admit(c.partition, &c.caller, c.req, c.observed); err != nil {
		return c.finishRefused(StopRateLimit, err)
	}
	c.now.record.Waited = c.now.permit.Waited
	return nil
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
	if c.config.failFast || c.now.unpaid > 0 {
		return true
	}
	limiter := c.partition.Pacer
	if limiter == nil && !c.config.transport.ShareRetryAfter {
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
	left, ok := c.freezeBody(c.now.record.Delay)
	if !ok {
		return false
	}
	c.report()
	discarded := c.discard()
	slept := c.caller.Sleep(left)
	c.waitForDiscard(discarded, max(drainWait-left, 0))
	if !slept || c.caller.Ended() != nil {
		c.stop(c.stopOfContext())
		return false
	}
	return true
}

// pauseKeeping sleeps for the delay and waits for tokens. It keeps the
// response, which is returned if the tokens are refused.
func (c *call) pauseKeeping() bool {
	defer c.now.own.Hold()()
	if err := c.waitForTokens(); err != nil {
		c.stopWaiting(err)
		return false
	}
	if _, ok := c.freezeBody(0); !ok {
		return false
	}
	c.report()
	c.waitForDiscard(c.discard(), drainWait)
	return true
}

// waitForTokens sleeps for the delay and waits for what the next attempt needs.
func (c *call) waitForTokens() error {
	left, err := c.pay()
	if err != nil {
		return err
	}
	if !c.caller.Sleep(left) {
		return c.caller.Ended()
	}
	return c.now.next.Admit(c.partition, &c.caller, c.req, c.observed)
}

// pay waits for the retry tokens that draw did not find. It returns what is left of
// the delay, of which the wait is a part.
func (c *call) pay() (left time.Duration, err error) {
	if c.now.unpaid == 0 {
		return c.now.record.Delay, nil
	}
	const (
		renewal = 250 * time.Millisecond // in which a process hears from its fleet
		silence = 2 * time.Second        // after which it does not; others of the line may need less
	)
	start, longest := time.Now(), min(c.now.record.Delay, silence)
	if c.now.record.Class == Throttled {
		longest = max(longest, min(renewal, c.patience(0))) // the response would be lost at the deadline
	}
	err = c.now.next.Await(c.partition, &c.caller, c.now.unpaid, longest)
	return max(c.now.record.Delay-time.Since(start), 0), err
}

// stopWaiting stops after an error of waitForTokens.
func (c *call) stopWaiting(err error) {
	switch {
	case c.caller.Ended() != nil:
		c.stopAndDiscard()
	case errors.Is(err, ErrQuotaExceeded) && !c.partition.Quota.Waits():
		c.stop(StopQuota)
	case errors.Is(err, pacer.ErrTooLate), errors.Is(err, ErrQuotaExceeded): // the wait is longer than expected
		c.stop(StopDeadline)
	case errors.Is(err, ErrRateLimited):
		c.stop(StopRateLimit)
	default:
		c.stopAndDiscard()
	}
}

// freezeBody ends the attempt's reading of the request's body, for the next one. It
// returns what is left of the delay. It may stop the call, so it requires that
// the response is not discarded yet.
func (c *call) freezeBody(delay time.Duration) (left time.Duration, ok bool) {
	if !c.body.Copied() {
		return delay, true
	}
	defer c.now.own.Hold()()
	waited, ok := c.body.Freeze(c.caller.Waiting(), c.patience(delay))
	switch {
	case ok:
		return max(delay-waited, 0), true
	case c.caller.Ended() != nil:
		c.stopAndDiscard()
	default:
		c.stopForBody()
	}
	return 0, false
}

// stopForBody stops because the request body cannot be sent again.
func (c *call) stopForBody() {
	c.stop(StopBody)
	c.now.record.BodyErr = c.body.Why()
}

// patience returns how long freezeBody waits for a Read of the caller's body in
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

// discard closes a response that another attempt replaces. After throttling its
// connection is used again, and generally not after a transient failure (AWS
// SDKs and Tools Reference Guide, "Retry behavior"). The 2026 revision always
// uses it again, unless there was no response.
func (c *call) discard() *respbody.Discarded {
	if c.now.record.Response == nil {
		return nil
	}
	reuse := c.now.record.Class == Throttled || c.config.revision == Revision2026
	c.now.owner = nobody
	return respbody.Discard(c.now.record.Response, reuse, c.now.own.Ender())
}

// leavesConn reports whether the next attempt might otherwise use the connection
// that failed.
func (c *call) leavesConn() bool {
	switch {
	case c.config.conns == nil,
		c.now.record.Class == Throttled,
		c.now.record.Class == Transient && c.config.revision == Revision2026,
		neterr.DialFailed(c.now.record.Err),
		neterr.StreamFailed(c.now.record.Err):
		return false
	}
	return !c.now.abandoned
}

// waitForDiscard waits after the delay until the response is discarded, for
// at most limit and not up to the deadline.
func (c *call) waitForDiscard(d *respbody.Discarded, limit time.Duration) {
	if d != nil {
		d.Finish(c.caller.Waiting(), min(limit, c.patience(0)))
	}
}
