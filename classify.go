package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/limitheaders"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/respbody"
)

// classify determines the class of the outcome, whose error code is known.
func (c *call) classify() {
	c.now.record.NeverSent = c.now.record.Err != nil && c.neverSent()
	switch {
	case c.now.record.Err == nil:
		c.now.record.Class = c.classOf()
	case c.caller.Ended() != nil:
		c.now.record.Class, c.now.canceled = Permanent, true
		if neterr.RequestCanceled(c.now.record.Err) {
			c.now.record.Err = c.caller.Ended() // which Request.Cancel does not tell
		}
	case c.body.Err() != nil:
		c.now.record.Class = Permanent
	default:
		c.now.record.Class = c.classOf()
	}
	c.now.record.MaybeExecuted = c.now.before.maybeExecuted || c.mayHaveExecuted()
	if !c.now.record.Start.IsZero() {
		c.now.record.Elapsed = time.Since(c.now.record.Start)
	}
}

// mayHaveExecuted reports whether the attempt failed and the service may have
// executed it.
func (c *call) mayHaveExecuted() bool {
	switch {
	case c.now.record.Class == Success || c.now.record.Class == Throttled:
		return false
	case c.now.record.Err != nil:
		return !c.now.record.NeverSent &&
			(c.now.canceled || errors.Is(c.now.record.Err, context.Canceled) || errorClass(c.now.record.Err) != Permanent)
	case c.now.fault != nil && c.now.record.Response.StatusCode < 400:
		return true
	case c.now.record.Response.StatusCode >= 400 && c.now.record.Response.StatusCode < 500:
		return false
	case c.now.record.Class == Permanent: // a Policy may return it for a server error that must not be retried
		return c.now.record.classify(c.config.servicePolicy) == Transient
	}
	return true
}

// neverSent reports whether an attempt that failed was not sent, or the server did
// not process it.
func (c *call) neverSent() bool {
	return neterr.NeverSent(c.now.record.Err) || !c.config.untraced && c.now.own.Unsent() || c.proxyRefused()
}

// proxyRefused reports whether a proxy refused CONNECT. Its status is known by the
// text of the error, which the cause of the caller's context and an error of the
// request's body may have too.
func (c *call) proxyRefused() bool {
	_, refused := neterr.ProxyStatus(c.now.record.Err)
	return refused && !c.config.foreign && secure(c.req) && !c.now.own.Connected() &&
		c.caller.Ended() == nil && c.body.Err() == nil
}

// classOf returns the class by the policy. If the policy makes no sense, it
// sets fault.
func (c *call) classOf() Class {
	var class Class
	switch { // without an allocation, if there is no service
	case c.policy == nil:
		class = c.now.record.classify(c.config.servicePolicy)
	case c.policy.isDefault():
		class = ifIdempotent(&c.now.record, c.now.record.classify(c.config.servicePolicy))
	default:
		shown := c.now.record // the policy may keep the pointer; c stays on the stack
		shown.ServicePolicy = c.config.servicePolicy
		class = c.policy(&shown)
	}
	if class < Success || class > Throttled {
		c.now.fault = fmt.Errorf(
			"awsretry: Policy returned %v; it must return Success, Permanent, Transient, Timeout or Throttled", class)
		return Permanent
	}
	if class == Success && c.now.record.Err != nil {
		c.now.fault = fmt.Errorf("awsretry: Policy returned success for an attempt without a response: %w", c.now.record.Err)
		return Permanent
	}
	return class
}

const (
	// codeWait limits the wait for a response body that may have an error code.
	// If the body is slower, what came by then is searched.
	codeWait = time.Second

	// uploadWait is how long a response waits for a Read of the caller's body in
	// progress.
	uploadWait = 100 * time.Millisecond
)

// findCode returns the AWS error code of the response, or "". It reads a body
// ahead that may have one or that Peek asks for, and leaves it whole and as
// compressed as it is.
func (c *call) findCode() string {
	resp := c.now.record.Response
	hidden := resp.StatusCode == http.StatusOK && awsproto.MayHideError(c.req)
	failed := resp.StatusCode >= 400
	peek := c.peekAt(resp)
	if !failed && !hidden && peek == nil {
		return ""
	}
	code := ""
	if failed {
		code = awsproto.HeaderCode(resp.Header)
	}
	wanted := code == "" && awsproto.MayHoldCode(resp.Header) || c.config.transport.RetryAfter != nil || c.config.transport.Peek != nil
	if !wanted || resp.Body == http.NoBody || !respbody.Readable(resp.Header) {
		return code
	}
	until := time.Now().Add(codeWait)
	if !c.mayReadAhead() {
		return code
	}
	body, ok := c.readAhead(hidden, peek, until)
	switch {
	case !ok:
		return ""
	case hidden:
		code = new(awsproto.HiddenError).Code(body)
	case code == "" && failed:
		code = awsproto.BodyCode(resp.Header, body)
	}
	return code
}

// readAhead reads the response body ahead, and waits for it up to until unless the
// body of a 2xx is read. It returns the beginning of the body. ok is false if the body
// broke off, so that there is no response.
func (c *call) readAhead(hidden bool, peek *peek, until time.Time) (body []byte, ok bool) {
	resp := c.now.record.Response
	limit, enough := awsproto.MaxErrorBody, (func([]byte) bool)(nil)
	if hidden {
		enough = new(awsproto.HiddenError).Impossible
	}
	if peek != nil {
		limit, enough = maxPeek, peek.until(enough)
	}
	c.now.record.Response, c.now.ahead = respbody.Read(resp, limit, enough, c.now.own.Ender())
	if !c.now.ahead.Ended() {
		c.waitForCode(enough != nil, time.Until(until))
	}
	hangs := !c.now.ahead.Ended()
	body = c.now.ahead.Plain(limit)
	if c.config.transport.Peek != nil {
		c.now.record.Body = body
	}
	switch {
	case peek == nil:
	case hangs && c.caller.Ended() == nil:
		c.lose(c.now.own.Explain(context.DeadlineExceeded))
		return nil, false
	case hangs:
	case peek.panicked != nil:
		panic(peek.panicked)
	case c.now.ahead.Err() != nil:
		c.lose(c.now.ahead.Err())
		return nil, false
	}
	return body, true
}

