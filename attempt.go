package awsretry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/respbody"
)

// An attempt is one sending of the request, from the wait for its turn to the
// decision about the next one. Each has a value of its own.
type attempt struct {
	Attempt // the record
	permit
	before past

	out     *http.Request          // what is sent
	marked  *recordContext         // of out, where it has one
	timeout *respbody.TimedContext // of out, nil without a time-out
	held    io.ReadCloser          // the body of out, until it is sent
	via     http.RoundTripper      // what sent out

	sent      bool
	ahead     *respbody.Ahead // of the response, where some of it was read ahead
	fault     error           // why the outcome cannot be classified
	canceled  bool            // the caller's context ended it
	abandoned bool            // later requests do not use its connection
	asked     time.Duration   // the delay that its response asks for
	reported  bool            // to the observers
	closed    bool            // its response is closed

	unpaid int    // tokens that the next attempt still has to wait for
	next   permit // of the next attempt
}

// firstAttempt returns the first attempt, which may have been sent already.
func firstAttempt(p permit, sent *plainResult) attempt {
	a := attempt{permit: p}
	a.Number = 1
	if sent.sent() {
		a.sent, a.via, a.Response, a.Err = true, sent.via, sent.resp, sent.err
	}
	return a
}

// successor returns the attempt that follows a.
func (a *attempt) successor() attempt {
	b := attempt{permit: a.next}
	b.Number = a.Number + 1
	b.before = past{attempts: a.Number, delay: a.Delay, failure: a.failure()}
	return b
}

// end runs on every way out, also when a hook or Base panics.
func (a *attempt) end(c *call) {
	a.permit.putBack(c.partition)
	a.next.putBack(c.partition)
	if a.held != nil {
		a.held.Close()
	}
	if a.Response != nil && !a.closed && !c.responded {
		respbody.Discard(a.Response, false, a.timeout.Ender())
	}
}

// failure returns what an error says of a.
func (a *attempt) failure() failure {
	if a.Response != nil {
		return failure{status: a.Response.StatusCode, code: a.Code}
	}
	return failure{err: a.Err}
}

// waitTurn waits until the attempt may be sent.
func (a *attempt) waitTurn(c *call) error {
	if err := c.admit(&a.permit, false); err != nil {
		return c.refusal(StopRateLimit, err, a.before)
	}
	a.Waited = a.waited
	return nil
}

// prepare makes the request that is sent. The first attempt sends the caller's
// own if nothing in it has to differ.
func (a *attempt) prepare(c *call) error {
	if a.sent {
		a.out = c.req
		return nil
	}
	if why := c.caller.ended(); why != nil { // the wait may have been long
		return c.cancellation(why, a.before)
	}
	timeout, timed := c.attemptTimeout()
	nested := c.options != nil && c.options.attempt > 0 // in an attempt of another Transport
	if a.Number == 1 && !c.ownRequest && !nested && !c.body.Copied() && !timed {
		a.out = c.req
		c.body.Take()
		return nil
	}
	ctx := c.caller.Context
	if a.Number > 1 || nested {
		a.marked = newRecordContext(ctx, c.req, c.options, a.Number)
		ctx = a.marked
	}
	if timed {
		a.timeout = respbody.NewTimedContext(ctx, timeout)
		ctx = a.timeout
	}
	if c.prepare == nil {
		a.out = c.req.WithContext(ctx)
	} else {
		a.out = c.req.Clone(ctx)
		a.out.Trailer = c.req.Trailer // the caller may fill it in while the body is read
		if a.out.Header == nil {
			a.out.Header = make(http.Header)
		}
	}
	c.body.Attach(a.out)
	if a.out.Body != nil && a.out.Body != http.NoBody {
		a.held = a.out.Body
	}
	if c.sdkHeaders && !c.outerRetries() && (c.prepare != nil || !awsproto.SignsRetryHeaders(c.req)) {
		a.setRetryHeaders(c)
	}
	if c.prepare != nil {
		return a.runHook(c)
	}
	return nil
}

