package awssdk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Apply makes the clients that are made from cfg retry by r. It sets
// cfg.Retryer, and adds to cfg.APIOptions what tells r which attempts are of one
// call. It clears cfg.RetryMaxAttempts, which the SDK's config package reads
// from the environment and which would take precedence over r.
//
// For a client that is made from options, use the two fields:
//
//	var cfg aws.Config
//	retryer.Apply(&cfg)
//	client := sqs.New(sqs.Options{Retryer: cfg.Retryer(), APIOptions: cfg.APIOptions})
func (r *Retryer) Apply(cfg *aws.Config) {
	cfg.Retryer = func() aws.Retryer { return applied{r} }
	cfg.RetryMaxAttempts = 0
	options := make([]func(*middleware.Stack) error, 0, len(cfg.APIOptions)+1)
	cfg.APIOptions = append(append(options, cfg.APIOptions...), r.addMiddlewares)
}

// applied is the Retryer of a client whose calls are known, so that the number
// of attempts can depend on the service and the context.
type applied struct{ *Retryer }

// The MaxAttempts of applied: the call decides when they are used up.
const unlimited = math.MaxInt32

func (applied) MaxAttempts() int { return unlimited }

// RetryDelay limits the attempts of a client that has cfg.Retryer without
// cfg.APIOptions.
func (r applied) RetryDelay(attempt int, err error) (time.Duration, error) {
	if made := attemptsMade(attempt); r.attemptOf(err) == nil && made >= r.attempts {
		return 0, errors.Join(err, refusal(context.Background(), made, awsretry.StopMaxAttempts, err))
	}
	return r.Retryer.RetryDelay(attempt, err)
}

// The name of the SDK's retry loop in the middleware stack.
const retryID = "Retry"

// The names of the middlewares.
const (
	callID    = "AWSRetryCall"
	attemptID = "AWSRetryAttempt"
)

// addMiddlewares adds a middleware around the SDK's retry loop and another one
// around each attempt. They replace those of another Retryer. A stack without
// the loop, such as that of a presigned request, stays as it is.
func (r *Retryer) addMiddlewares(stack *middleware.Stack) error {
	steps := stack.Finalize
	if _, ok := steps.Get(retryID); !ok {
		return nil
	}
	for _, id := range []string{callID, attemptID} {
		if _, ok := steps.Get(id); ok {
			if _, err := steps.Remove(id); err != nil {
				return fmt.Errorf("awssdk: %w", err)
			}
		}
	}
	around := middleware.FinalizeMiddlewareFunc(callID, r.handleCall)
	if err := steps.Insert(around, retryID, middleware.Before); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	inside := middleware.FinalizeMiddlewareFunc(attemptID, handleAttempt)
	if err := steps.Insert(inside, retryID, middleware.After); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	return nil
}

// A call is one call of an operation: what its attempts share. It belongs to the
// goroutine of the SDK's retry loop.
type call struct {
	retryer   *Retryer
	loop      *awsretry.Loop
	described *http.Request // in the records of the attempts
	admitted  bool          // the next attempt has waited for its turn
	failed    []*attemptError
}

type callKey struct{}

// callOf returns the call of ctx, nil where Apply did not configure the client.
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
	loop, err := r.transport.NewLoop(described)
	if err != nil {
		return out, metadata, err
	}
	c := &call{retryer: r, loop: loop, described: described}
	defer c.end()
	out, metadata, err = next.HandleFinalize(withCall(ctx, c), in)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = &canceledError{err, cause}
	}
	return out, metadata, err
}

// end ends the call. Its errors may be kept, and may be an inner error of
// another call, which must not take them for its own. So may the requests, whose
// contexts have the call.
func (c *call) end() {
	for _, a := range c.failed {
		a.call = nil
	}
	loop := c.loop
	*c = call{}
	loop.End()
}

// A canceledError is an error because a context ended, with the cause of that
// end.
type canceledError struct{ err, cause error }

func (e *canceledError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *canceledError) Unwrap() []error { return []error{e.err, e.cause} }

// endOf returns why ctx ended, nil if it has not. Like the errors of a Transport
// it matches the context's error too if the cause is another one.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return &canceledError{err, cause}
}

