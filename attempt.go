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
	"example.com/awsretry/internal/retrier"
)

// An attempt is one sending of the request, from the wait for its turn to the
// decision about the next one. Each has a value of its own.
type attempt struct {
	record Attempt
	permit permit
	before past

	out    *http.Request     // what is sent
	marked *recordContext    // of out, where it has one
	own    *respbody.Context // of out, nil if it has none of its own
	held   io.ReadCloser     // the body of out, until it is sent
	via    http.RoundTripper // what sent out

	sent      bool
	ahead     *respbody.Ahead // of the response, where some of it was read ahead
	hung      bool            // the reading ahead took longer than codeWait
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
	a.record.Number = 1
	if sent.sent() {
		a.sent, a.via, a.record.Response, a.record.Err = true, sent.via, sent.resp, sent.err
	}
	return a
}

// successor returns the attempt that follows a.
func (a *attempt) successor() attempt {
	b := attempt{permit: a.next}
	b.record.Number, b.record.Offset = a.record.Number+1, a.record.Offset
	b.before = past{
		attempts: a.record.Number, delay: a.record.Delay, failure: a.failure(),
		hung: a.hung || a.before.hung, maybeExecuted: a.record.MaybeExecuted,
	}
	return b
}

// end runs on every way out, also when a hook or Base panics.
func (a *attempt) end(c *call) {
	a.permit.putBack(c.partition)
	a.next.putBack(c.partition)
	switch {
	case a.record.Response != nil && !a.closed && !c.responded:
		respbody.Close(a.record.Response, a.own.Ender())
	case a.record.Response == nil && a.own != nil: // nothing was sent, or it failed
		a.own.End()
	}
	if a.held != nil {
		a.held.Close() // may panic
	}
}

// failure returns what an error says of a.
func (a *attempt) failure() failure {
	if a.record.Response != nil {
		return failure{status: a.record.Response.StatusCode, code: a.record.Code}
	}
	return failure{err: a.record.Err}
}

// waitTurn waits until the attempt may be sent.
func (a *attempt) waitTurn(c *call) error {
	if err := c.admit(&a.permit); err != nil {
		return c.refuse(StopRateLimit, err, a.before)
	}
	a.record.Waited = a.permit.waited
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
	ownContext := timed || c.config.stall > 0 || c.config.mayHang(c.caller.Context) && c.mayRetry(1)
	if a.record.Number == 1 && !c.config.ownRequest && !nested && !c.body.Copied() && !ownContext {
		a.out = c.req
		c.body.Take()
		return nil
	}
	ctx := c.caller.Context
	if a.record.Number > 1 || nested {
		a.marked = newRecordContext(ctx, c.req, c.options, a.record.Number)
		ctx = a.marked
	}
	if c.config.prepare != nil && c.caller.onlyCancel() {
		ctx = retrier.WithWaiting(ctx, c.caller.waiting())
	}
	if ownContext {
		a.own = respbody.NewContext(ctx, timeout, c.config.stall)
		ctx = a.own
	}
	if c.config.prepare == nil {
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
	if c.config.sdkHeaders && !c.outerRetries() && (c.config.prepare != nil || !awsproto.SignsRetryHeaders(c.req)) {
		a.setRetryHeaders(c)
	}
	if c.config.prepare != nil {
		return a.runHook(c)
	}
	return nil
}

// setRetryHeaders sets the retry headers of the AWS SDKs.
func (a *attempt) setRetryHeaders(c *call) {
	header := a.out.Header
	if c.config.prepare == nil { // it is the caller's
		header = header.Clone()
	}
	if header == nil {
		header = make(http.Header)
	}
	if c.invocation == "" {
		c.invocation = awsproto.NewInvocationID()
	}
	awsproto.SetRetryHeaders(header, c.invocation, a.record.Number, c.maxAttempts())
	a.out.Header = header
}

// runHook calls Prepare.
func (a *attempt) runHook(c *call) error {
	body, length := a.out.Body, a.out.ContentLength
	err := c.config.prepare(a.out, a.record.Number)
	if err != nil && retrier.IsNil(err) {
		err = fmt.Errorf("it returned a nil %T as its error", err)
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

// hookError returns the error of a call that an error of Prepare ends, and
// reports a call that has sent nothing. If that error
// is not an *Error with a Stop, and the caller's context has ended, the cause
// of that end is why Prepare failed.
func (a *attempt) hookError(c *call, err error) error {
	stop, chosen := StopPermanent, false
	if own := (*Error)(nil); errors.As(err, &own) && own.Stop != "" && own.Err != nil {
		stop, chosen, err = own.Stop, true, own.Err
	}
	err = a.before.failure.after(fmt.Errorf("error from Prepare: %w", err))
	if why := c.caller.ended(); why != nil && !chosen {
		stop, err = StopCanceled, interruption(c.caller.Context, why, err)
	}
	return c.reportUnsent(a.before.error(stop, err))
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
	a.record.Request, a.record.Partition = c.req, c.partition.name
	if c.observers {
		a.record.Start = time.Now()
	}
	a.held, a.permit.sendToken = nil, false
	if !a.sent {
		a.sent = true
		a.via = a.route(c)
		a.sendVia(c)
	}
	if a.record.Err != nil && retrier.IsNil(a.record.Err) { // its methods may panic
		a.record.Err = fmt.Errorf("awsretry: Base returned a nil %T as its error", a.record.Err)
	}
	switch {
	case a.record.Err != nil && a.record.Response != nil:
		if a.record.Response.Body != nil {
			respbody.Close(a.record.Response, a.own.Ender())
		}
		a.record.Response = nil
	case a.record.Err == nil && a.record.Response == nil:
		a.record.Err = errors.New("awsretry: Base returned neither a response nor an error")
	case a.record.Err == nil && a.record.Response.Body == nil:
		a.record.Response.Body = http.NoBody
	}
	if a.record.Response != nil && c.config.conns != nil {
		c.config.conns.Saw(a.out, a.record.Response.ProtoMajor)
	}
}

// route returns what sends the request: Base, or a copy of it whose connections
// did not fail.
func (a *attempt) route(c *call) http.RoundTripper {
	switch {
	case c.config.conns == nil || !neterr.Serves(a.out.URL):
		return c.config.base
	case a.permit.freshConn:
		return c.config.conns.Single(a.out.URL)
	}
	return c.config.conns.For(a.out.URL)
}

func (a *attempt) sendVia(c *call) {
	if a.own == nil {
		a.record.Response, a.record.Err = a.via.RoundTrip(a.out)
		return
	}
	a.own.Start()
	bound := false
	defer func() {
		if !bound {
			a.own.End()
		}
	}()
	a.record.Response, a.record.Err = a.via.RoundTrip(a.out)
	switch {
	case a.record.Err != nil:
		a.record.Err = a.own.Explain(a.record.Err)
	case a.record.Response != nil:
		a.own.Bind(a.record.Response)
		bound = true
		if a.record.Response.Request == a.out {
			a.record.Response.Request = a.shownRequest(c)
		}
	}
}

// shownRequest returns out without the context of its own, which ends with the
// response body. The caller may use the context of the response's request for
// longer.
func (a *attempt) shownRequest(c *call) *http.Request {
	switch {
	case a.own == nil:
		return a.out
	case a.marked == nil && c.config.prepare == nil && !c.config.sdkHeaders:
		return c.req
	}
	return a.out.WithContext(a.own.Parent)
}
