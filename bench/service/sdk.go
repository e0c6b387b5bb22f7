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
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
)

func sdkStandard(cfg *aws.Config) { cfg.Retryer = func() aws.Retryer { return retry.NewStandard() } }
func sdkAdaptive(cfg *aws.Config) {
	cfg.Retryer = func() aws.Retryer { return retry.NewAdaptiveMode() }
}

func sdkWithoutQuota(cfg *aws.Config) {
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter = ratelimit.None })
	}
}

const (
	sdkStandardName  = "aws-sdk-go-v2 standard"
	awssdkName       = "awssdk adaptive"
	awssdkScaledName = "awssdk ScaledPacing"
)

// retryers are clients of the AWS SDK: with its own retryers, and with those of
// package awssdk and all that Apply adds. The adaptive ones run on the wall clock
// too.
var retryers = append(
	named(sdkStandardName, sdkAdaptiveName),
	library{name: "awssdk standard", over: sdk(withAwssdk(awssdk.Config{}), fast)},
	onBothClocks(awssdkName, withAwssdk(awssdkAdaptive)),
	onBothClocks(awssdkScaledName, withAwssdk(awssdkScaled)),
)

var (
	awssdkAdaptive = awssdk.Config{Mode: awsretry.Adaptive}
	awssdkScaled   = awssdk.Config{
		Mode:      awsretry.Adaptive,
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
	}
)

func onBothClocks(name string, configure func(*aws.Config)) library {
	return library{name: name, over: sdk(configure, fast), wall: sdk(configure, fast)}
}

// withAwssdk makes the SDK retry by package awssdk.
func withAwssdk(c awssdk.Config) func(*aws.Config) {
	return func(cfg *aws.Config) {
		r, err := awssdk.NewRetryer(c)
		if err != nil {
			panic(err) // the settings are constants
		}
		cfg.Retryer = func() aws.Retryer { return r }
		r.Apply(cfg)
	}
}

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

// An sdkTransport is the SDK's retry middleware, with the middlewares that the
// client's configuration adds, and with what a service client has below them: it
// makes an http.Request, and turns a failure into the error that the retryer
// inspects.
type sdkTransport struct {
	base     http.RoundTripper
	attempts *retry.Attempt
	options  []func(*middleware.Stack) error
	pace     pace
}

// sdk returns a library that is a client of the SDK. configure sets its retryer.
func sdk(configure func(*aws.Config), pace pace) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		var cfg aws.Config
		configure(&cfg)
		attempts := retry.NewAttemptMiddleware(cfg.Retryer(), smithyhttp.RequestCloner)
		return &sdkTransport{base, attempts, cfg.APIOptions, pace}
	}
}

func (t *sdkTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	stack := middleware.NewStack("Call", smithyhttp.NewStackRequest) // one for each call, as in the SDK
	if err := stack.Finalize.Add(t.attempts, middleware.After); err != nil {
		return nil, err
	}
	for _, option := range t.options {
		if err := option(stack); err != nil {
			return nil, err
		}
	}
	ctx := awsmiddleware.SetOperationName(awsmiddleware.SetServiceID(req.Context(), "Service"), stack.ID())
	own := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	own.Method, own.URL, own.Host = req.Method, req.URL, req.Host
	out, _, err := stack.Finalize.HandleMiddleware(t.pace(ctx), own, middleware.HandlerFunc(t.send))
	if err != nil {
		return nil, err
	}
	return out.(*http.Response), nil
}

func (t *sdkTransport) send(ctx context.Context, input any) (out any, metadata middleware.Metadata, err error) {
	resp, err := t.base.RoundTrip(input.(*smithyhttp.Request).Build(ctx))
	if err != nil {
		return nil, metadata, &smithyhttp.RequestSendError{Err: err}
	}
	if resp.StatusCode >= 400 {
		err = responseError(resp)
	}
	return resp, metadata, err
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
