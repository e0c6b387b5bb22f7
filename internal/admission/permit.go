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
	SendTime time.Duration // see pacer.Pacer
	Waited   time.Duration // until it was admitted

	retryTokens int
	partition   *Partition // of the tokens
	turn        turn
}

// A turn is how far an attempt has come.
type turn int

const (
	waiting  turn = iota // for a send token or the end of a Retry-After, if need be
	free                 // it may be sent, and needs no send token
	holding              // it may be sent, and has a send token
	inFlight             // it was sent with a send token, and the pacer expects its outcome
)

// Draw draws retry tokens for p if there are enough, and reports whether there were.
func (p *Permit) Draw(from *Partition, cost int) bool {
	if !from.Quota.Take(cost) {
		return false
	}
	p.partition, p.retryTokens = from, cost
	return true
}

// Acquire draws tokens for p, once. With Quota.Wait it waits for them.
func (p *Permit) Acquire(from *Partition, caller *wait.Context, cost int) error {
	if cost <= p.retryTokens {
		return nil
	}
	ctx := caller.Context
	if from.Quota.Waits() {
		ctx = caller.Waiting()
	}
	if err := from.Quota.Acquire(ctx, cost); err != nil {
		return err
	}
	p.partition, p.retryTokens = from, cost
	return nil
}

// Await is Acquire, and waits for up to d for tokens that a fleet grants this
// process.
func (p *Permit) Await(from *Partition, caller *wait.Context, cost int, d time.Duration) error {
	if from.Quota.Waits() {
		return p.Acquire(from, caller, cost)
	}
	if err := from.Quota.Await(caller.Waiting(), cost, d); err != nil {
		return err
	}
	p.partition, p.retryTokens = from, cost
	return nil
}

// Admit waits until p's attempt may be sent: until no shared Retry-After is in
// force and, in adaptive mode, for a send token. It returns an error that wraps
// [pacer.ErrRateLimited] if the wait would be too long, and the cause if the
// context ends. If timed is true, it measures the wait.
func (p *Permit) Admit(from *Partition, caller *wait.Context, req *http.Request, timed bool) error {
	gate := &from.Gate
	if p.turn != waiting {
		return nil
	}
	if gate.Load() == nil && from.Pacer == nil {
		p.turn = free
		return nil
	}
	var start time.Time
	if timed {
		start = time.Now()
	}
	p.partition = from
	for p.turn == waiting {
		if gate.Load() != nil {
			if err := from.waitForGate(caller); err != nil {
				return err
			}
		}
		if p.turn = free; from.Pacer == nil {
			break
		}
		if err := p.takeSendToken(caller, req); err != nil {
			return err
		}
		if gate.Load() != nil && gate.ClosedFor(time.Now()) > 0 { // it closed during the wait in line
			p.putBackSendToken()
		}
	}
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
	}
	sent, taken, err := from.Pacer.Wait(ctx, req)
	if errors.Is(err, pacer.ErrRateLimited) {
		from.Share.RefuseSendToken()
	}
	switch p.SendTime = sent; {
	case err != nil:
		p.turn = waiting
	case taken:
		p.turn = holding
	}
	return err
}

// putBackSendToken makes p wait again.
func (p *Permit) putBackSendToken() {
	if p.turn == holding {
		p.partition.Pacer.PutBack(p.SendTime)
	}
	p.turn = waiting
}

// Send uses the send token: the attempt is sent.
func (p *Permit) Send() {
	if p.turn == holding {
		p.turn = inFlight
	}
}

// Spend gives up the retry tokens.
func (p *Permit) Spend() { p.retryTokens = 0 }

// Holds reports whether p has a send token that is not used.
func (p *Permit) Holds() bool { return p.turn == holding }

// RetryTokens returns how many p owns.
func (p *Permit) RetryTokens() int { return p.retryTokens }

// Release ends the ownership of the tokens: it puts them back, but for a send token
// that was used, or gives them up. Further calls do nothing.
func (p *Permit) Release(putBack bool) {
	if putBack && p.retryTokens > 0 {
		p.partition.Quota.PutBack(p.retryTokens)
	}
	switch {
	case p.turn == holding && putBack:
		p.partition.Pacer.PutBack(p.SendTime)
	case p.turn == holding, p.turn == inFlight:
		p.partition.Pacer.Settle(p.SendTime, p.turn == inFlight)
	}
	p.retryTokens, p.turn = 0, free
}

// Move returns a permit that owns the tokens instead of p.
func (p *Permit) Move() Permit {
	moved := *p
	p.retryTokens, p.turn = 0, free
	return moved
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
