package awsretry

import (
	"cmp"
	"math"
	"net/http"
	"time"

	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/internal/wait"
)

// A loop makes the decisions of a Transport about one call whose attempts another
// library sends, such as an AWS SDK, with the partitions of the Transport, the options of
// the call's context and the observers. It sends nothing, and leaves the delays to its
// caller, who calls Wait before each attempt, Classify, Settle and Decide after it, and
// End at the end. The fields of the Transport that awssdk.Config does not have have no
// effect. A loop is not safe for concurrent use.
type loop struct {
	call      call
	detached  bool // see Loop
	undecided bool // the attempt has an outcome, and there is no decision on it
	follows   bool // the next Wait is for another attempt
	ended     bool
}

// Loop begins a call whose attempts package awssdk makes. req describes the call to
// the hooks: its context is the caller's, and its method, URL and headers are those
// of the call. Its body is not used.
//
// If detached is set, the loop is for one attempt of a call whose other attempts
// are not known: the observers are not called, the number of attempts is not
// limited, and an attempt whose wait is over is treated as sent.
//
// The error is that of Validate, or an *Error if the call may not begin.
func (t *Transport) Loop(_ retrier.Seal, req *http.Request, detached bool) (*loop, error) {
	described := req.WithContext(req.Context())
	described.Body, described.GetBody, described.Cancel = nil, nil, nil
	l := &loop{detached: detached}
	c := &l.call
	config, err := t.resolve()
	if err != nil {
		return nil, err
	}
	if err := c.begin(config, described, nil); err != nil {
		c.releaseShared()
		return nil, err
	}
	if detached {
		c.observed = false
		l.LimitAttempts(math.MaxInt)
	}
	c.start(1, past{})
	return l, nil
}

// LimitAttempts makes n the Transport's MaxAttempts for this call, unless n is
// 0. It returns how often the request may be sent, which WithMaxAttempts may
// have lowered.
func (l *loop) LimitAttempts(n int) int {
	c := &l.call
	if n > 0 {
		c.attempts = cmp.Or(min(n, c.options.maxAttempts), n)
	}
	c.now.record.MaxAttempts = c.attempts
	return c.attempts
}

// Wait waits until the next attempt may be sent: until no shared Retry-After is
// in force and, in Adaptive mode, for a send token. For the first attempt it
// also draws Quota.InitialCost. It returns an *Error if the attempt must not be
// sent. With RateLimit.FailFast that may be an attempt that Decide announced.
func (l *loop) Wait() error {
	c := &l.call
	if l.follows {
		c.advance()
		l.follows = false
	}
	if err := c.waitTurn(); err != nil {
		return err
	}
	if why := c.caller.Ended(); why != nil {
		return c.finishRefused(StopCanceled, why)
	}
	if c.observed {
		c.now.record.Start = time.Now()
	}
	if l.detached {
		l.keepTokens()
	}
	return nil
}

// keepTokens makes End keep what the attempt took, because it is sent.
func (l *loop) keepTokens() {
	c := &l.call
	c.now.permit.Send()
	if c.now.record.Number == 1 { // Quota.InitialCost
		c.now.permit.Spend()
	}
}

// Classify takes the outcome of the attempt, which was sent, and returns its
// class by Transport.Policy. resp is nil if there is no response; only its
// status and headers are used. code is the error code in its body. err is the
// error of an attempt without a response. Without resp and err the attempt
// succeeded.
func (l *loop) Classify(resp *http.Response, code string, err error) Class {
	l.keepTokens()
	c := &l.call
	c.now.record.Response, c.now.record.Code, c.now.record.Err = bodiless(resp), code, err
	if resp != nil {
		c.now.record.Err = nil
	}
	if c.now.record.Response == nil && c.now.record.Err == nil {
		c.now.record.Class, c.now.record.MaybeExecuted = Success, c.now.before.maybeExecuted
	} else {
		c.classify()
	}
	l.undecided = true
	return c.now.record.Class
}

// Fault returns an error if Policy returned an undefined class.
func (l *loop) Fault() error { return l.call.now.fault }

// bodiless returns a copy of resp without the body, which is the other
// library's.
func bodiless(resp *http.Response) *http.Response {
	if resp == nil {
		return nil
	}
	shown := *resp
	shown.Body = http.NoBody
	return &shown
}

// SetClass replaces the class that Classify returned.
func (l *loop) SetClass(class Class) {
	c := &l.call
	c.now.record.Class = class
	c.now.record.MaybeExecuted = c.now.before.maybeExecuted || c.mayHaveExecuted()
}

// Settle updates what later attempts and other calls use: the retry token
// bucket, the rate limiter and a shared Retry-After.
func (l *loop) Settle() { l.call.applyOutcome() }

// Decide decides whether another attempt follows, draws the tokens for it, and
// calls the observers. If it has to wait for the tokens, that is a part of the
// delay. If why is not "", no attempt follows for that reason. If stop is "", another attempt
// follows after delay. If stop is StopQuota and LongPoll asks for it, the
// caller must sleep for delay before the call ends.
func (l *loop) Decide(why Stop) (delay time.Duration, stop Stop) {
	c := &l.call
	c.now.record.Asked = c.findDelay() // Settle may have been left to another loop
	waited := time.Duration(0)         // of the delay
	if why != "" {
		c.stop(why)
	} else if c.decide() {
		left, err := c.pay()
		if waited = c.now.record.Delay - left; err != nil {
			c.stopWaiting(err)
		}
	}
	l.undecided, l.follows = false, c.now.record.Stop == ""
	c.report()
	return max(c.now.record.Delay-waited, 0), c.now.record.Stop
}

// Detach takes the tokens that Decide drew out of a loop for one attempt alone.
// If the next attempt succeeds, putBack must be called. It puts the tokens
// back, less those that Settle puts back for the success of a first attempt.
func (l *loop) Detach() (putBack func()) {
	c := &l.call
	tokens := c.now.next.RetryTokens()
	c.now.next.Release(false)
	if c.partition.Pacer != nil {
		c.now.permit.SendTime = c.partition.Pacer.SendTime()
	}
	return func() { c.partition.Quota.PutBack(max(tokens-c.config.quota.SuccessIncrement, 0)) }
}

// End ends the call. It puts back the tokens of an attempt that was not sent,
// and reports an attempt that Decide was not called for. Classify and Settle
// may still be called after it. Further calls do nothing.
func (l *loop) End() {
	if l.ended {
		return
	}
	l.ended = true
	c := &l.call
	defer c.releaseShared()
	c.now.owner = callers
	if l.detached && !c.now.permit.Holds() { // Settle ends a request that was sent
		sent := c.now.permit.Move()
		defer func() { c.now.permit = sent }()
	}
	c.releaseAttempt()
	if l.undecided {
		l.Decide(cmp.Or(c.whyStop(), StopPermanent))
	}
}

// DelayAfter returns the delay that would follow an attempt, for package awssdk
// where it has no loop. It uses the Number, Class, Response and Request of the
// attempt. The error is that of Validate.
func (t *Transport) DelayAfter(_ retrier.Seal, record Attempt) (time.Duration, error) {
	config, err := t.resolve()
	if err != nil {
		return 0, err
	}
	if record.Request == nil {
		record.Request = new(http.Request)
	}
	c := call{req: record.Request, caller: wait.Of(record.Request), now: attempt{record: record}}
	c.configure(config, optionsOf(record.Request.Context()))
	c.partition = &config.uncalled
	c.now.record.Number = max(record.Number, 1)
	c.now.record.Asked = c.findDelay()
	return c.nextDelay(), nil
}
