package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

func sdkStandard() aws.Retryer { return retry.NewStandard() }
func sdkAdaptive() aws.Retryer { return retry.NewAdaptiveMode() }

// A pace returns a context for the SDK.
type pace func(context.Context) context.Context

func fast(ctx context.Context) context.Context { return ctx }
func slow(ctx context.Context) context.Context { return slowContext{ctx} }

// A slowContext takes a microsecond to return its Done channel, which every
// delay of the SDK asks for. The SDK's rate limiter needs that in virtual time,
// which advances only when every goroutine waits: a caller that has to wait for
// less than a nanosecond asks for a delay of 0, wakes at the same instant, and
// so on forever.
type slowContext struct{ context.Context }

func (c slowContext) Done() <-chan struct{} {
	time.Sleep(time.Microsecond)
	return c.Context.Done()
}

// An sdkTransport is the SDK's retry middleware with what a service client has
// below it: it makes an http.Request, and turns a failure into the error that
// the retryer inspects.
type sdkTransport struct {
	base     http.RoundTripper
	attempts *retry.Attempt
	pace     pace
}

func sdk(newRetryer func() aws.Retryer, pace pace) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return &sdkTransport{base, retry.NewAttemptMiddleware(newRetryer(), smithyhttp.RequestCloner), pace}
	}
}

func (t *sdkTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	own := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	own.Method, own.URL, own.Host = req.Method, req.URL, req.Host
	in := middleware.FinalizeInput{Request: own}
	out, _, err := t.attempts.HandleFinalize(t.pace(req.Context()), in, middleware.FinalizeHandlerFunc(t.send))
	if err != nil {
		return nil, err
	}
	return out.Result.(*http.Response), nil
}

func (t *sdkTransport) send(ctx context.Context, in middleware.FinalizeInput) (
	out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
) {
	resp, err := t.base.RoundTrip(in.Request.(*smithyhttp.Request).Build(ctx))
	if err != nil {
		return out, metadata, &smithyhttp.RequestSendError{Err: err}
	}
	out.Result = resp
	if resp.StatusCode >= 400 {
		err = responseError(resp)
	}
	return out, metadata, err
}

// responseError reads the error code as the SDK's clients of the AWS JSON
// protocols do.
func responseError(resp *http.Response) error {
	defer resp.Body.Close()
	var body struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	err := error(&smithy.GenericAPIError{Code: "UnknownError"})
	if failure := json.NewDecoder(resp.Body).Decode(&body); failure != nil && !errors.Is(failure, io.EOF) {
		err = failure
	} else if body.Type != "" {
		err = &smithy.GenericAPIError{Code: body.Type[strings.IndexByte(body.Type, '#')+1:], Message: body.Message}
	}
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err}
}