// setRetryHeaders sets the retry headers of the AWS SDKs.
func (a *attempt) setRetryHeaders(c *call) {
	header := a.out.Header
	if c.prepare == nil { // it is the caller's
		header = header.Clone()
	}
	if header == nil {
		header = make(http.Header)
	}
	if c.invocation == "" {
		c.invocation = awsproto.NewInvocationID()
	}
	awsproto.SetRetryHeaders(header, c.invocation, a.Number, c.maxAttempts())
	a.out.Header = header
}

// runHook calls Prepare, with a request whose context Request.Cancel ends too.
func (a *attempt) runHook(c *call) error {
	ctx := a.out.Context()
	if c.caller.cancel != nil {
		*a.out = *a.out.WithContext(&prepareContext{ctx, c.caller.waiting()})
	}
	body, length := a.out.Body, a.out.ContentLength
	err := c.prepare(a.out, a.Number)
	if c.caller.cancel != nil {
		*a.out = *a.out.WithContext(afterPrepare(ctx, a.out.Context()))
	}
	replaced := !same(a.out.Body, body)
	if replaced && a.out.Body != nil {
		a.out.Body.Close()
	}
	if err == nil && (replaced || a.out.ContentLength != length) {
		err = errors.New("it replaced the request's body or its length, which it must not")
	}
	if err != nil {
		return a.hookError(c, err)
	}
	if why := c.caller.ended(); why != nil { // signing can take its time
		return c.cancellation(why, a.before)
	}
	return nil
}

// hookError returns the error of a call that an error of Prepare ends. If that
// is not an *Error with a Stop, and the caller's context has ended, the cause of
// that end is why Prepare failed.
func (a *attempt) hookError(c *call, err error) error {
	stop, chosen := StopPermanent, false
	if own := (*Error)(nil); errors.As(err, &own) && own.Stop != "" && own.Err != nil {
		stop, chosen, err = own.Stop, true, own.Err
	}
	err = a.before.failure.after(fmt.Errorf("error from Prepare: %w", err))
	if why := c.caller.ended(); why != nil && !chosen {
		stop, err = StopCanceled, interruption(c.caller.Context, why, err)
	}
	return &Error{Attempts: a.before.attempts, Stop: stop, Err: err}
}

// same reports whether two bodies are one.
func same(a, b io.ReadCloser) bool {
	if a == nil || b == nil || !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() {
		return (a == nil) == (b == nil)
	}
	return a == b
}

// send sends the request, unless that is done.
func (a *attempt) send(c *call) {
	a.Request, a.Partition = c.req, c.partition.name
	if c.observers {
		a.Start = time.Now()
	}
	a.held, a.sendToken = nil, false
	if !a.sent {
		a.sent = true
		a.via = a.route(c)
		a.sendVia()
	}
	switch {
	case a.Err != nil && a.Response != nil:
		if a.Response.Body != nil {
			a.Response.Body.Close()
		}
		a.Response = nil
	case a.Err == nil && a.Response == nil:
		a.Err = errors.New("awsretry: Base returned neither a response nor an error")
	case a.Err == nil && a.Response.Body == nil:
		a.Response.Body = http.NoBody
	}
	if a.Response != nil && c.conns != nil {
		c.conns.Saw(a.out, a.Response.ProtoMajor)
	}
}

// route returns what sends the request: Base, or a copy of it whose connections
// did not fail.
func (a *attempt) route(c *call) http.RoundTripper {
	switch {
	case c.conns == nil || !neterr.Serves(a.out.URL):
		return c.base
	case a.freshConn:
		return c.conns.Single(a.out.URL)
	}
	return c.conns.For(a.out.URL)
}

func (a *attempt) sendVia() {
	if a.timeout == nil {
		a.Response, a.Err = a.via.RoundTrip(a.out)
		return
	}
	a.timeout.Start()
	bound := false
	defer func() {
		if !bound {
			a.timeout.End()
		}
	}()
	a.Response, a.Err = a.via.RoundTrip(a.out)
	switch {
	case a.Err != nil:
		a.Err = a.timeout.Explain(a.Err)
	case a.Response != nil:
		a.timeout.Bind(a.Response)
		bound = true
	}
}

