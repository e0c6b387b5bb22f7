package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/limitheaders"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/respbody"
)

// classify determines the error code and the class of the outcome.
func (c *call) classify() {
	if c.record.Err == nil {
		c.record.Code = c.findCode()
	}
	c.classifyOutcome()
}

// classifyOutcome determines the class of an outcome whose error code is known.
func (c *call) classifyOutcome() {
	c.record.NeverSent = c.record.Err != nil && c.neverSent()
	switch {
	case c.record.Err == nil:
		c.record.Class = c.classOf()
	case c.caller.Ended() != nil:
		c.record.Class, c.canceled = Permanent, true
		if neterr.RequestCanceled(c.record.Err) {
			c.record.Err = c.caller.Ended() // which Request.Cancel does not tell
		}
	case c.body.Err() != nil:
		c.record.Class = Permanent
	default:
		c.record.Class = c.classOf()
	}
	c.record.MaybeExecuted = c.before.maybeExecuted || c.mayHaveExecuted()
	if !c.record.Start.IsZero() {
		c.record.Elapsed = time.Since(c.record.Start)
	}
}

// mayHaveExecuted reports whether the attempt failed and the service may have
// executed it.
func (c *call) mayHaveExecuted() bool {
	switch {
	case c.record.Class == Success || c.record.Class == Throttled:
		return false
	case c.record.Err != nil:
		return !c.record.NeverSent &&
			(c.canceled || errors.Is(c.record.Err, context.Canceled) || errorClass(c.record.Err) != Permanent)
	case c.fault != nil && c.record.Response.StatusCode < 400:
		return true
	case c.record.Response.StatusCode >= 400 && c.record.Response.StatusCode < 500:
		return false
	case c.record.Class == Permanent: // a Policy may return it for a server error that must not be retried
		return c.record.classify(c.config.servicePolicy) == Transient
	}
	return true
}

// neverSent reports whether an attempt that failed was not sent, or the server did
// not process it.
func (c *call) neverSent() bool {
	return neterr.NeverSent(c.record.Err) || !c.config.untraced && c.own.Unsent() || c.proxyRefused()
}

// proxyRefused reports whether a proxy refused CONNECT. Its status is known by the
// text of the error, which the cause of the caller's context and an error of the
// request's body may have too.
func (c *call) proxyRefused() bool {
	_, refused := neterr.ProxyStatus(c.record.Err)
	return refused && !c.config.foreign && secure(c.req) && !c.own.Connected() &&
		c.caller.Ended() == nil && c.body.Err() == nil
}

