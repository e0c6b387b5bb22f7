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

// An attempt is one sending of the request, from its preparation to the
// decision on its outcome. Each has a value of its own.
type attempt struct {
	Attempt // the record

	out     *http.Request     // what is sent
	marked  *recordContext    // of out, where it has one
	timeout *attemptContext   // of out, nil without a time-out
	held    io.ReadCloser     // the body of out, until it is sent
	via     http.RoundTripper // what sent out
	ahead   *respbody.Ahead   // of the response, where some of it was read ahead
	fault   error             // why the outcome cannot be judged

	unpaid    int  // tokens that the next attempt still has to wait for
	abandoned bool // the caller's context ended it
	told      bool // its observers were called
	detoured  bool // its connection is not used again
	closed    bool // its response is closed
	returned  bool // its response is the caller's
}

func (c *call) newAttempt() *attempt {
	c.attempt = attempt{}
	return &c.attempt
}

// prepare makes the request that is sent. The first attempt sends the caller's
// own where nothing has to differ in it.
func (c *call) prepare(a *attempt) error {
	number := c.number + 1
	if number == 1 && c.first.engine != nil {
		a.out = c.req
		return nil
	}
	if why := c.ended(); why != nil { // the wait before may have been long
		return c.canceled(why)
	}
	inner := c.options != nil && c.options.attempt > 0 // this is part of an attempt of another Transport
	if number == 1 && !c.ownRequest && !inner && !c.body.Copied() && c.attemptTimeout() == 0 {
		a.out = c.req
		c.body.Take()
		return nil
	}
	ctx := c.ctx
	if number > 1 || inner {
		a.marked = newRecordContext(ctx, c.req, c.options, number)
		ctx = a.marked
	}
	if timeout := c.attemptTimeout(); timeout > 0 {
		a.timeout = newAttemptContext(ctx, timeout)
		ctx = a.timeout
	}
	if c.hook == nil {
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
	if c.headers && !c.outerRetries() && (c.hook != nil || !awsproto.SignsRetryHeaders(c.req)) {
		c.setHeaders(a.out, number)
	}
	if c.hook != nil {
		return c.runHook(a, number)
	}
	return nil
}

// runHook calls Prepare.
func (c *call) runHook(a *attempt, number int) error {
	body, length := a.out.Body, a.out.ContentLength
	err := c.hook(a.out, number)
	replaced := !same(a.out.Body, body)
	if replaced && a.out.Body != nil {
		a.out.Body.Close()
	}
	if err == nil && (replaced || a.out.ContentLength != length) {
		err = errors.New("it replaced the request's body or its length, which it must not")
	}
	if err != nil {
		stop := StopPermanent
		if own := (*Error)(nil); errors.As(err, &own) && own.Stop != "" && own.Err != nil {
			stop, err = own.Stop, own.Err
		}
		err = fmt.Errorf("error from Prepare: %w", err)
		if last := c.last.error(); last != nil {
			err = fmt.Errorf("%w; before that: %w", err, last)
		}
		return c.error(stop, err)
	}
	if why := c.ended(); why != nil { // signing can take its time
		return c.canceled(why)
	}
	return nil
}

// same reports whether two bodies are one.
func same(a, b io.ReadCloser) bool {
	if a == nil || b == nil || !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() {
		return (a == nil) == (b == nil)
	}
	return a == b
}

// canceled is the error of a call whose caller has no use for a response.
func (c *call) canceled(why error) error {
	return c.error(StopCanceled, interruption(c.ctx, why, c.last.error()))
}

// setHeaders sets the AWS SDKs' retry headers of an attempt.
func (c *call) setHeaders(out *http.Request, number int) {
	header := out.Header
	if c.hook == nil { // it is the caller's
		header = header.Clone()
	}
	if header == nil {
		header = make(http.Header)
	}
	if c.id == "" {
		c.id = awsproto.NewInvocationID()
	}
	awsproto.SetRetryHeaders(header, c.id, number, c.maxAttempts())
	out.Header = header
}

// send makes the attempt.
func (c *call) send(a *attempt) {
	c.number++
	a.Request, a.Number, a.Partition = c.req, c.number, c.partition.name
	if c.observed {
		a.Start = time.Now()
	}
	a.held, c.next.token = nil, false
	if c.number == 1 && c.first.engine != nil {
		a.via, a.Response, a.Err = c.first.via, c.first.resp, c.first.err
	} else {
		a.via = c.route(a.out)
		c.sendVia(a)
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

// route returns what sends out: Base, or a copy of it whose connections did not
// fail.
func (c *call) route(out *http.Request) http.RoundTripper {
	switch {
	case c.conns == nil || !neterr.Serves(out.URL):
		return c.base
	case c.newConn:
		return c.conns.Single(out.URL)
	}
	return c.conns.For(out.URL)
}

func (c *call) sendVia(a *attempt) {
	if a.timeout == nil {
		a.Response, a.Err = a.via.RoundTrip(a.out)
		return
	}
	a.timeout.start()
	bound := false
	defer func() {
		if !bound {
			a.timeout.end()
		}
	}()
	a.Response, a.Err = a.via.RoundTrip(a.out)
	switch {
	case a.Err != nil:
		a.Err = a.timeout.explain(a.Err)
	case a.Response != nil:
		a.timeout.bind(a.Response)
		bound = true
	}
}

// classify finds out what the outcome means.
func (c *call) classify(a *attempt) {
	switch {
	case a.Err == nil:
		a.Code = c.findCode(a)
		a.Class = c.classOf(a)
	case c.ended() != nil:
		a.Class, a.abandoned = Permanent, true
	case c.body.Err() != nil:
		a.Class = Permanent
	default:
		a.Class = c.classOf(a)
	}
	if !a.Start.IsZero() {
		a.Elapsed = time.Since(a.Start)
	}
}

func (c *call) classOf(a *attempt) Class {
	policy := c.policy
	if c.options != nil && c.options.hasPolicy {
		policy = c.options.policy
	}
	if policy == nil {
		return DefaultPolicy(&a.Attempt)
	}
	shown := a.Attempt // the policy may keep it, a stays on the stack
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

// settle tells the buckets how the attempt went.
func (c *call) settle(a *attempt) {
	if c.conns != nil && !a.abandoned && neterr.TimedOut(a.Err) && !neterr.DialFailed(a.Err) {
		a.detoured = c.conns.Abandon(a.out.URL, a.via) // later requests would meet it too, whether this is retried or not
	}
	if c.partition.limiter != nil && !a.abandoned {
		c.partition.limiter.Update(a.Class == Throttled)
	}
	if a.Class == Success {
		if a.Number == 1 {
			c.partition.quota.Release(c.increment)
		} else {
			c.partition.quota.Release(c.drawn)
		}
	}
	c.drawn = 0
}

// finish returns the last response, or an error.
func (c *call) finish(a *attempt) (*http.Response, error) {
	if a.ahead != nil && !a.closed && a.fault == nil && !c.settleBody(a) {
		c.giveUpResponse(a) // the caller's context ended
	}
	kept := a.Err == nil && !a.closed && a.fault == nil
	if kept && (a.Number > 1 || a.Class != Success) {
		c.keepRecord(a)
	}
	c.tell(a)
	if a.Stop == StopQuota && a.Delay > 0 {
		c.sleepKeeping(a, a.Delay) // so that the loop of a long-polling caller does not spin
	}
	switch {
	case a.fault != nil:
		return nil, c.error(StopPermanent, a.fault)
	case !kept:
		return nil, c.error(a.Stop, c.failureOf(a))
	}
	a.returned = true
	return a.Response, nil
}

// settleBody waits until nothing of the response is being read ahead any more,
// so that its body, and its trailers, are the caller's alone. It reports false
// where the caller's context ended first, and the body with it.
func (c *call) settleBody(a *attempt) bool {
	a.ahead.Stop()
	ctx := c.ctx
	if !a.ahead.Ended() {
		ctx = c.waitCtx()
	}
	return a.ahead.Settle(ctx) && (!a.ahead.Broken() || c.ended() == nil)
}

// failureOf is the error where no response is returned.
func (c *call) failureOf(a *attempt) error {
	why := c.ended()
	if a.Stop != StopCanceled || why == nil {
		return neterr.SchemeMismatch(a.Err)
	}
	if a.closed || a.Err == nil {
		return interruption(c.ctx, why, c.last.error())
	}
	err := a.Err
	if last := c.last.error(); last != nil && a.abandoned {
		err = fmt.Errorf("%w; before that: %w", err, last)
	}
	return interruption(c.ctx, why, err)
}

// keepRecord leaves the record of the last attempt to Outcome, in the context of
// the response's request: of ours, or of the one that Base says it sent, which
// may have gone elsewhere.
func (c *call) keepRecord(a *attempt) {
	sent := a.Response.Request
	var known *recordContext
	if sent != nil {
		known, _ = sent.Context().Value(recordKey{}).(*recordContext)
	}
	if sent == nil || known != nil && known != a.marked { // none, or left there by another request
		sent, known = a.out, a.marked
	}
	if known == nil {
		a.marked = newRecordContext(c.ctx, c.req, c.options, 0)
		sent = sent.WithContext(a.marked)
	}
	a.Response.Request = sent
	a.marked.set(&a.Attempt)
}
