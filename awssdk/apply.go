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
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
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

// applied is the Retryer of a client whose calls are known, so that the default
// number of attempts can depend on the service.
type applied struct{ *Retryer }

func (r applied) MaxAttempts() int { return r.longest }

// The name of the SDK's retry loop in the middleware stack.
const retryID = "Retry"

// addMiddlewares adds a middleware around the SDK's retry loop and another one
// around each attempt. A stack without the loop, such as that of a presigned
// request, stays as it is.
func (r *Retryer) addMiddlewares(stack *middleware.Stack) error {
	if _, ok := stack.Finalize.Get(retryID); !ok {
		return nil
	}
	around := middleware.FinalizeMiddlewareFunc("AWSRetryCall", r.handleCall)
	if err := stack.Finalize.Insert(around, retryID, middleware.Before); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	inside := middleware.FinalizeMiddlewareFunc("AWSRetryAttempt", handleAttempt)
	if err := stack.Finalize.Insert(inside, retryID, middleware.After); err != nil {
		return fmt.Errorf("awssdk: %w", err)
	}
	return nil
}

// A call is one call of an operation: what its attempts share. It lives on the
// goroutine of the SDK's retry loop, except for the errors that refer to it.
type call struct {
	retryer   *Retryer
	loop      *awsretry.Loop
	described *http.Request // in the records of the attempts
	attempts  int           // that have an outcome
	admitted  bool          // the next attempt has waited for its turn
	last      error         // of the attempt before
}

type callKey struct{}

// callOf returns the call of ctx, nil where Apply did not configure the client.
// A call within an attempt of another one, such as one for credentials, does
// not find that one: each operation begins with stack values of its own.
func callOf(ctx context.Context) *call {
	c, _ := middleware.GetStackValue(ctx, callKey{}).(*call)
	return c
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
	defer loop.End()
	c := &call{retryer: r, loop: loop, described: described}
	return next.HandleFinalize(middleware.WithStackValue(ctx, callKey{}, c), in)
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
	if err == nil || c.last == nil {
		return err
	}
	return &refusedRetry{err, c.last}
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
	out, metadata, err = next.HandleFinalize(ctx, in)
	if c.attempts++; c.attempts == 1 && sent != nil && sent.URL != nil {
		*c.described.URL = *sent.URL // the endpoint is known now
	}
	var resp *http.Response
	if raw, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok {
		resp = raw.Response
	}
	a := &attemptError{err: err, call: c, number: c.attempts, class: classify(c.loop, resp, err)}
	c.loop.Settle()
	if err != nil {
		c.last, err = err, a
	}
	return out, metadata, err
}

// limitAttempts makes the number of attempts that the SDK's retry loop says in
// the request's header that of the call, unless it is the Retryer's.
func (c *call) limitAttempts(sent *http.Request) {
	const header = "Amz-Sdk-Request"
	if sent == nil || len(sent.Header[header]) == 0 {
		return
	}
	before, limit, ok := strings.Cut(sent.Header.Get(header), "max=")
	limit, after, more := strings.Cut(limit, ";")
	n, err := strconv.Atoi(limit)
	switch {
	case !ok || err != nil:
	case n != c.retryer.longest:
		c.loop.SetMaxAttempts(n)
	case n != c.loop.MaxAttempts():
		text := before + "max=" + strconv.Itoa(c.loop.MaxAttempts())
		if more {
			text += ";" + after
		}
		sent.Header.Set(header, text)
	}
}

// An attemptError is the error of an attempt whose call is known. It is where
// the methods of a Retryer that have no context find the call.
type attemptError struct {
	err    error
	call   *call
	number int
	class  awsretry.Class
	delay  time.Duration // before the next attempt
	stop   awsretry.Stop // why there is none
}

func (a *attemptError) Error() string { return a.err.Error() }
func (a *attemptError) Unwrap() error { return a.err }

// attemptOf returns the attempt that failed with err, nil where Apply did not
// configure the client. The error of another operation, such as one for
// credentials, is not looked into.
func attemptOf(err error) *attemptError {
	var a, inner *attemptError
	var other *smithy.OperationError
	if !errors.As(err, &a) || errors.As(err, &other) && errors.As(other, &inner) && inner == a {
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
	if !a.class.Retryable() {
		a.call.loop.SetClass(awsretry.Transient) // retryable by a client's own rules
	}
	if a.delay, a.stop = a.call.loop.Decide(); a.stop == "" {
		return nil
	}
	sleep(a.call.described.Context(), a.delay)
	return refusal(a.number, a.stop, a.err)
}

// retryDelay returns the delay that decide found.
func (a *attemptError) retryDelay() (time.Duration, error) {
	if a.stop != "" {
		return 0, fmt.Errorf("awssdk: no attempt follows (%s)", a.stop)
	}
	return beforeSDK(a.delay, responseOf(a.err)), nil
}