// classOf returns the class by the policy. If the policy makes no sense, it
// sets fault.
func (c *call) classOf() Class {
	policy := c.config.policy
	if c.options.hasPolicy {
		policy = c.options.policy
	}
	var class Class
	switch { // without an allocation, if there is no service
	case policy == nil:
		class = c.record.classify(c.config.servicePolicy)
	case policy.isDefault():
		class = ifIdempotent(&c.record, c.record.classify(c.config.servicePolicy))
	default:
		shown := c.record // the policy may keep the pointer; a stays on the stack
		shown.ServicePolicy = c.config.servicePolicy
		class = policy(&shown)
	}
	if class < Success || class > Throttled {
		c.fault = fmt.Errorf(
			"awsretry: Policy returned %v; it must return Success, Permanent, Transient, Timeout or Throttled", class)
		return Permanent
	}
	if class == Success && c.record.Err != nil {
		c.fault = fmt.Errorf("awsretry: Policy returned success for an attempt without a response: %w", c.record.Err)
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
	resp := c.record.Response
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
	wanted := code == "" && awsproto.MayHoldCode(resp.Header) || c.config.retryAfter != nil || c.config.peek != nil
	if !wanted || resp.Body == http.NoBody || !respbody.Readable(resp.Header) {
		return code
	}
	until := time.Now().Add(codeWait)
	if !c.readsAhead() {
		return code
	}
	limit, enough := awsproto.MaxErrorBody, (func([]byte) bool)(nil)
	if hidden {
		enough = new(awsproto.HiddenError).Impossible
	}
	if peek != nil {
		limit, enough = maxPeek, peek.until(enough)
	}
	c.record.Response, c.ahead = respbody.Read(resp, limit, enough, c.own.Ender())
	if !c.ahead.Ended() {
		c.waitForCode(enough != nil, time.Until(until))
	}
	hangs := !c.ahead.Ended()
	body := c.ahead.Plain(limit)
	if c.config.peek != nil {
		c.record.Body = body
	}
	switch {
	case peek == nil:
	case hangs && c.caller.Ended() == nil:
		c.lose(c.own.Explain(context.DeadlineExceeded))
		return ""
	case hangs:
	case peek.panicked != nil:
		panic(peek.panicked)
	case c.ahead.Err() != nil:
		c.lose(c.ahead.Err())
		return ""
	}
	switch {
	case hidden:
		code = new(awsproto.HiddenError).Code(body)
	case code == "" && failed:
		code = awsproto.BodyCode(resp.Header, body)
	}
	return code
}

// lose discards the response, whose body broke off.
func (c *call) lose(err error) {
	respbody.Close(c.record.Response, c.own.Ender())
	c.record.Response, c.record.Body, c.ahead = nil, nil, nil
	c.record.Err = &bodyError{err}
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
	hook := c.config.peek
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

// readsAhead reports whether the response body is read before the caller has it. A
// slow body delays the response by codeWait. So it is not read if no retry can
// follow, unless the rate limiter needs to know whether the service throttles and
// the length is announced. The body of a last attempt is read for Outcome. A body is
// not read while the caller is still writing a one-shot request body, which the
// response may depend on.
func (c *call) readsAhead() bool {
	paced := c.partition.Pacer != nil && 0 < c.record.Response.ContentLength
	return (c.mayRetry(1) || paced) && c.body.Quiet(c.caller.Waiting(), uploadWait) && (paced || c.body.Replayable())
}

// waitForCode waits until the body is read ahead, for at most the time longest. What
// a 2xx hides has no limit: for a large copy, Amazon S3 begins its document at once
// and ends it after minutes.
func (c *call) waitForCode(hidden bool, longest time.Duration) {
	ctx := c.caller.Waiting()
	limit, ok := c.own.Left()
	if !hidden && (!ok || limit > longest) {
		limit, ok = longest, true
	}
	if ok {
		if !c.ahead.Wait(ctx, limit) && hidden {
			c.ahead.Wait(ctx, codeWait) // the Read that AttemptTimeout has ended
		}
	} else {
		c.ahead.WaitDone(ctx)
	}
}

// findDelay returns the delay that the response asks for, or 0.
func (c *call) findDelay() time.Duration {
	if c.record.Response == nil || !c.record.Class.Retryable() || c.config.ignoreRetryAfter {
		return 0
	}
	if c.config.retryAfter != nil && c.sent() { // which a loop's attempts are not
		var body []byte
		if c.ahead != nil {
			body = c.ahead.Plain(awsproto.MaxErrorBody)
		}
		if asked, ok := c.config.retryAfter(c.record.Response, body); ok {
			return max(asked, 0)
		}
	}
	return awsproto.RetryAfter(c.record.Response.Header, time.Now())
}

// updateLimiter tells the rate limiter the outcome.
func (c *call) updateLimiter() {
	limiter, sent, throttled := c.partition.Pacer, c.permit.SendTime, c.record.Class == Throttled
	if c.config.limits == nil || c.record.Response == nil {
		limiter.Update(sent, throttled)
	} else {
		var known [limitheaders.MostRead]limitheaders.Limit
		limiter.Announce(sent, pacer.Announcement{
			Limits: asAnnounced(known[:0], c.config.limits(c.record.Response)), Throttled: throttled, RetryAfter: c.record.Asked,
			Free: throttled || limitheaders.Free(c.record.Response.StatusCode, c.record.Response.Header),
		})
		limiter.Count(sent, throttled)
	}
	c.permit.InFlight = false
}

// applyOutcome updates what later attempts and other calls use: the buckets, the gate
// and the connections.
func (c *call) applyOutcome() {
	err := c.record.Err
	if c.config.conns != nil && c.sent() && !c.canceled && neterr.TimedOut(err) && !neterr.DialFailed(err) {
		// Later requests would use it too, even if this one is not retried.
		c.abandoned = c.config.conns.Abandon(c.out.URL, c.sentBy)
	}
	c.record.Asked = c.findDelay()
	if c.partition.Pacer != nil && !c.canceled {
		c.updateLimiter()
	}
	switch {
	case c.record.Number > 1:
	case c.record.Class == Success:
		c.partition.Quota.Release(c.config.increment)
	default:
		c.partition.Quota.SawCall()
	}
	if !c.resumes || c.record.Class.Retryable() { // or else the body releases them
		c.permit.Release(c.permit.Lent && c.record.Class == Success)
	}
	if c.config.shareRetryAfter && 0 < c.record.Asked && c.record.Asked <= c.config.maxRetryAfter {
		c.partition.Gate.Close(time.Now(), c.record.Asked, c.config.spread.of(c.record.Asked))
		c.partition.Share.Signal()
	}
	if c.record.Class == Throttled {
		c.partition.Share.Signal()
	}
}
