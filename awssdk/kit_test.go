package awssdk

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A step is what comes of one attempt: a response, or an error of sending.
type step struct {
	status int
	code   string
	header map[string]string
	err    error
}

// An apiError is an error as the SDK's clients make of a response.
type apiError struct {
	*smithyhttp.ResponseError
	code string
}

func (e *apiError) ErrorCode() string             { return e.code }
func (e *apiError) ErrorMessage() string          { return "" }
func (e *apiError) ErrorFault() smithy.ErrorFault { return smithy.FaultUnknown }
func (e *apiError) Error() string                 { return fmt.Sprintf("%s: %s", e.code, e.ResponseError.Error()) }
func (e *apiError) Unwrap() error                 { return e.ResponseError }

// response returns the response of the step to req.
func (s step) response(req *http.Request) *http.Response {
	resp := &http.Response{StatusCode: s.status, Header: make(http.Header), Body: http.NoBody, Request: req}
	for name, value := range s.header {
		resp.Header.Set(name, value)
	}
	return resp
}

// failure returns the SDK's error for the step, nil if it is a success.
func (s step) failure(req *http.Request) error {
	if s.err != nil || s.status < 300 && s.code == "" {
		return s.err
	}
	err := &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: s.response(req)}, Err: fmt.Errorf("status %d", s.status),
	}
	if s.code == "" {
		return err
	}
	return &apiError{err, s.code}
}

// mustRetryer returns a Retryer without jitter, in Classic unless c names
// another revision.
func mustRetryer(t testing.TB, c Config) *Retryer {
	t.Helper()
	if c.Backoff == nil {
		c.Backoff = awsretry.Exponential{Jitter: awsretry.NoJitter}
	}
	c.Revision = cmp.Or(c.Revision, awsretry.Classic)
	r, err := NewRetryer(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A client calls operations through the middleware stack of the SDK: its retry
// loop, and a handler that plays steps. It is not safe for concurrent use.
type client struct {
	service, operation string                        // service "": neither is in the context, as with the IMDS client
	apply              bool                          // by Retryer.Apply
	before             *Retryer                      // was applied before; may be nil
	keepsStack         bool                          // the stack values of the context, as the IMDS client does
	body               io.Reader                     // of the requests; may be nil
	wrap               func(aws.Retryer) aws.Retryer // as a client's options do; may be nil

	steps      []step
	beforeEach func()                      // called before each attempt; may be nil
	inside     func(context.Context) error // called in each attempt; may be nil
	sent       []time.Time
	max        []string // the Amz-Sdk-Request headers
}

// newClient returns a client that calls GetObject of S3.
func newClient(apply bool) *client {
	return &client{service: "S3", operation: "GetObject", apply: apply}
}

// call calls the operation, which plays the next steps.
func (c *client) call(ctx context.Context, r *Retryer, steps ...step) error {
	c.steps, c.sent, c.max = steps, nil, nil
	cfg := aws.Config{Retryer: func() aws.Retryer { return r }}
	if c.before != nil {
		c.before.Apply(&cfg)
	}
	if c.apply {
		r.Apply(&cfg)
	}
	retryer := cfg.Retryer()
	if c.wrap != nil {
		retryer = c.wrap(retryer)
	}
	return c.send(ctx, retryer, cfg.APIOptions)
}

// send calls the operation with a retryer and the options of a client.
func (c *client) send(ctx context.Context, retryer aws.Retryer, options []func(*middleware.Stack) error) error {
	stack := middleware.NewStack(c.operation, c.newRequest)
	signs := middleware.FinalizeMiddlewareFunc("Signing", func(
		ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
	) (middleware.FinalizeOutput, middleware.Metadata, error) {
		return next.HandleFinalize(ctx, in)
	})
	if err := stack.Finalize.Add(signs, middleware.After); err != nil {
		return err
	}
	if err := retry.AddRetryMiddlewares(stack, retry.AddRetryMiddlewaresOptions{Retryer: retryer}); err != nil {
		return err
	}
	for _, option := range options {
		if err := option(stack); err != nil {
			return err
		}
	}
	if !c.keepsStack {
		ctx = middleware.ClearStackValues(ctx)
	}
	if c.service != "" {
		ctx = awsmiddleware.SetServiceID(ctx, c.service)
		ctx = awsmiddleware.SetOperationName(ctx, c.operation)
		ctx = awsmiddleware.SetRegion(ctx, "us-east-1")
	}
	_, _, err := middleware.DecorateHandler(middleware.HandlerFunc(c.handle), stack).Handle(ctx, nil)
	return err
}

func (c *client) newRequest() any {
	req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if c.body == nil {
		return req
	}
	req, err := req.SetStream(c.body)
	if err != nil {
		panic(err) // only of a body that cannot be sought, which is not sought
	}
	return req
}

func (c *client) handle(ctx context.Context, input any) (out any, metadata middleware.Metadata, err error) {
	req := input.(*smithyhttp.Request)
	if c.beforeEach != nil {
		c.beforeEach()
	}
	c.sent = append(c.sent, time.Now())
	c.max = append(c.max, req.Header.Get("Amz-Sdk-Request"))
	req.Header.Set("X-Amz-Target", targets[c.service]+c.operation)
	if c.inside != nil {
		if err := c.inside(ctx); err != nil {
			return nil, metadata, err
		}
	}
	if len(c.steps) == 0 {
		return nil, metadata, fmt.Errorf("more attempts than steps")
	}
	s := c.steps[0]
	c.steps = c.steps[1:]
	return nil, metadata, s.failure(req.Request)
}

// delays returns the times between the attempts.
func (c *client) delays() []time.Duration {
	var d []time.Duration
	for i := 1; i < len(c.sent); i++ {
		d = append(d, c.sent[i].Sub(c.sent[i-1]))
	}
	return d
}

// tokens returns what is in the retry token bucket of the service.
func tokens(t testing.TB, r *Retryer, partition string) int {
	t.Helper()
	s, ok := r.State(partition)
	if !ok {
		t.Fatalf("there is no partition %q", partition)
	}
	return s.Tokens
}

// each runs a test in virtual time, of a client that Apply configured and of
// one that has the Retryer alone.
func each(t *testing.T, test func(t *testing.T, apply bool)) {
	for name, apply := range map[string]bool{"plain": false, "applied": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, apply) })
		})
	}
}
