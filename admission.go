package awsretry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// admit waits until p's attempt may be sent: until no shared Retry-After is in
// force and, in adaptive mode, for a send token. It returns ErrRateLimited if
// the wait would be too long, and the cause of the context's end. If the
// response before is kept, it returns errNoTime early enough to return that
// response.
func (c *call) admit(p *permit, kept bool) error {
	gate, limiter := &c.partition.gate, c.partition.limiter
	if p.admitted || gate.Load() == nil && limiter == nil {
		p.admitted = true
		return nil
	}
	var start time.Time
	if c.observers {
		start = time.Now()
	}
	for {
		if gate.Load() != nil {
			if err := c.waitForGate(); err != nil {
				return err
			}
		}
		if limiter == nil {
			break
		}
		if err := c.takeSendToken(p, kept); err != nil {
			return err
		}
		if gate.Load() == nil {
			break
		}
		if gate.ClosedFor(time.Now()) == 0 {
			break
		}
		if p.sendToken { // the gate closed during the wait in line
			limiter.putBack()
			p.sendToken = false
		}
	}
	p.admitted = true
	if c.observers {
		p.waited = time.Since(start)
	}
	return nil
}

// takeSendToken takes a token from the limiter, if it limits.
func (c *call) takeSendToken(p *permit, kept bool) error {
	limiter := c.partition.limiter
	ctx, end := c.caller.Context, context.CancelFunc(func() {})
	if limiter.limiting.Load() {
		ctx = c.caller.waiting()
		if ctx.Err() == nil {
			if p.sendTime, p.sendToken = limiter.take(); p.sendToken {
				return nil
			}
		}
		c.partition.share.awaitSendToken()
		if kept {
			ctx, end = inLine(ctx)
		}
	}
	taken, err := limiter.wait(ctx)
	end()
	if err == errNoTime || errors.Is(err, ErrRateLimited) {
		c.partition.share.refuseSendToken()
	}
	p.sendToken = taken
	if taken {
		p.sendTime = limiter.sendTime()
	}
	return err
}

// returnMargin is how long before the context's deadline a response is returned
// that was kept while its retry waited in line.
const returnMargin = 100 * time.Millisecond

// errNoTime ends the wait in line of a retry that would come too late.
var errNoTime = errors.New("awsretry: no send token before the context's deadline")

// A lineContext is the context of a retry in line. It ends shortly before the
// deadline, and it hides the deadline from RateLimiter.Wait, which would refuse
// the wait by the present send rate: the rate may rise, and there is a response
// to return if it does not.
type lineContext struct{ context.Context }

func (lineContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// inLine returns the context of a retry in line. Its end must be called.
func inLine(ctx context.Context) (line context.Context, end context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	left := time.Until(deadline)
	ctx, end = context.WithTimeoutCause(ctx, left-min(returnMargin, left/2), errNoTime)
	return lineContext{ctx}, end
}

// waitForGate waits until no Retry-After is in force for the partition.
func (c *call) waitForGate() error {
	for {
		wait, closed := c.partition.gate.Left(c.caller.Context, time.Now())
		if !closed {
			return nil
		}
		if c.outlivesDeadline(wait) {
			return fmt.Errorf("%w: the service asked for a delay of %v, which ends after the context's deadline",
				ErrRateLimited, wait.Round(time.Millisecond))
		}
		if !c.sleep(wait) {
			return c.caller.ended()
		}
	}
}

// expectedAdmission returns how long an attempt would wait to be admitted.
func (c *call) expectedAdmission() time.Duration {
	wait, _ := c.partition.gate.Left(c.caller.Context, time.Now())
	if c.partition.limiter != nil {
		wait = max(wait, c.partition.limiter.expectedWait())
	}
	return wait
}
