package awsretry

import (
	"context"
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
// decision about the next attempt. Each attempt has a new value.
type attempt struct {
	record Attempt
	permit permit
	before past

	// The request.
	out    *http.Request     // what is sent
	marked *recordContext    // the context of out; nil if out has no recordContext
	own    *respbody.Context // the context of out; nil if it is not the attempt's own
	unsent io.ReadCloser     // the body of out, until it is sent
	via    http.RoundTripper // what sent out; nil before

	// The outcome.
	ahead     *respbody.Ahead // of the response; nil if nothing was read ahead
	hung      bool            // the reading ahead took longer than codeWait
	fault     error           // why the outcome cannot be classified
	canceled  bool            // the caller's context ended the attempt
	abandoned bool            // later requests do not use its connection
	closed    bool            // the response is closed
	reported  bool            // the observers were called

	// The next attempt.
	unpaid   int  // retry tokens that it still has to wait for
	granting bool // the wait is for a fleet, and a part of the delay
	next     permit
}

// begin makes a the attempt of c with that number. a is the zero value.
func (a *attempt) begin(c *call, number int) {
	a.record.Request, a.record.Partition, a.record.Setting = c.req, c.partition.name, c.config.setting
	a.record.Number, a.record.MaxAttempts, a.record.IdempotencyKey = number, c.maxAttempts(), c.key
}

// advance replaces a by the attempt that follows it.
func (a *attempt) advance(c *call) {
	next := attempt{
		permit: a.next,
		before: past{
			attempts: a.record.Number, delay: a.record.Delay, failure: a.failure(),
			hung: a.hung || a.before.hung, maybeExecuted: a.record.MaybeExecuted,
		},
	}
	next.begin(c, a.record.Number+1)
	next.record.Offset = a.record.Offset
	*a = next
}

// end runs on every way out, also when a hook or Base panics.
func (a *attempt) end(c *call) {
	a.permit.release(true)
	a.next.release(true)
	switch {
	case a.record.Response != nil && !a.closed && !c.responded:
		respbody.Close(a.record.Response, a.own.Ender())
	case a.record.Response == nil && a.own != nil: // nothing was sent, or it failed
		a.own.End()
	}
	if a.unsent != nil {
		a.unsent.Close() // may panic
	}
}

// sent reports whether Base was called.
func (a *attempt) sent() bool { return a.via != nil }

// failure returns what an error says about a.
func (a *attempt) failure() failure {
	if a.record.Response != nil {
		return failure{status: a.record.Response.StatusCode, code: a.record.Code}
	}
	return failure{err: a.record.Err}
}

// waitTurn waits until the attempt may be sent.
func (a *attempt) waitTurn(c *call) error {
	if a.record.Number == 1 {
		if err := c.acquireInitial(&a.permit); err != nil {
			return c.refuse(StopQuota, err, a.before)
		}
	}
	if err := c.admit(&a.permit); err != nil {
		return c.refuse(StopRateLimit, err, a.before)
	}
	a.record.Waited = a.permit.waited
	return nil
}

// prepare makes the request that is sent. The first attempt sends the caller's
// request itself if nothing in it has to differ.
func (a *attempt) prepare(c *call) error {
	if why := c.caller.ended(); why != nil { // the wait may have been long
		return c.cancellation(why, a.before)
	}
	timeout, timed := c.attemptTimeout()
	nested := c.options != nil && c.options.attempt > 0 // in an attempt of another Transport
	ownContext := timed || c.config.stall > 0 || c.config.mayHang(c.caller.Context) && c.mayRetry(1)
	if a.record.Number == 1 && !c.config.ownRequest && !nested && !c.body.Copied() && !ownContext && c.key == "" {
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
	a.out = a.copyRequest(c, ctx)
	c.body.Attach(a.out)
	if c.key != "" {
		a.header(c).Set(keyHeader, c.key)
	}
	if a.out.Body != nil && a.out.Body != http.NoBody {
		a.unsent = a.out.Body
	}
	if c.config.sdkHeaders && !c.outerRetries() && (c.config.prepare != nil || !awsproto.SignsRetryHeaders(c.req)) {
		a.setRetryHeaders(c)
	}
	if c.config.prepare != nil {
		return a.runPrepare(c)
	}
	return nil
}

// copyRequest returns a copy of the caller's request. Its headers are a copy
// too if Prepare may change them.
func (a *attempt) copyRequest(c *call, ctx context.Context) *http.Request {
	switch {
	case c.config.prepare != nil:
		return c.cloneRequest(ctx)
	case a.own != nil:
		return a.own.Copy(c.req)
	}
	return c.req.WithContext(ctx)
}

func (c *call) cloneRequest(ctx context.Context) *http.Request {
	req := c.req.Clone(ctx)
	req.Trailer = c.req.Trailer // the caller may fill it in while the body is read
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	return req
}

// setRetryHeaders sets the retry headers of the AWS SDKs.
func (a *attempt) setRetryHeaders(c *call) {
	if c.invocation == "" {
		c.invocation = awsproto.NewInvocationID()
	}
	awsproto.SetRetryHeaders(a.header(c), c.invocation, a.record.Number, c.maxAttempts())
}

// header returns the header of out, which may be changed.
func (a *attempt) header(c *call) http.Header {
	if c.config.prepare == nil { // it may be the caller's
		a.out.Header = a.out.Header.Clone()
	}
	if a.out.Header == nil {
		a.out.Header = make(http.Header)
	}
	return a.out.Header
}

// runPrepare calls Prepare.
func (a *attempt) runPrepare(c *call) error {
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
		return a.prepareError(c, err)
	}
	if why := c.caller.ended(); why != nil { // Prepare may have taken long
		return c.cancellation(why, a.before)
	}
	return nil
}

// prepareError returns the error of a call that an error of Prepare ends. If that
// is not an *Error with a Stop, and the caller's context has ended, Prepare
// failed because of that. prepareError calls the observers.
func (a *attempt) prepareError(c *call, err error) error {
	stop, chosen := StopPermanent, false
	if own := (*Error)(nil); errors.As(err, &own) && own.Stop != "" && own.Err != nil {
		stop, chosen, err = own.Stop, true, own.Err
	}
	err = a.before.failure.after(fmt.Errorf("error from Prepare: %w", err))
	if why := c.caller.ended(); why != nil && !chosen {
		stop, err = c.caller.stop(why), interruption(c.caller.Context, why, err)
	}
	return c.reportUnsent(a.before.error(stop, err))
}

// same reports whether a and b are one body.
func same(a, b io.ReadCloser) bool {
	if a == nil || b == nil || !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() {
		return (a == nil) == (b == nil)
	}
	return a == b
}

// send sends the request.
func (a *attempt) send(c *call) {
	if c.observed {
		a.record.Start = time.Now()
	}
	a.unsent, a.permit.sendToken = nil, false
	a.via = a.route(c)
	if a.own == nil {
		a.record.Response, a.record.Err = a.via.RoundTrip(a.out)
		return
	}
	resp, err := a.own.Send(a.via, a.out)
	if resp != nil && resp.Request == a.out {
		resp.Request = a.shownRequest(c)
	}
	a.record.Response, a.record.Err = resp, err
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

// receive makes sure that Base returned either a response or an error.
func (a *attempt) receive(c *call) {
	r := &a.record
	if r.Err != nil && retrier.IsNil(r.Err) { // its methods may panic
		r.Err = fmt.Errorf("awsretry: Base returned a nil %T as its error", r.Err)
	}
	switch {
	case r.Err != nil && r.Response != nil:
		if r.Response.Body != nil {
			respbody.Close(r.Response, a.own.Ender())
		}
		r.Response = nil
	case r.Err == nil && r.Response == nil:
		r.Err = errors.New("awsretry: Base returned neither a response nor an error")
	case r.Err == nil && r.Response.Body == nil:
		r.Response.Body = http.NoBody
	}
	if r.Response != nil && c.config.conns != nil {
		c.config.conns.Saw(a.out, r.Response.ProtoMajor)
	}
}

// shownRequest returns out without the attempt's own context, which ends with
// the response body. The caller may use the context of the response's request
// for longer.
func (a *attempt) shownRequest(c *call) *http.Request {
	switch {
	case a.own == nil:
		return a.out
	case a.marked == nil && c.config.prepare == nil && !c.config.sdkHeaders && c.key == "":
		return c.req
	}
	return a.out.WithContext(a.own.Parent)
}
