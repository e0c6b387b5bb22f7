package awsretry

import "time"

// A permit is what an attempt needs before it is sent, apart from its request.
// It owns the tokens that were drawn for the attempt until release.
type permit struct {
	partition   *partition // of the tokens
	retryTokens int
	lent        bool // the retry tokens come back if the attempt succeeds
	sendToken   bool
	inFlight    bool // counted by the rate limiter until settled

	sendTime  time.Duration // on the rate limiter's clock; notLimited if the limiter does not need it
	admitted  bool          // neither the rate limiter nor a Retry-After delays the attempt
	waited    time.Duration // until it was admitted
	freshConn bool          // use a connection that no other request has used
}

// release ends the ownership of the tokens: it puts them back or gives them up.
// Further calls do nothing.
func (p *permit) release(putBack bool) {
	switch {
	case p.lent:
		p.partition.quota.endLoan(p.retryTokens, putBack)
	case putBack && p.retryTokens > 0:
		p.partition.quota.giveBack(p.retryTokens)
	}
	switch {
	case putBack && p.sendToken:
		p.partition.limiter.pacer.PutBack(p.sendTime)
	case p.inFlight:
		p.partition.limiter.pacer.Settle(p.sendTime, !p.sendToken)
	}
	p.retryTokens, p.lent, p.sendToken, p.inFlight = 0, false, false, false
}

// returnSendToken puts the send token back.
func (p *permit) returnSendToken() {
	p.partition.limiter.pacer.PutBack(p.sendTime)
	p.sendToken, p.inFlight = false, false
}

// move returns a permit that owns the tokens instead of p.
func (p *permit) move() permit {
	moved := *p
	p.retryTokens, p.lent, p.sendToken, p.inFlight = 0, false, false, false
	return moved
}

// own makes p the owner of tokens that Quota.lend or one of the waits for a loan returned.
func (p *permit) own(from *partition, tokens int) {
	p.partition, p.retryTokens, p.lent = from, tokens, tokens > 0
}
