package awsretry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/respbody"
)

// classify determines the error code and the class of the outcome.
func (a *attempt) classify(c *call) {
	if a.record.Err == nil {
		a.record.Code = a.findCode(c)
	}
	a.classifyOutcome(c)
}

// classifyOutcome determines the class of an outcome whose error code is known.
func (a *attempt) classifyOutcome(c *call) {
	switch {
	case a.record.Err == nil:
		a.record.Class = a.classOf(c)
	case c.caller.ended() != nil:
		a.record.Class, a.canceled = Permanent, true
		if neterr.RequestCanceled(a.record.Err) {
			a.record.Err = c.caller.ended() // which Request.Cancel does not tell
		}
	case c.body.Err() != nil:
		a.record.Class = Permanent
	default:
		a.record.Class = a.classOf(c)
	}
	a.record.MaybeExecuted = a.before.maybeExecuted || a.mayHaveExecuted()
	if !a.record.Start.IsZero() {
		a.record.Elapsed = time.Since(a.record.Start)
	}
}

// mayHaveExecuted reports whether the attempt failed and the service may have
// executed it.
func (a *attempt) mayHaveExecuted() bool {
	switch {
	case a.record.Class == Success || a.record.Class == Throttled:
		return false
	case a.record.Err != nil:
		return !neterr.NeverSent(a.record.Err) &&
			(a.canceled || errors.Is(a.record.Err, context.Canceled) || errorClass(a.record.Err) != Permanent)
	case a.fault != nil && a.record.Response.StatusCode < 400:
		return true
	case a.record.Response.StatusCode >= 400 && a.record.Response.StatusCode < 500:
		return false
	case a.record.Class == Permanent: // a Policy may return it for a server error that must not be retried
		return DefaultPolicy(&a.record) == Transient
	}
	return true
}

