package awsretry

import (
	"cmp"
	"net/http"
	"time"
)

// A Loop makes the decisions of a Transport about one call whose attempts
// something else sends: the retry loop of another library, such as an AWS SDK.
// It uses the partitions of its Transport, the options of the call's context
// and the observers. It sends nothing, and leaves the delays to its caller.
//
// Call Wait before each attempt, and Classify, Settle and Decide after it. Call
// End at the end.
//
// The fields of the Transport that are about sending have no effect: Base,
// AttemptTimeout, StallTimeout, MaxBodyBuffer, Prepare, SDKHeaders,
// NestedRetries, RetryAfter, KeepConnections and Resume. A Loop is not safe for
// concurrent use.
type Loop struct {
	call      call
	attempt   attempt
	undecided bool // the attempt has an outcome, and there is no decision on it
	follows   bool // the next Wait is for another attempt
	ended     bool
}

// NewLoop begins a call. req describes it to the hooks: its context is the
// caller's, and its method, URL and headers are those of the call. Its body is
// not used. The error is that of Validate, or an [*Error] if the call may not
// begin; otherwise End must be called.
func (t *Transport) NewLoop(req *http.Request) (*Loop, error) {
	config, err := t.resolve()
	if err != nil {
		return nil, err
	}
	described := req.WithContext(req.Context())
	described.Body, described.GetBody, described.Cancel = nil, nil, nil
	l := &Loop{attempt: firstAttempt(permit{}, new(plainResult))}
	c := &l.call
	c.req, c.caller, c.elsewhere = described, callerOf(described), true
	c.body.Own(described)
	if err := c.share(config, new(plainResult)); err != nil {
		c.end()
		return nil, err
	}
	return l, nil
}

// MaxAttempts returns how often the request may be sent, the first attempt
// included.
func (l *Loop) MaxAttempts() int { return l.call.maxAttempts() }

// SetMaxAttempts makes n the Transport's MaxAttempts for this call, unless n is
// 0: what the library that sends the attempts allows. [WithMaxAttempts] can
// lower it.
func (l *Loop) SetMaxAttempts(n int) { l.call.limit = n }

// Wait waits until the next attempt may be sent: until no shared Retry-After is
// in force and, in Adaptive mode, for a send token. Of the first attempt it also
// draws Quota.InitialCost. It returns an [*Error] if the attempt must not be
// sent. With RateLimit.FailFast that may be an attempt that Decide has
// announced.
func (l *Loop) Wait() error {
	if l.follows {
		l.attempt, l.follows = l.attempt.successor(), false
	}
	a, c := &l.attempt, &l.call
	if cost := c.config.initialCost; a.record.Number == 1 && cost > a.permit.retryTokens {
		if err := c.acquire(cost); err != nil {
			return c.refuse(StopQuota, err, a.before)
		}
		a.permit.retryTokens = cost
	}
	if err := c.admit(&a.permit); err != nil {
		return c.refuse(StopRateLimit, err, a.before)
	}
	a.record.Waited = a.permit.waited
	if why := c.caller.ended(); why != nil {
		return c.cancellation(why, a.before)
	}
	if c.observers {
		a.record.Start = time.Now()
	}
	return nil
}

// Sent says that the attempt is sent: End does not put back what it took. So
// does Classify.
func (l *Loop) Sent() {
	l.attempt.permit.sendToken = false
	if l.attempt.record.Number == 1 {
		l.attempt.permit.retryTokens = 0
	}
}

// Classify takes the outcome of the attempt and returns its class, by
// Transport.Policy. resp is nil if there is no response; only its status and
// headers are used. code is the error code in its body. err is the error of an
// attempt without a response. Without resp and err the attempt succeeded.
func (l *Loop) Classify(resp *http.Response, code string, err error) Class {
	l.Sent()
	a, c := &l.attempt, &l.call
	a.record.Request, a.record.Partition = c.req, c.partition.name
	a.record.Response, a.record.Code, a.record.Err = bodiless(resp), code, err
	if resp != nil {
		a.record.Err = nil
	}
	if a.record.Response == nil && a.record.Err == nil {
		a.record.Class, a.record.MaybeExecuted = Success, a.before.maybeExecuted
	} else {
		a.classifyOutcome(c)
	}
	l.undecided = true
	return a.record.Class
}

