package admission

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/wait"
)

// A Permit is what an attempt needs before it is sent. It owns the tokens that
// were drawn for the attempt until Release.
type Permit struct {
	RetryTokens int
	Lent        bool // the retry tokens come back if the attempt succeeds
	SendToken   bool // it has one, which the attempt has not used
	InFlight    bool // counted by the pacer until its outcome

	SendTime time.Duration // see pacer.Pacer
	Waited   time.Duration // until it was admitted

	partition *Partition // of the tokens
	admitted  bool       // neither the pacer nor a Retry-After delays the attempt
}

// Release ends the ownership of the tokens: it puts them back or gives them up.
// Further calls do nothing.
func (p *Permit) Release(putBack bool) {
	switch {
	case p.Lent:
		p.partition.Quota.EndLoan(p.RetryTokens, putBack)
	case putBack && p.RetryTokens > 0:
		p.partition.Quota.PutBack(p.RetryTokens)
	}
	switch {
	case putBack && p.SendToken:
		p.partition.Pacer.PutBack(p.SendTime)
	case p.InFlight:
		p.partition.Pacer.Settle(p.SendTime, !p.SendToken)
	}
	p.giveUp()
}

func (p *Permit) giveUp() { p.RetryTokens, p.Lent, p.SendToken, p.InFlight = 0, false, false, false }

// Move returns a permit that owns the tokens instead of p.
func (p *Permit) Move() Permit {
	moved := *p
	p.giveUp()
	return moved
}

// Own makes p the owner of tokens that the quota lent.
func (p *Permit) Own(from *Partition, tokens int) {
	p.partition, p.RetryTokens, p.Lent = from, tokens, tokens > 0
}

// AcquireInitial draws the cost of a first attempt for p, once. With wait it waits
// for the tokens.
func (p *Permit) AcquireInitial(from *Partition, caller *wait.Context, cost int, wait bool) error {
	if cost <= p.RetryTokens {
		return nil
	}
	ctx := caller.Context
	if wait {
		ctx = caller.Waiting()
	}
	if err := from.Quota.Acquire(ctx, cost); err != nil {
		return err
	}
	p.partition, p.RetryTokens = from, cost
	return nil
}

// Admit waits until p's attempt may be sent: until no shared Retry-After is in
// force and, in adaptive mode, for a send token. It returns an error that wraps
// [pacer.ErrRateLimited] if the wait would be too long, and the cause if the
// context ends. If timed is true, it measures the wait.
func (p *Permit) Admit(from *Partition, caller *wait.Context, req *http.Request, timed bool) error {
	gate := &from.Gate
	if p.admitted || gate.Load() == nil && from.Pacer == nil {
		p.admitted = true
		return nil
	}
	var start time.Time
	if timed {
		start = time.Now()
	}
	p.partition = from
	for {
		if gate.Load() != nil {
			if err := from.waitForGate(caller); err != nil {
				return err
			}
		}
		if from.Pacer == nil {
			break
		}
		if err := p.takeSendToken(caller, req); err != nil {
			return err
		}
		if gate.Load() == nil || gate.ClosedFor(time.Now()) == 0 {
			break
		}
		if p.SendToken { // the gate closed during the wait in line
			from.Pacer.PutBack(p.SendTime)
			p.SendToken, p.InFlight = false, false
		}
	}
	p.admitted = true
	if timed {
		p.Waited = time.Since(start)
	}
	return nil
}

// takeSendToken takes a token from the pacer, if requests need one.
func (p *Permit) takeSendToken(caller *wait.Context, request *http.Request) error {
	from, ctx := p.partition, caller.Context
	var req announced.Request
	if from.Pacer.TakesTokens() {
		ctx, req = caller.Waiting(), from.Pacer.Request(request)
		if ctx.Err() == nil {
			if p.SendTime, p.SendToken = from.Pacer.Take(req); p.SendToken {
				p.InFlight = true
				return nil
			}
		}
		from.Share.awaitSendToken()
	}
	sent, taken, err := from.Pacer.Wait(ctx, req)
	if errors.Is(err, pacer.ErrRateLimited) {
		from.Share.RefuseSendToken()
	}
	p.SendTime, p.SendToken, p.InFlight = sent, taken, taken
	return err
}

// waitForGate waits until no Retry-After is in force.
func (p *Partition) waitForGate(caller *wait.Context) error {
	p.heldBack.Add(1)
	defer p.heldBack.Add(-1)
	for {
		now := time.Now()
		wait, spread, closed := p.Gate.Left(now)
		if !closed {
			return nil
		}
		wait = p.Spread.Add(wait, spread)
		if caller.Outlives(wait) {
			return fmt.Errorf("%w: the delay of %v that the service asked for %w",
				pacer.ErrRateLimited, wait.Round(time.Millisecond), pacer.ErrTooLate)
		}
		if !caller.Sleep(wait) {
			return caller.Ended()
		}
	}
}