// classOf returns the class by the policy. If the policy makes no sense, it
// sets fault.
func (a *attempt) classOf(c *call) Class {
	policy := c.config.policy
	if c.options != nil && c.options.hasPolicy {
		policy = c.options.policy
	}
	if policy == nil {
		return DefaultPolicy(&a.record)
	}
	shown := a.record // the policy may keep the pointer; a stays on the stack
	class := policy(&shown)
	if class < Success || class > Throttled {
		a.fault = fmt.Errorf(
			"awsretry: Policy returned %v; it must return Success, Permanent, Transient, Timeout or Throttled", class)
		return Permanent
	}
	if class == Success && a.record.Err != nil {
		a.fault = fmt.Errorf("awsretry: Policy returned success for an attempt without a response: %w", a.record.Err)
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
func (a *attempt) findCode(c *call) string {
	resp := a.record.Response
	hidden := resp.StatusCode == http.StatusOK && awsproto.MayHideError(c.req)
	failed := resp.StatusCode >= 400
	peek := c.peekAt(resp)
	if !failed && !hidden && peek == nil {
		return ""
	}
	code := awsproto.HeaderCode(resp.Header)
	wanted := code == "" && awsproto.MayHoldCode(resp.Header) || c.config.retryAfter != nil || c.config.peek != nil
	if !wanted || resp.Body == http.NoBody || !respbody.Readable(resp.Header) || !a.readsAhead(c) {
		return code
	}
	limit, enough := awsproto.MaxErrorBody, (func([]byte) bool)(nil)
	if hidden {
		enough = new(awsproto.HiddenError).Impossible
	}
	if peek != nil {
		limit, enough = maxPeek, peek.until(enough)
	}
	a.record.Response, a.ahead = respbody.Read(resp, limit, enough)
	if !a.ahead.Ended() {
		a.waitForCode(c, enough != nil)
	}
	a.hung = !a.ahead.Ended()
	body := a.ahead.Plain(limit)
	if c.config.peek != nil {
		a.record.Body = body
	}
	switch {
	case peek == nil:
	case a.hung && c.caller.ended() == nil:
		a.lose(a.own.Explain(context.DeadlineExceeded))
		return ""
	case a.hung:
	case peek.panicked != nil:
		panic(peek.panicked)
	case a.ahead.Err() != nil:
		a.lose(a.ahead.Err())
		return ""
	}
	if code == "" && (failed || hidden) {
		code = awsproto.BodyCode(resp.Header, body)
	}
	return code
}

// lose discards the response, whose body broke off.
func (a *attempt) lose(err error) {
	respbody.Close(a.record.Response, a.own.Ender())
	a.record.Response, a.record.Body, a.ahead = nil, nil, nil
	a.record.Err = &bodyError{err}
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
	if hook == nil || c.kind != wholeCall || resp.StatusCode/100 != 2 || resp.Body == http.NoBody {
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

// readsAhead reports whether the response body may be read before the caller
// has it. If a Read hangs, RoundTrip cannot return the response. So a body is
// not read if no retry can follow, unless the rate limiter needs to know
// whether the service throttles and the length is announced. The body of a last
// attempt is read for Outcome, unless the body of an attempt before it hung. A
// body is not read while the caller is still writing a one-shot request body,
// which the response may depend on.
func (a *attempt) readsAhead(c *call) bool {
	paced := c.partition.limiter != nil && 0 < a.record.Response.ContentLength
	switch {
	case !c.mayRetry(1) && !paced, a.before.hung && !c.mayRetry(a.record.Number):
		return false
	}
	return c.body.Quiet(c.caller.waiting(), uploadWait) && (paced || c.body.Replayable())
}

// waitForCode waits until the body is read ahead. What a 2xx hides has no limit:
// for a large copy, Amazon S3 begins its document at once and ends it after
// minutes.
func (a *attempt) waitForCode(c *call, hidden bool) {
	ctx := c.caller.waiting()
	limit, ok := a.own.Left()
	if !hidden && (!ok || limit > codeWait) {
		limit, ok = codeWait, true
	}
	if ok {
		if !a.ahead.Wait(ctx, limit) && hidden {
			a.ahead.Wait(ctx, codeWait) // the Read that AttemptTimeout has ended
		}
	} else {
		a.ahead.Settle(ctx)
	}
}

// findDelay returns the delay that the response asks for, or 0.
func (a *attempt) findDelay(c *call) time.Duration {
	if a.record.Response == nil || !a.record.Class.Retryable() || c.config.ignoreRetryAfter {
		return 0
	}
	if c.config.retryAfter != nil && c.kind != loopCall {
		var body []byte
		if a.ahead != nil {
			body = a.ahead.Plain(awsproto.MaxErrorBody)
		}
		if asked, ok := c.config.retryAfter(a.record.Response, body); ok {
			return max(asked, 0)
		}
	}
	if len(a.record.Response.Header["Retry-After"]) == 0 {
		return 0
	}
	asked, _ := awsproto.RetryAfter(a.record.Response.Header, time.Now())
	return asked
}

// updateLimiter tells the rate limiter the outcome. Throttling that an announced
// limit explains does not change the send rate.
func (a *attempt) updateLimiter(c *call) {
	limiter, sent, throttled := c.partition.limiter, a.permit.sendTime, a.record.Class == Throttled
	if c.config.limits == nil || a.record.Response == nil {
		limiter.updateAt(sent, throttled)
	} else {
		explained := limiter.announce(sent, announcement{
			limits: c.config.limits(a.record.Response), throttled: throttled, retryAfter: a.record.Asked,
			free: throttled || announced.Free(a.record.Response.StatusCode, a.record.Response.Header),
		})
		limiter.count(sent, throttled && !explained)
	}
	a.permit.inFlight = false
}

// settle updates what later attempts and other calls use: the buckets, the gate
// and the connections.
func (a *attempt) settle(c *call) {
	err := a.record.Err
	if c.config.conns != nil && a.sent() && !a.canceled && neterr.TimedOut(err) && !neterr.DialFailed(err) {
		// Later requests would use it too, even if this one is not retried.
		a.abandoned = c.config.conns.Abandon(a.out.URL, a.via)
	}
	a.record.Asked = a.findDelay(c)
	if c.partition.limiter != nil && !a.canceled {
		a.updateLimiter(c)
	}
	switch {
	case a.record.Number > 1:
	case a.record.Class == Success:
		c.partition.quota.Release(c.config.increment)
	default:
		c.partition.quota.sawCall()
	}
	if c.kind != restCall || a.record.Class.Retryable() { // or else the body releases them
		a.permit.release(a.permit.lent && a.record.Class == Success)
	}
	if c.config.shareRetryAfter && 0 < a.record.Asked && a.record.Asked <= c.config.maxRetryAfter {
		c.partition.gate.Close(time.Now(), a.record.Asked, c.config.spread.of(a.record.Asked))
		c.partition.share.signal()
	}
	if a.record.Class == Throttled {
		c.partition.share.signal()
	}
}

// report calls the observers, once. An attempt whose response body broke off is
// reported again only if no attempt follows it.
func (a *attempt) report(c *call) {
	broke := c.kind == restCall && !a.sent()
	if !c.observed || a.reported || broke && a.record.Stop == "" {
		return
	}
	a.reported = true
	c.observe(a.record)
}

// finish returns the last response, or an error.
func (a *attempt) finish(c *call) (*http.Response, error) {
	if a.ahead != nil && !a.closed && a.fault == nil && !a.settleBody(c) {
		a.giveUp(c)
	}
	kept := a.record.Err == nil && !a.closed && a.fault == nil
	if kept && (a.record.Number > 1 || a.record.Class != Success) {
		a.keepRecord(c)
	}
	a.report(c)
	if a.record.Stop == StopQuota && a.record.Delay > 0 {
		a.sleepKeeping(c, a.record.Delay) // so that the loop of a long-polling caller does not spin
	}
	switch {
	case a.fault != nil:
		return nil, a.error(StopPermanent, a.fault)
	case !kept:
		return nil, a.error(a.record.Stop, a.lastError(c))
	}
	c.responded = true
	return a.record.Response, nil
}

// error returns the error of a call that ends after a.
func (a *attempt) error(stop Stop, err error) error {
	lost := a.record.Class == Success // the end of the context took the response away
	return &Error{Attempts: a.record.Number, Stop: stop, Err: err, MaybeExecuted: a.record.MaybeExecuted || lost}
}

// settleBody waits until nothing of the response is being read ahead, so that
// only the caller uses its body and trailers. It returns false if the caller's
// context ends first, and the body with it.
func (a *attempt) settleBody(c *call) bool {
	a.ahead.Stop()
	ctx := c.caller.Context
	if !a.ahead.Ended() {
		ctx = c.caller.waiting()
	}
	return a.ahead.Settle(ctx) && (a.ahead.Err() == nil || c.caller.ended() == nil)
}

// lastError returns the error of a call that returns no response.
func (a *attempt) lastError(c *call) error {
	why := c.caller.ended()
	if why == nil || a.record.Stop != c.caller.stop(why) {
		return neterr.SchemeMismatch(a.record.Err)
	}
	err := a.record.Err
	if a.record.Response != nil {
		err = a.failure().error()
	} else if last := a.before.failure.error(); last != nil && a.canceled {
		err = fmt.Errorf("%w; before that: %w", err, last)
	}
	return interruption(c.caller.Context, why, err)
}

// reportPanic calls the observers if a hook or Base panicked after the attempt
// was sent.
func (a *attempt) reportPanic(c *call) {
	if !a.sent() || a.reported || !c.observed {
		return
	}
	a.record.Class = Permanent
	a.stopAt(StopPermanent)
	if a.record.Response == nil && a.record.Err == nil {
		a.record.Err = errPanicked
	}
	a.report(c)
}

var errPanicked = errors.New("awsretry: Base panicked")

// giveUp stops and discards the response: the caller's context has ended, and
// the body with it.
func (a *attempt) giveUp(c *call) {
	a.stopAt(c.interrupted())
	if a.record.Response != nil {
		a.closed = true
		respbody.Close(a.record.Response, a.own.Ender())
	}
}

// stopAt makes a, which may have been going to be retried, the last attempt.
func (a *attempt) stopAt(stop Stop) { a.record.Stop, a.record.Delay = stop, 0 }

// sleepKeeping sleeps for d and keeps the response.
func (a *attempt) sleepKeeping(c *call, d time.Duration) {
	defer a.own.Hold()()
	c.sleep(d)
}

// keepRecord stores the record of the last attempt for Outcome, in the context
// of the response's request. That is our request, or another one that Base sent
// in its place.
func (a *attempt) keepRecord(c *call) {
	sent := a.record.Response.Request
	var known *recordContext
	if sent != nil {
		known, _ = sent.Context().Value(recordKey{}).(*recordContext)
	}
	if sent == nil || known != nil && known != a.marked { // none, or one of another call
		sent, known = a.shownRequest(c), a.marked
	}
	if known == nil {
		a.marked = newRecordContext(c.caller.Context, c.req, c.options, 0)
		sent = sent.WithContext(a.marked)
	}
	a.record.Response.Request = sent
	a.marked.set(&a.record)
}
