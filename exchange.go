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
		return c.finishRefused(StopCanceled, why)
	}
	nested := c.options.attempt > 0 // in an attempt of another Transport
	ownContext := c.timeout > 0 || c.needsContext()
	if c.now.record.Number == 1 && !c.config.ownRequest && !nested && !c.body.Copied() && !ownContext && c.key == "" {
		c.now.out = c.req
		c.body.SendOwn()
		return nil
	}
	ctx := c.caller.Context
	if c.now.record.Number > 1 || nested {
		c.now.marked = newRecordContext(ctx, c.req, c.options, c.now.record.Number)
		ctx = c.now.marked
	}
	if c.config.transport.Prepare != nil {
		ctx = c.caller.ForHook(ctx)
	}
	if ownContext {
		c.now.own = respbody.NewContext(ctx, c.timeout, c.config.transport.StallTimeout, c.timeout > 0 || !idempotent(&c.now.record))
		ctx = c.now.own
	}
	c.makeRequest(ctx)
	if c.config.transport.Prepare != nil {
		return c.runPrepare()
	}
	return nil
}

// makeRequest makes the request that is sent, with its body and the headers that the
// Transport sets.
func (c *call) makeRequest(ctx context.Context) {
	out := c.copyRequest(ctx)
	c.body.Attach(out)
	c.now.out = out // from here on, release closes its body
	if c.now.own != nil && c.config.foreign {
		c.now.own.Watch(c.now.out)
	}
	if c.key != "" {
		c.header().Set(keyHeader, c.key)
	}
	if c.config.transport.SDKHeaders && !c.outer && (c.config.transport.Prepare != nil || !awsproto.SignsRetryHeaders(c.req)) {
		c.setRetryHeaders()
	}
}

// needsContext reports whether an attempt without a timeout needs its own context.
func (c *call) needsContext() bool {
	return c.config.transport.StallTimeout > 0 || c.traces() ||
		c.config.mayHang(c.caller.Context) && (c.mayRetry() || c.partition.Pacer != nil)
}

// traces reports whether it must be known of a failed attempt if it was sent, and
// its error may not tell, as after a TLS handshake that was reset.
func (c *call) traces() bool {
	return c.policy != nil && secure(c.req) && !idempotent(&c.now.record)
}

func secure(req *http.Request) bool { return req.URL != nil && req.URL.Scheme == "https" }

// copyRequest returns a copy of the caller's request. Its headers are a copy
// too if Prepare may change them.
func (c *call) copyRequest(ctx context.Context) *http.Request {
	switch {
	case c.config.transport.Prepare != nil: // below
	case c.now.own != nil:
		return c.now.own.Copy(c.req)
	default:
		return c.req.WithContext(ctx)
	}
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
	awsproto.SetRetryHeaders(c.header(), c.invocation, c.now.record.Number, c.attempts)
}

// header returns the header of out, which may be changed.
func (c *call) header() http.Header {
	if c.config.transport.Prepare == nil { // it may be the caller's
		c.now.out.Header = c.now.out.Header.Clone()
	}
	if c.now.out.Header == nil {
		c.now.out.Header = make(http.Header)
	}
	return c.now.out.Header
}

// runPrepare calls Prepare.
func (c *call) runPrepare() error {
	body, length := c.now.out.Body, c.now.out.ContentLength
	defer func() { c.now.out.Body = body }() // which release closes
	err := c.config.transport.Prepare(c.now.out, c.now.record.Number)
	if err != nil && retrier.IsNil(err) {
		err = fmt.Errorf("it returned a nil %T as its error", err)
	}
	replaced := !same(c.now.out.Body, body)
	if replaced && c.now.out.Body != nil {
		c.now.out.Body.Close()
	}
	if err == nil && (replaced || c.now.out.ContentLength != length) {
		err = errors.New("it replaced the request's body or its length, which it must not")
	}
	if err != nil {
		return c.prepareError(err)
	}
	if why := c.caller.Ended(); why != nil { // Prepare may have taken long
		return c.finishRefused(StopCanceled, why)
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
	err = c.now.before.failure.after(fmt.Errorf("error from Prepare: %w", err))
	if why := c.caller.Ended(); why != nil && !chosen {
		stop, err = c.stopFor(why), c.caller.Interruption(why, err)
	}
	return c.finishUnsent(stop, err)
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
		c.now.record.Start = time.Now()
	}
	c.now.permit.Send()
	c.now.sentBy = c.route()
	if c.now.own == nil {
		c.now.record.Response, c.now.record.Err = c.now.sentBy.RoundTrip(c.now.out)
		return
	}
	resp, err := c.now.own.Send(c.now.sentBy, c.now.out)
	if resp != nil && resp.Request == c.now.out {
		resp.Request = c.shownRequest()
	}
	c.now.record.Response, c.now.record.Err = resp, err
}

// route returns what sends the request: Base, or a copy of it whose connections
// did not fail.
func (c *call) route() http.RoundTripper {
	switch {
	case c.config.conns == nil || !conns.Serves(c.now.out.URL):
		return c.config.base
	case c.now.before.left:
		return c.config.conns.Single(c.now.out.URL)
	}
	return c.config.conns.For(c.now.out.URL)
}

// receive makes sure that Base returned either a response or an error.
func (c *call) receive() {
	r := &c.now.record
	if r.Err != nil && retrier.IsNil(r.Err) { // its methods may panic
		r.Err = fmt.Errorf("awsretry: Base returned a nil %T as its error", r.Err)
	}
	switch {
	case r.Err != nil && r.Response != nil:
		if r.Response.Body != nil {
			respbody.Close(r.Response, c.now.own.Ender())
		}
		r.Response = nil
	case r.Err == nil && r.Response == nil:
		r.Err = errors.New("awsretry: Base returned neither a response nor an error")
	case r.Err == nil && r.Response.Body == nil:
		r.Response.Body = http.NoBody
	}
	if r.Response != nil && c.config.conns != nil {
		c.config.conns.Saw(c.now.out, r.Response.ProtoMajor)
	}
}

// shownRequest returns out without the attempt's own context, which ends with
// the response body. The caller may use the context of the response's request
// for longer.
func (c *call) shownRequest() *http.Request {
	switch {
	case c.now.own == nil:
		return c.now.out
	case c.now.marked == nil && c.config.transport.Prepare == nil && !c.config.transport.SDKHeaders && c.key == "":
		return c.req
	}
	return c.now.out.WithContext(c.now.own.Parent)
}

// chooseKey returns the Idempotency-Key that the Transport sets, or "". A request
// that http.Client makes of a redirect has that of the request before it.
func (c *call) chooseKey() string {
	req := c.req
	if c.config.transport.IdempotencyKey == nil || req.Method != http.MethodPost && req.Method != http.MethodPatch || hasKey(req) ||
		c.config.transport.Prepare == nil && awsproto.Signed(req) {
		return ""
	}
	if redirect := req.Response; redirect != nil && redirect.Request != nil {
		if key := redirect.Request.Header.Get(keyHeader); key != "" {
			return key
		}
	}
	return c.config.transport.IdempotencyKey(req)
}