// classify finds the error code and the class of the outcome.
func (a *attempt) classify(c *call) {
	switch {
	case a.Err == nil:
		a.Code = a.findCode(c)
		a.Class = a.classOf(c)
	case c.caller.ended() != nil:
		a.Class, a.canceled = Permanent, true
	case c.body.Err() != nil:
		a.Class = Permanent
	default:
		a.Class = a.classOf(c)
	}
	if !a.Start.IsZero() {
		a.Elapsed = time.Since(a.Start)
	}
}

func (a *attempt) classOf(c *call) Class {
	policy := c.policy
	if c.options != nil && c.options.hasPolicy {
		policy = c.options.policy
	}
	if policy == nil {
		return DefaultPolicy(&a.Attempt)
	}
	shown := a.Attempt // the policy may keep it; a stays on the stack
	class := policy(&shown)
	if class < Success || class > Throttled {
		a.fault = fmt.Errorf("awsretry: Policy returned %v; it must return Success, Permanent, Transient, Timeout or Throttled", class)
		return Permanent
	}
	if class == Success && a.Err != nil {
		a.fault = fmt.Errorf("awsretry: Policy returned success for an attempt without a response: %w", a.Err)
		return Permanent
	}
	return class
}

// codeWait is how long a response body is waited for to find an error code. A
// body that is slower is classified by what came.
const codeWait = time.Second

// findCode returns the AWS error code of the response, "" if there is none. It
// reads the body ahead where a code may be in it, and leaves it whole.
func (a *attempt) findCode(c *call) string {
	resp := a.Response
	hidden := awsproto.MayHideError(resp, c.req)
	if resp.StatusCode < 400 && !hidden {
		return ""
	}
	code := awsproto.HeaderCode(resp.Header)
	wanted := code == "" && awsproto.MayHoldCode(resp.Header) || c.retryAfter != nil
	if !wanted || resp.Body == http.NoBody {
		return code
	}
	var enough func([]byte) bool
	if hidden {
		enough = new(awsproto.HiddenError).Impossible
	}
	a.Response, a.ahead = respbody.Read(resp, awsproto.MaxErrorBody, enough)
	if !a.ahead.Ended() {
		a.waitForCode(c, hidden)
	}
	body := a.ahead.Stop()
	if code == "" {
		code = awsproto.BodyCode(resp.Header, body)
	}
	return code
}

// waitForCode waits until the body is read ahead. Amazon S3 begins a document at
// once and, for a large copy, ends it after minutes.
func (a *attempt) waitForCode(c *call, hidden bool) {
	ctx := c.caller.waiting()
	limit, ok := a.timeout.Left()
	if !hidden && (!ok || limit > codeWait) {
		limit, ok = codeWait, true
	}
	if ok {
		a.ahead.Wait(ctx, limit)
	} else {
		a.ahead.Settle(ctx)
	}
}

// findDelay returns the delay that the response asks for, 0 if it asks for none.
func (a *attempt) findDelay(c *call) time.Duration {
	if a.Response == nil || !a.Class.Retryable() || c.ignoreRetryAfter {
		return 0
	}
	if c.retryAfter != nil {
		var body []byte
		if a.ahead != nil {
			body = a.ahead.Stop()
		}
		if asked, ok := c.retryAfter(a.Response, body); ok {
			return max(asked, 0)
		}
	}
	if len(a.Response.Header["Retry-After"]) == 0 {
		return 0
	}
	asked, _ := awsproto.RetryAfter(a.Response.Header, time.Now())
	return asked
}

// settle updates what later attempts and other calls use: the buckets, the gate
// and the connections.
func (a *attempt) settle(c *call) {
	if c.conns != nil && !a.canceled && neterr.TimedOut(a.Err) && !neterr.DialFailed(a.Err) {
		a.abandoned = c.conns.Abandon(a.out.URL, a.via) // later requests would meet it too, whether this is retried or not
	}
	if c.partition.limiter != nil && !a.canceled {
		c.partition.limiter.Update(a.Class == Throttled)
	}
	if a.Class == Success {
		if a.Number == 1 {
			c.partition.quota.Release(c.increment)
		} else {
			c.partition.quota.Release(a.retryTokens)
		}
	}
	a.retryTokens = 0
	a.asked = a.findDelay(c)
	if c.shareRetryAfter && 0 < a.asked && a.asked <= c.maxRetryAfter {
		c.partition.gate.close(time.Now(), a.asked, c.spreadOf(a.asked))
	}
}