// lose discards the response, whose body broke off.
func (c *call) lose(err error) {
	respbody.Close(c.now.record.Response, c.now.own.Ender())
	c.now.record.Response, c.now.record.Body, c.now.ahead = nil, nil, nil
	c.now.record.Err = &bodyError{err}
}

// maxPeek is how much of a body Peek may see.
const maxPeek = 1 << 20

// A peek calls Transport.Peek in the goroutine that reads ahead.
type peek struct {
	more     func(body []byte) bool
	panicked any // what more panicked with; written before the reading ends
}

// peekAt returns nil if Policy needs nothing of the body. Of a response with the
// rest of a body, the caller has the beginning already.
func (c *call) peekAt(resp *http.Response) *peek {
	hook := c.config.transport.Peek
	if hook == nil || c.resumes || resp.StatusCode/100 != 2 || resp.Body == http.NoBody {
		return nil
	}
	if _, upgraded := resp.Body.(io.Writer); upgraded || !respbody.Readable(resp.Header) || !hook(resp, nil) {
		return nil
	}
	return &peek{more: func(body []byte) bool { return hook(resp, body) }}
}

// until returns a function that reports whether the body read so far is enough
// for p and for other, which may be nil.
func (p *peek) until(other func([]byte) bool) func([]byte) bool {
	return func(body []byte) (enough bool) {
		defer func() {
			if value := recover(); value != nil {
				p.panicked, enough = value, true
			}
		}()
		return (other == nil || other(body)) && !p.more(body)
	}
}

// mayReadAhead reports whether the response body is read before the caller has it. A
// slow body delays the response by codeWait. So it is not read if no retry can
// follow, unless the rate limiter needs to know whether the service throttles and
// the length is announced. The body of a last attempt is read for Outcome. A body is
// not read while the caller is still writing a one-shot request body, which the
// response may depend on.
func (c *call) mayReadAhead() bool {
	paced := c.partition.Pacer != nil && 0 < c.now.record.Response.ContentLength
	return (c.mayRetry() || paced) && c.body.Quiet(c.caller.Waiting(), uploadWait) && (paced || c.body.Replayable())
}

// waitForCode waits until the body is read ahead, for at most the time longest. What
// a 2xx hides has no limit: for a large copy, Amazon S3 begins its document at once
// and ends it after minutes.
func (c *call) waitForCode(hidden bool, longest time.Duration) {
	ctx := c.caller.Waiting()
	limit, ok := c.now.own.Left()
	if !hidden && (!ok || limit > longest) {
		limit, ok = longest, true
	}
	if ok {
		if !c.now.ahead.Wait(ctx, limit) && hidden {
			c.now.ahead.Wait(ctx, codeWait) // the Read that AttemptTimeout has ended
		}
	} else {
		c.now.ahead.WaitDone(ctx)
	}
}

// findDelay returns the delay that the response asks for, or 0.
func (c *call) findDelay() time.Duration {
	if c.now.record.Response == nil || !c.now.record.Class.Retryable() || c.config.transport.MaxRetryAfter < 0 {
		return 0
	}
	if c.config.transport.RetryAfter != nil && c.sent() { // which a loop's attempts are not
		var body []byte
		if c.now.ahead != nil {
			body = c.now.ahead.Plain(awsproto.MaxErrorBody)
		}
		if asked, ok := c.config.transport.RetryAfter(c.now.record.Response, body); ok {
			return max(asked, 0)
		}
	}
	return awsproto.RetryAfter(c.now.record.Response.Header, time.Now())
}

// applyOutcome updates what later attempts and other calls use: the connections, and
// what the requests of the partition share.
func (c *call) applyOutcome() {
	r := &c.now.record
	if c.config.conns != nil && c.sent() && !c.now.canceled && neterr.TimedOut(r.Err) && !neterr.DialFailed(r.Err) {
		// Later requests would use it too, even if this one is not retried.
		c.now.abandoned = c.config.conns.Abandon(c.now.out.URL, c.now.sentBy)
	}
	r.Asked = c.findDelay()
	o := admission.Outcome{
		First: r.Number == 1, Success: r.Class == Success, Throttled: r.Class == Throttled, Canceled: c.now.canceled,
		Continues: c.resumes && !r.Class.Retryable(), Increment: c.config.quota.SuccessIncrement,
	}
	if c.config.transport.ShareRetryAfter && 0 < r.Asked && r.Asked <= c.config.maxRetryAfter {
		o.RetryAfter, o.Spread = r.Asked, c.config.spread.of(r.Asked)
	}
	var known [limitheaders.MostRead]limitheaders.Limit
	if c.config.limits != nil && r.Response != nil && !c.now.canceled {
		o.Announced = &pacer.Announcement{
			Limits: asAnnounced(known[:0], c.config.limits(r.Response)), Throttled: o.Throttled, RetryAfter: r.Asked,
			Free: o.Throttled || limitheaders.Free(r.Response.StatusCode, r.Response.Header),
		}
	}
	c.now.permit.Conclude(c.partition, &o)
}