// Fault returns an error if Policy returned a class that there is not.
func (l *Loop) Fault() error { return l.attempt.fault }

// bodiless returns a copy of resp that does not have the body, which is another
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
func (l *Loop) SetClass(class Class) {
	a := &l.attempt
	a.record.Class = class
	a.record.MaybeExecuted = a.before.maybeExecuted || a.mayHaveExecuted()
}

// Settle updates what later attempts and other calls use: the retry token
// bucket, the rate limiter and a shared Retry-After.
func (l *Loop) Settle() { l.attempt.settle(&l.call) }

// Decide decides whether another attempt follows, draws the tokens for it, and
// calls the observers. With Quota.Wait it waits for the tokens. If stop is "",
// another attempt follows, and delay is the time to sleep before it. If stop is
// StopQuota and LongPoll asks for it, delay is the time to sleep before the call
// ends.
func (l *Loop) Decide() (delay time.Duration, stop Stop) {
	a, c := &l.attempt, &l.call
	a.asked = a.findDelay(c) // Settle may have been left to another Loop
	if a.decide(c) && a.unpaid > 0 {
		if err := a.pay(c); err != nil {
			a.endWaiting(c, err)
		}
	}
	l.undecided, l.follows = false, a.record.Stop == ""
	a.report(c)
	return a.record.Delay, a.record.Stop
}

// Stop decides, in the place of Decide, that no attempt follows.
func (l *Loop) Stop(why Stop) {
	l.undecided = false
	l.attempt.stopAt(why)
	l.attempt.report(&l.call)
}

// Quiet keeps the attempts from the observers, for a library that has a Loop of
// its own for each attempt and does not know their numbers.
func (l *Loop) Quiet() { l.call.observers = false }

// Detach takes the tokens that Decide drew out of the Loop, for a library that
// has a Loop of its own for each attempt. If the next attempt succeeds, putBack
// must be called: it puts the tokens back, less those that Settle puts back for
// the success of a first attempt.
func (l *Loop) Detach() (putBack func()) {
	a, c := &l.attempt, &l.call
	lent := a.next.lent
	tokens := a.next.takeTokens()
	if lent {
		c.partition.quota.settle(tokens, false)
	}
	if c.partition.limiter != nil {
		a.permit.sendTime = c.partition.limiter.sendTime()
	}
	return func() { c.partition.quota.Release(max(tokens-c.config.increment, 0)) }
}

// End ends the call. It puts back the tokens of an attempt that was not sent,
// and reports an attempt to the observers that Decide was not called for.
// Classify and Settle may still be called after it.
func (l *Loop) End() {
	if l.ended {
		return
	}
	l.ended = true
	a, c := &l.attempt, &l.call
	defer c.end()
	sent := a.permit.sendTime
	c.responded = true
	a.end(c)
	a.permit.sendTime = sent // for Settle
	if l.undecided {
		l.Stop(cmp.Or(a.final(c), StopPermanent))
	}
}

// Delay returns the delay that would follow the attempt a, for a library that
// does not have a [Loop] at that point. It uses the Number, Class, Response and
// Request of a, and the Transport's Backoff, Revision, MaxRetryAfter and
// RetryAfterSpread. The error is that of Validate.
func (t *Transport) Delay(a Attempt) (time.Duration, error) {
	config, err := t.resolve()
	if err != nil {
		return 0, err
	}
	if a.Request == nil {
		a.Request = new(http.Request)
	}
	c := call{
		config: config, req: a.Request, options: optionsOf(a.Request.Context()), elsewhere: true,
		caller: callerOf(a.Request),
	}
	last := attempt{record: a}
	last.record.Number = max(a.Number, 1)
	last.asked = last.findDelay(&c)
	return last.delay(&c), nil
}
