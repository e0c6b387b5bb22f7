package awsretry

import (
	"errors"
	"fmt"
	"time"
)

// admit waits until p's attempt may be sent: until no shared Retry-After is in
// force and, in adaptive mode, for a send token. It returns ErrRateLimited if
// the wait would be too long, and the cause of the context's end.
func (c *call) admit(p *permit) error {
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
		if err := c.takeSendToken(p); err != nil {
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
func (c *call) takeSendToken(p *permit) error {
	limiter, ctx := c.partition.limiter, c.caller.Context
	if limiter.limits() {
		ctx = c.caller.waiting()
		if ctx.Err() == nil {
			if p.sendTime, p.sendToken = limiter.take(); p.sendToken {
				return nil
			}
		}
		c.partition.share.awaitSendToken()
	}
	taken, err := limiter.wait(ctx)
	if errors.Is(err, ErrRateLimited) {
		c.partition.share.refuseSendToken()
	}
	p.sendToken = taken
	if taken {
		p.sendTime = limiter.sendTime()
	}
	return err
}

// waitForGate waits until no Retry-After is in force for the partition.
func (c *call) waitForGate() error {
	for {
		wait, closed := c.partition.gate.Left(c.caller.Context, time.Now())
		if !closed {
			return nil
		}
		if c.outlivesDeadline(wait) {
			return fmt.Errorf("%w: the delay of %v that the service asked for %w",
				ErrRateLimited, wait.Round(time.Millisecond), errTooLate)
		}
		if !c.sleep(wait) {
			return c.caller.ended()
		}
	}
}
