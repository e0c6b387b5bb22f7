package awssdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"example.com/awsretry"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A call is one call of an operation: what its attempts share. Only the
// goroutine of the SDK's retry loop uses it.
type call struct {
	retryer   *Retryer
	loop      decisions
	described *http.Request // in the records of the attempts
	admitted  bool          // the next attempt has waited for its turn
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
func (r *Retryer) handleCall(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	described := describeCall(ctx, requestOf(in))
	loop, err := r.newLoop(described, false)
	if err != nil {
		return out, metadata, refusedFirst(err)
	}
	c := &call{retryer: r, loop: loop, described: described}
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
	sent := requestOf(in)
	c.limitAttempts(sent)
	// Calls within the attempt, such as those for credentials, are other calls.
	out, metadata, err = next.HandleFinalize(withCall(ctx, nil), in)
	if c.last == nil && sent != nil && sent.URL != nil {
		*c.described.URL = *sent.URL // the endpoint is known now
	}
	var resp *http.Response
	if raw, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok {
		resp = raw.Response
	}
	class := classify(c.loop, resp, err)
	c.loop.Settle()
	if err == nil {
		return out, metadata, nil
	}
	if fault := c.loop.Fault(); fault != nil {
		err = fmt.Errorf("%w: %w", fault, err)
	}
	c.fail(&attemptError{err: err, call: c, class: class, once: sentOnce(in)})
	return out, metadata, c.last.shown
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
	allowed := 0
	if n != unlimited {
		allowed = n
	}
	text := before + "max=" + strconv.Itoa(min(n, c.loop.LimitAttempts(allowed)))
	if more {
		text += ";" + after
	}
	sent.Header.Set(header, text)
}