// requestOf returns the request of a step of the stack.
func requestOf(in middleware.FinalizeInput) *http.Request {
	if req, ok := in.Request.(*smithyhttp.Request); ok {
		return req.Request
	}
	return nil
}

// wait waits until the next attempt may be sent. The error of a retry is also
// that of the attempt before it.
func (c *call) wait() error {
	err := c.loop.Wait()
	c.admitted = err == nil
	if err == nil || len(c.failed) == 0 {
		return err
	}
	return &refusedRetry{err, c.failed[len(c.failed)-1].err}
}

// A refusedRetry is the error of a retry that may not be sent. The text of why
// has the attempt before it.
type refusedRetry struct{ why, last error }

func (e *refusedRetry) Error() string   { return e.why.Error() }
func (e *refusedRetry) Unwrap() []error { return []error{e.why, e.last} }

// handleAttempt makes one attempt, and gives its outcome to the call.
func handleAttempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	c := callOf(ctx)
	if c == nil || !c.admitted { // another Retryer has taken the place of ours
		return next.HandleFinalize(ctx, in)
	}
	c.admitted = false
	sent := requestOf(in)
	c.limitAttempts(sent)
	// Calls within the attempt, such as those for credentials, are not the call.
	out, metadata, err = next.HandleFinalize(withCall(ctx, nil), in)
	if len(c.failed) == 0 && sent != nil && sent.URL != nil {
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
	a := &attemptError{err: err, call: c, class: class, number: len(c.failed) + 1, once: sentOnce(in)}
	c.failed = append(c.failed, a)
	return out, metadata, a
}

// sentOnce reports whether the request has a body that cannot be sent again.
func sentOnce(in middleware.FinalizeInput) bool {
	req, ok := in.Request.(*smithyhttp.Request)
	return ok && req.GetStream() != nil && !req.IsStreamSeekable()
}

// limitAttempts makes the number of attempts that the SDK's retry loop says in
// the request's header that of the call, unless it is the Retryer's. Then the
// header says that of the call.
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
		c.loop.SetMaxAttempts(n)
	}
	text := before + "max=" + strconv.Itoa(min(n, c.loop.MaxAttempts()))
	if more {
		text += ";" + after
	}
	sent.Header.Set(header, text)
}

// An attemptError is the error of an attempt whose call is known. It is where
// the methods of a Retryer that have no context find the call.
type attemptError struct {
	err    error
	call   *call // nil once it has ended
	number int
	class  awsretry.Class
	once   bool          // the request body cannot be sent again
	delay  time.Duration // before the next attempt
	stop   awsretry.Stop // why there is none
}

func (a *attemptError) Error() string { return a.err.Error() }
func (a *attemptError) Unwrap() error { return a.err }

// attemptOf returns the attempt of a call of r that failed with err, nil where
// Apply did not configure the client.
func (r *Retryer) attemptOf(err error) *attemptError {
	var a *attemptError
	if !errors.As(err, &a) || a.call == nil || a.call.retryer != r {
		return nil
	}
	return a
}

// retryable reports whether the attempt may be repeated. The SDK has wrapped its
// error if the client's clock was wrong.
func (a *attemptError) retryable(err error) bool {
	return a.class.Retryable() || saysRetryable(err) == aws.TrueTernary
}

// decide decides whether another attempt follows.
func (a *attemptError) decide() error {
	loop, ctx := a.call.loop, a.call.described.Context()
	if !a.class.Retryable() {
		loop.SetClass(awsretry.Transient) // retryable by a client's own rules
	}
	if a.once {
		a.stop = awsretry.StopBody
		loop.Stop(a.stop)
	} else if a.delay, a.stop = loop.Decide(); a.stop == "" {
		return nil
	}
	sleep(ctx, a.delay)
	return refusal(ctx, a.number, a.stop, a.err)
}

// retryDelay returns the delay that decide found.
func (a *attemptError) retryDelay() (time.Duration, error) {
	if a.stop != "" {
		return 0, fmt.Errorf("awssdk: no attempt follows (%s)", a.stop)
	}
	return beforeSDK(a.delay, responseOf(a.err)), nil
}