// report calls the observers, once.
func (a *attempt) report(c *call) {
	if !c.observers || a.reported {
		return
	}
	a.reported = true
	if c.observe != nil {
		c.observe(a.Attempt)
	}
	if c.options != nil && c.options.observe != nil {
		c.options.observe(a.Attempt)
	}
}

// finish returns the last response, or an error.
func (a *attempt) finish(c *call) (*http.Response, error) {
	if a.ahead != nil && !a.closed && a.fault == nil && !a.settleBody(c) {
		a.giveUp()
	}
	kept := a.Err == nil && !a.closed && a.fault == nil
	if kept && (a.Number > 1 || a.Class != Success) {
		a.keepRecord(c)
	}
	a.report(c)
	if a.Stop == StopQuota && a.Delay > 0 {
		a.sleepKeeping(c, a.Delay) // so that the loop of a long-polling caller does not spin
	}
	switch {
	case a.fault != nil:
		return nil, a.error(StopPermanent, a.fault)
	case !kept:
		return nil, a.error(a.Stop, a.lastError(c))
	}
	c.responded = true
	return a.Response, nil
}

func (a *attempt) error(stop Stop, err error) error {
	return &Error{Attempts: a.Number, Stop: stop, Err: err}
}

// settleBody waits until nothing of the response is being read ahead, so that
// its body and its trailers are the caller's alone. It reports false if the
// caller's context ended first, and the body with it.
func (a *attempt) settleBody(c *call) bool {
	a.ahead.Stop()
	ctx := c.caller.Context
	if !a.ahead.Ended() {
		ctx = c.caller.waiting()
	}
	return a.ahead.Settle(ctx) && (!a.ahead.Broken() || c.caller.ended() == nil)
}

// lastError returns the error of a call that returns no response.
func (a *attempt) lastError(c *call) error {
	why := c.caller.ended()
	if a.Stop != StopCanceled || why == nil {
		return neterr.SchemeMismatch(a.Err)
	}
	err := a.Err
	if a.Response != nil {
		err = a.failure().error()
	} else if last := a.before.failure.error(); last != nil && a.canceled {
		err = fmt.Errorf("%w; before that: %w", err, last)
	}
	return interruption(c.caller.Context, why, err)
}

// giveUp discards the response, because the caller's context has ended and the
// body with it.
func (a *attempt) giveUp() {
	a.stopAt(StopCanceled)
	if a.Response != nil {
		a.closed = true
		respbody.Discard(a.Response, false, a.timeout.Ender())
	}
}

// stopAt ends the call with this attempt, for which a retry was planned.
func (a *attempt) stopAt(stop Stop) { a.Stop, a.Delay = stop, 0 }

// sleepKeeping sleeps while the response is kept.
func (a *attempt) sleepKeeping(c *call, d time.Duration) {
	defer a.timeout.Hold()()
	c.sleep(d)
}

// keepRecord leaves the record of the last attempt to Outcome, in the context of
// the response's request: of ours, or of the one that Base says it sent, which
// may have gone elsewhere.
func (a *attempt) keepRecord(c *call) {
	sent := a.Response.Request
	var known *recordContext
	if sent != nil {
		known, _ = sent.Context().Value(recordKey{}).(*recordContext)
	}
	if sent == nil || known != nil && known != a.marked { // none, or left there by another request
		sent, known = a.out, a.marked
	}
	if known == nil {
		a.marked = newRecordContext(c.caller.Context, c.req, c.options, 0)
		sent = sent.WithContext(a.marked)
	}
	a.Response.Request = sent
	a.marked.set(&a.Attempt)
}
