package awsretry

import (
	"errors"
	"fmt"
	"time"

	"example.com/awsretry/internal/announced"
)

// waitTurn waits until the attempt may be sent.
func (c *call) waitTurn() error {
	if c.record.Number == 1 {
		if err := c.acquireInitial(&c.permit); err != nil {
			return c.refuse(StopQuota, err)
		}
	}
	if err := c.admit(&c.permit); err != nil {
		return c.refuse(StopRateLimit, err)
	}
	c.record.Waited = c.permit.waited
	return nil
}

// acquireInitial draws Quota.InitialCost for a first attempt, once. With
// Quota.Wait it waits for the tokens.
func (c *call) acquireInitial(p *permit) error {
	cost := c.config.initialCost
	if cost <= p.retryTokens {
		return nil
	}
	ctx := c.caller.Context
	if c.config.waitTokens {
		ctx = c.caller.Waiting()
	}
	if err := c.partition.quota.Acquire(ctx, cost); err != nil {
		return err
	}
	p.partition, p.retryTokens = c.partition, cost
	return nil
}

// admit waits until p's attempt may be sent: until no shared Retry-After is in
// force and, in adaptive mode, for a send token. It returns ErrRateLimited if
// the wait would be too long, and the cause if the context ends.
func (c *call) admit(p *permit) error {
	gate, limiter := &c.partition.gate, c.partition.limiter
	if p.admitted || gate.Load() == nil && limiter == nil {
		p.admitted = true
		return nil
	}
	var start time.Time
	if c.observed {
		start = time.Now()
	}
	p.partition = c.partition
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
		if gate.Load() == nil || gate.ClosedFor(time.Now()) == 0 {
			break
		}
		if p.sendToken { // the gate closed during the wait in line
			p.returnSendToken()
		}
	}
	p.admitted = true
	if c.observed {
		p.waited = time.Since(start)
	}
	return nil
}

// takeSendToken takes a token from the rate limiter, if it limits.
func (c *call) takeSendToken(p *permit) error {
	limiter, ctx := c.partition.limiter, c.caller.Context
	var req announced.Request
	if limiter.pacer.TakesTokens() {
		ctx, req = c.caller.Waiting(), limiter.pacer.Request(c.req)
		if ctx.Err() == nil {
			if p.sendTime, p.sendToken = limiter.pacer.Take(req); p.sendToken {
				p.inFlight = true
				return nil
			}
		}
		c.partition.share.awaitSendToken()
	}
	sent, taken, err := limiter.wait(ctx, req)
	if errors.Is(err, ErrRateLimited) {
		c.partition.share.refuseSendToken()
	}
	p.sendToken, p.inFlight = taken, taken
	if p.sendTime = sent; !taken && err == nil {
		p.sendTime = limiter.pacer.SendFree()
	}
	return err
}

// waitForGate waits until no Retry-After is in force for the partition.
func (c *call) waitForGate() error {
	c.partition.heldBack.Add(1)
	defer c.partition.heldBack.Add(-1)
	for {
		wait, closed := c.partition.gate.Left(c.caller.Context, time.Now())
		if !closed {
			return nil
		}
		if c.caller.Outlives(wait) {
			return fmt.Errorf("%w: the delay of %v that the service asked for %w",
				ErrRateLimited, wait.Round(time.Millisecond), errTooLate)
		}
		if !c.caller.Sleep(wait) {
			return c.caller.Ended()
		}
	}
}
