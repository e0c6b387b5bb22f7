package awssdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A call is one call of an operation: what its attempts share. Only the
// goroutine of the SDK's retry loop uses it.
type call struct {
	retryer   *Retryer
	operation *operation
	account   string // see signer; "" if it is not known
	loop      decisions
	described *http.Request // in the records of the attempts
	allowed   int           // the limit of attempts of a client's own; 0: none
	admitted  bool          // the next attempt has waited for its turn
	signed    bool          // the attempt has got past what other operations do for it
	refused   error         // why the attempt was not sent after that
	stale     bool          // the attempt has waited since it was signed
	last      *attemptError // the last attempt that failed; nil before the first one
}

type callKey struct{}

// callOf returns the call of ctx, or nil if Apply did not configure the client.
func callOf(ctx context.Context) *call {
	c, _ := middleware.GetStackValue(ctx, callKey{}).(*call)
	return c
}

func withCall(ctx context.Context, c *call) context.Context {
	return middleware.WithStackValue(ctx, callKey{}, c)
}

// handleCall makes the call of an operation.
func (r *Retryer) handleCall(ctx context.Context, o *operation, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	c := &call{retryer: r, operation: o, account: r.accounts.of(o.client)}
	if c.loop, c.described, err = r.begin(ctx, o, c.account, requestOf(in), false); err != nil {
		return out, metadata, refusedFirst(err)
	}
	defer c.end()
	out, metadata, err = next.HandleFinalize(withCall(ctx, c), in)
	if c.last != nil {
		err = c.last.flatten(err)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = &canceledError{err, cause}
	}
	return out, metadata, err
}

// fail makes a the last attempt that failed, and the one that is found by its
// error.
func (c *call) fail(a *attemptError) {
	a.number = 1
	if c.last != nil {
		a.number = c.last.number + 1
		c.retryer.forget(c.last)
	}
	c.last = a
	c.retryer.identify(a)
}

// end ends the call. It clears the call, because requests, whose contexts have
// it, may be kept.
func (c *call) end() {
	if c.last != nil {
		c.retryer.forget(c.last)
	}
	loop := c.loop
	*c = call{}
	loop.End()
}

// requestOf returns the request of a step of the stack.
func requestOf(in middleware.FinalizeInput) *http.Request {
	if req, ok := in.Request.(*smithyhttp.Request); ok {
		return req.Request
	}
	return nil
}

// wait waits until the next attempt may be sent. The error of a retry wraps
// that of the attempt before it.
func (c *call) wait() error {
	err := c.loop.Wait()
	c.admitted = err == nil
	var stop *awsretry.Error
	if last := c.last; last != nil && errors.As(err, &stop) {
		refused := refusal(c.described.Context(), last.number, stop.Stop, last.err)
		refused.last = last.err
		return refused
	}
	return refusedFirst(err)
}

// handleAttempt makes one attempt, and gives its outcome to the call.
func handleAttempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	c := callOf(ctx)
	if c == nil || !c.admitted { // another Retryer replaced ours
		return next.HandleFinalize(ctx, in)
	}
	c.admitted = false
	c.limitAttempts(requestOf(in))
	fresh := in
	if c.account == "" && c.last == nil {
		fresh.Request = smithyhttp.RequestCloner(in.Request)
	}
	out, metadata, err = c.runAttempt(ctx, in, next)
	if c.stale { // the credentials may have expired
		in = fresh
		if req, ok := in.Request.(*smithyhttp.Request); ok && req.IsStreamSeekable() {
			if err := req.RewindStream(); err != nil {
				return out, metadata, fmt.Errorf("awssdk: %w", err)
			}
		}
		out, metadata, err = c.runAttempt(ctx, in, next)
	}
	if c.refused != nil {
		return out, metadata, c.refused
	}
	if sent := requestOf(in); c.last == nil && sent != nil && sent.URL != nil {
		*c.described.URL = *sent.URL // the endpoint is known now
	}
	var resp *http.Response
	if raw, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok {
		resp = raw.Response
	}
	class := settle(c.loop, resp, err, nested(err) || !c.signed)
	if err == nil {
		return out, metadata, nil
	}
	if fault := c.loop.Fault(); fault != nil {
		err = fmt.Errorf("%w: %w", fault, err)
	}
	c.fail(&attemptError{err: err, call: c, class: class, once: sentOnce(in)})
	return out, metadata, c.last.shown
}

// runAttempt makes the attempt. Calls within it, such as those for credentials,
// are other calls.
func (c *call) runAttempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	c.signed, c.stale = false, false
	within := &attempt{c, c.operation, awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)}
	return next.HandleFinalize(context.WithValue(withCall(ctx, nil), attemptKey{}, within), in)
}

// handleSend sees the signed request of an attempt.
func (o *operation) handleSend(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	if a := outerAttempt(ctx); a != nil && a.stack == o {
		if err := a.call.seeSigned(requestOf(in)); err != nil {
			return out, metadata, err
		}
	}
	return next.HandleFinalize(ctx, in)
}

// longestSigned is how long a signed request may wait before it is signed anew.
const longestSigned = time.Second

var errStale = errors.New("awssdk: the signature is too old")

// seeSigned finds out the account of the request. If it is another one than was
// known when the call began, the first attempt waits again, in its partition.
func (c *call) seeSigned(sent *http.Request) error {
	c.signed = true
	account := signer(sent)
	if account == "" || account == c.account {
		return nil
	}
	known, first := c.account != "", c.last == nil
	c.account = account
	c.retryer.accounts.remember(c.operation.client, account)
	if !first {
		return nil
	}
	c.loop.End()
	loop, described, err := c.retryer.begin(c.described.Context(), c.operation, account, c.described, false)
	if err != nil {
		c.refused = refusedFirst(err)
		return c.refused
	}
	c.loop, c.described = loop, described
	loop.LimitAttempts(c.allowed)
	start := time.Now()
	if c.refused = c.wait(); c.refused != nil {
		return c.refused
	}
	c.admitted = false
	if c.stale = !known && time.Since(start) > longestSigned; c.stale {
		return errStale
	}
	return nil
}

// sentOnce reports whether the request has a body that cannot be sent again.
func sentOnce(in middleware.FinalizeInput) bool {
	req, ok := in.Request.(*smithyhttp.Request)
	return ok && req.GetStream() != nil && !req.IsStreamSeekable()
}

// limitAttempts limits the attempts of the call to the number that the SDK's
// retry loop set in the request's header, unless that is the Retryer's. It
// replaces the number in the header by that of the call.
func (c *call) limitAttempts(sent *http.Request) {
	const header = "Amz-Sdk-Request"
	if sent == nil || len(sent.Header[header]) == 0 {
		return
	}
	before, limit, ok := strings.Cut(sent.Header.Get(header), "max=")
	limit, after, more := strings.Cut(limit, ";")
	n, err := strconv.Atoi(limit)
	if !ok || err != nil {
		return
	}
	if n != unlimited {
		c.allowed = n
	}
	text := before + "max=" + strconv.Itoa(min(n, c.loop.LimitAttempts(c.allowed)))
	if more {
		text += ";" + after
	}
	sent.Header.Set(header, text)
}
