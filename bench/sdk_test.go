package main

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/awssdk"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// sdkRetryers configure a client of the AWS SDK. They retry without delay, and
// no quota runs dry.
var sdkRetryers = []struct {
	name      string
	configure func(*aws.Config)
}{
	{"SDK standard", func(cfg *aws.Config) { cfg.Retryer = sdkStandard }},
	{"SDK adaptive", func(cfg *aws.Config) { cfg.Retryer = sdkAdaptive }},
	{"awssdk standard", plainAwssdk(awsretry.Standard)},
	{"awssdk adaptive", plainAwssdk(awsretry.Adaptive)},
	{"awssdk standard, Apply", func(cfg *aws.Config) { newAwssdk(awsretry.Standard).Apply(cfg) }},
	{"awssdk adaptive, Apply", func(cfg *aws.Config) { newAwssdk(awsretry.Adaptive).Apply(cfg) }},
}

func plainAwssdk(mode awsretry.Mode) func(*aws.Config) {
	return func(cfg *aws.Config) {
		r := newAwssdk(mode)
		cfg.Retryer = func() aws.Retryer { return r }
	}
}

func newAwssdk(mode awsretry.Mode) *awssdk.Retryer {
	r, err := awssdk.NewRetryer(awssdk.Config{
		Mode: mode, MaxAttempts: attempts,
		Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 }),
	})
	if err != nil {
		panic(err) // the settings are constants
	}
	return r
}

// An sdkClient makes calls as a client of the SDK does: through a middleware
// stack of its own for each call. The stack has the retry loop alone.
type sdkClient struct {
	attempts *retry.Attempt
	options  []func(*middleware.Stack) error
	base     http.RoundTripper
}

func newSDKClient(configure func(*aws.Config), base http.RoundTripper) *sdkClient {
	var cfg aws.Config
	configure(&cfg)
	loop := retry.NewAttemptMiddleware(cfg.Retryer(), smithyhttp.RequestCloner)
	return &sdkClient{loop, cfg.APIOptions, base}
}

func (c *sdkClient) call(ctx context.Context, x *exchange) (*http.Response, error) {
	stack := middleware.NewStack("GetItem", smithyhttp.NewStackRequest)
	if err := stack.Finalize.Add(c.attempts, middleware.After); err != nil {
		return nil, err
	}
	for _, option := range c.options {
		if err := option(stack); err != nil {
			return nil, err
		}
	}
	ctx = awsmiddleware.SetServiceID(ctx, "DynamoDB")
	ctx = awsmiddleware.SetOperationName(ctx, "GetItem")
	ctx = awsmiddleware.SetRegion(ctx, "us-east-1")
	out, _, err := stack.Finalize.HandleMiddleware(ctx, x.smithy, middleware.HandlerFunc(c.send))
	if err != nil {
		return nil, err
	}
	return out.(*http.Response), nil
}

func (c *sdkClient) send(ctx context.Context, input any) (out any, metadata middleware.Metadata, err error) {
	resp, err := c.base.RoundTrip(input.(*smithyhttp.Request).Build(ctx))
	if err != nil {
		return nil, metadata, &smithyhttp.RequestSendError{Err: err}
	}
	if resp.StatusCode >= 400 {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		err = &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: errStatus}
	}
	return resp, metadata, err
}

// sdkCases are the calls of sdkRetryers.
var sdkCases = []benchCase{
	{name: "success", method: http.MethodPost, payload: kib, statuses: success},
	{name: "one retry", method: http.MethodPost, payload: kib, statuses: oneRetry},
}

// BenchmarkSDKRetryers prints what benchstat compares:
//
//	go test -bench SDKRetryers -count 10 | benchstat -col /retryer -
func BenchmarkSDKRetryers(b *testing.B) {
	for _, c := range sdkCases {
		b.Run("call="+c.name, func(b *testing.B) {
			for _, r := range sdkRetryers {
				b.Run("retryer="+r.name, func(b *testing.B) {
					b.ReportAllocs()
					s, err := newStub(c, 1)
					if err != nil {
						b.Fatal(err)
					}
					client, x := newSDKClient(r.configure, s), &s.exchanges[0]
					for b.Loop() {
						x.rewind()
						resp, err := client.call(b.Context(), x)
						if err != nil {
							b.Fatal(err)
						}
						resp.Body.Close()
					}
				})
			}
		})
	}
}

// Each retryer makes the attempts of the call, and no more.
func TestEverySDKRetryerDoesTheSame(t *testing.T) {
	for _, c := range sdkCases {
		for _, r := range sdkRetryers {
			t.Run(c.name+"/"+r.name, func(t *testing.T) {
				testAttempts(t, c, func(s *stub) send {
					client := newSDKClient(r.configure, s)
					return func(x *exchange) (*http.Response, error) { return client.call(t.Context(), x) }
				})
			})
		}
	}
}
