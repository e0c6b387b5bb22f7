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
	"example.com/awsretry/internal/conns"
	"example.com/awsretry/internal/respbody"
	"example.com/awsretry/internal/retrier"
)

// exchange makes the request of the attempt and sends it.
func (c *call) exchange() error {
	if err := c.prepare(); err != nil {
		return err
	}
	c.send()
	c.receive()
	return nil
}

// prepare makes the request that is sent. The first attempt sends the caller's
// request itself if nothing in it has to differ.
func (c *call) prepare() error {
	if why := c.caller.Ended(); why != nil { // the wait may have been long
		return c.refuse(StopCanceled, why)
	}
	timeout, timed := c.attemptTimeout()
	nested := c.options.attempt > 0 // in an attempt of another Transport
	ownContext := timed || c.config.stall > 0 || c.traces() || c.config.mayHang(c.caller.Context) && (c.mayRetry(1) || c.partition.Pacer != nil)
	if c.record.Number == 1 && !c.config.ownRequest && !nested && !c.body.Copied() && !ownContext && c.key == "" {
		c.out = c.req
		c.body.Take()
		return nil
	}
	ctx := c.caller.Context
	if c.record.Number > 1 || nested {
		c.marked = newRecordContext(ctx, c.req, c.options, c.record.Number)
		ctx = c.marked
	}
	if c.config.prepare != nil {
		ctx = c.caller.ForHook(ctx)
	}
	if ownContext {
		c.own = respbody.NewContext(ctx, timeout, c.config.stall, timed || !idempotent(&c.record))
		ctx = c.own
	}
	c.out = c.copyRequest(ctx)
	c.body.Attach(c.out)
	if c.own != nil && c.config.foreign {
		c.own.Watch(c.out)
	}
	if c.key != "" {
		c.header().Set(keyHeader, c.key)
	}
	if c.out.Body != nil && c.out.Body != http.NoBody {
		c.unsent = c.out.Body
	}
	if c.config.sdkHeaders && !c.outer && (c.config.prepare != nil || !awsproto.SignsRetryHeaders(c.req)) {
		c.setRetryHeaders()
	}
	if c.config.prepare != nil {
		return c.runPrepare()
	}
	return nil
}

// traces reports whether it must be known of a failed attempt if it was sent, and
// its error may not tell, as after a TLS handshake that was reset.
func (c *call) traces() bool {
	policy := c.config.policy
	if c.options.hasPolicy {
		policy = c.options.policy
	}
	return policy != nil && secure(c.req) && !idempotent(&c.record)
}

func secure(req *http.Request) bool { return req.URL != nil && req.URL.Scheme == "https" }

// copyRequest returns a copy of the caller's request. Its headers are a copy
// too if Prepare may change them.
func (c *call) copyRequest(ctx context.Context) *http.Request {
	switch {
	case c.config.prepare != nil:
		return c.cloneRequest(ctx)
	case c.own != nil:
		return c.own.Copy(c.req)
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
func (c *call) setRetryHeaders() {
	if c.invocation == "" {
		c.invocation = awsproto.NewInvocationID()
	}
	awsproto.SetRetryHeaders(c.header(), c.invocation, c.record.Number, c.attempts)
}

// header returns the header of out, which may be changed.
func (c *call) header() http.Header {
	if c.config.prepare == nil { // it may be the caller's
		c.out.Header = c.out.Header.Clone()
	}
	if c.out.Header == nil {
		c.out.Header = make(http.Header)
	}
	return c.out.Header
}

// runPrepare calls Prepare.
func (c *call) runPrepare() error {
	body, length := c.out.Body, c.out.ContentLength
	err := c.config.prepare(c.out, c.record.Number)
	if err != nil && retrier.IsNil(err) {
		err = fmt.Errorf("it returned a nil %T as its error", err)
	}
	replaced := !same(c.out.Body, body)
	if replaced && c.out.Body != nil {
		c.out.Body.Close()
	}
	if err == nil && (replaced || c.out.ContentLength != length) {
		err = errors.New("it replaced the request's body or its length, which it must not")
	}
	if err != nil {
		return c.prepareError(err)
	}
	if why := c.caller.Ended(); why != nil { // Prepare may have taken long
		return c.refuse(StopCanceled, why)
	}
	return nil
}

// prepareError returns the error of a call that an error of Prepare ends. If that
// is not an *Error with a Stop, and the caller's context has ended, Prepare
// failed because of that. prepareError calls the observers.
func (c *call) prepareError(err error) error {
	stop, chosen := StopPermanent, false
	if own := (*Error)(nil); errors.As(err, &own) && own.Stop != "" && own.Err != nil {
		stop, chosen, err = own.Stop, true, own.Err
	}
	err = c.before.failure.after(fmt.Errorf("error from Prepare: %w", err))
	if why := c.caller.Ended(); why != nil && !chosen {
		stop, err = c.stopFor(why), interruption(c.caller.Context, why, err)
	}
	return c.endUnsent(stop, err)
}

// same reports whether a and b are one body.
func same(a, b io.ReadCloser) bool {
	if a == nil || b == nil || !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() {
		return (a == nil) == (b == nil)
	}
	return a == b
}

// send sends the request.
func (c *call) send() {
	if c.observed {
		c.record.Start = time.Now()
	}
	c.unsent, c.permit.SendToken = nil, false
	c.sentBy = c.route()
	if c.own == nil {
		c.record.Response, c.record.Err = c.sentBy.RoundTrip(c.out)
		return
	}
	resp, err := c.own.Send(c.sentBy, c.out)
	if resp != nil && resp.Request == c.out {
		resp.Request = c.shownRequest()
	}
	c.record.Response, c.record.Err = resp, err
}

// route returns what sends the request: Base, or a copy of it whose connections
// did not fail.
func (c *call) route() http.RoundTripper {
	switch {
	case c.config.conns == nil || !conns.Serves(c.out.URL):
		return c.config.base
	case c.before.left:
		return c.config.conns.Single(c.out.URL)
	}
	return c.config.conns.For(c.out.URL)
}

// receive makes sure that Base returned either a response or an error.
func (c *call) receive() {
	r := &c.record
	if r.Err != nil && retrier.IsNil(r.Err) { // its methods may panic
		r.Err = fmt.Errorf("awsretry: Base returned a nil %T as its error", r.Err)
	}
	switch {
	case r.Err != nil && r.Response != nil:
		if r.Response.Body != nil {
			respbody.Close(r.Response, c.own.Ender())
		}
		r.Response = nil
	case r.Err == nil && r.Response == nil:
		r.Err = errors.New("awsretry: Base returned neither a response nor an error")
	case r.Err == nil && r.Response.Body == nil:
		r.Response.Body = http.NoBody
	}
	if r.Response != nil && c.config.conns != nil {
		c.config.conns.Saw(c.out, r.Response.ProtoMajor)
	}
}

// shownRequest returns out without the attempt's own context, which ends with
// the response body. The caller may use the context of the response's request
// for longer.
func (c *call) shownRequest() *http.Request {
	switch {
	case c.own == nil:
		return c.out
	case c.marked == nil && c.config.prepare == nil && !c.config.sdkHeaders && c.key == "":
		return c.req
	}
	return c.out.WithContext(c.own.Parent)
}
