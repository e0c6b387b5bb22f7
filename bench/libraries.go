package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"example.com/awsretry"
)

// attempts is every library's limit, including the first attempt.
const attempts = 3

// A send sends the exchange's request.
type send func(*exchange) (*http.Response, error)

// A library puts its retries over base.
type library struct {
	name               string
	standard, adaptive func(base http.RoundTripper) send // adaptive may be nil
}

const bareName = "bare stub"

// libraries, after the stub, all make at most three attempts, without delay, jitter or log, and
// retry 503. A quota does not run dry: awsretry's gets the tokens of a retry
// back with its success.
var libraries = []library{
	{name: bareName, standard: through, adaptive: through},
	{name: "awsretry", standard: ours(awsretry.Standard), adaptive: ours(awsretry.Adaptive)},
	{name: "rehttp", standard: overRehttp},
	{name: "go-retryablehttp", standard: overRetryablehttp},
	{name: "failsafehttp", standard: overFailsafe},
	{name: "aws-sdk-go-v2", standard: overSDK(sdkStandard), adaptive: overSDK(sdkAdaptive)},
}

func through(rt http.RoundTripper) send {
	return func(x *exchange) (*http.Response, error) { return rt.RoundTrip(x.req) }
}

func ours(mode awsretry.Mode) func(http.RoundTripper) send {
	return func(base http.RoundTripper) send {
		return through(&awsretry.Transport{
			Base:        base,
			Mode:        mode,
			MaxAttempts: attempts,
			Backoff:     awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 }),
		})
	}
}

func overRehttp(base http.RoundTripper) send {
	return through(rehttp.NewTransport(base,
		rehttp.RetryAll(
			rehttp.RetryMaxRetries(attempts-1),
			rehttp.RetryAny(
				rehttp.RetryStatuses(http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
					http.StatusServiceUnavailable, http.StatusGatewayTimeout),
				rehttp.RetryTemporaryErr(),
			),
		),
		rehttp.ConstDelay(0),
	))
}

// overRetryablehttp sends through the library's RoundTripper, which goes below
// an http.Client like the others. It sends each attempt through another
// http.Client.
func overRetryablehttp(base http.RoundTripper) send {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: base}
	client.Logger = nil
	client.RetryMax = attempts - 1
	client.RetryWaitMin, client.RetryWaitMax = 0, 0
	client.Backoff = func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 }
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return through(&retryablehttp.RoundTripper{Client: client})
}

func overFailsafe(base http.RoundTripper) send {
	policy := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(attempts).WithDelay(0).Build()
	return through(failsafehttp.NewRoundTripper(base, policy))
}

// overSDK is the SDK's retry middleware with what must be below it: it makes an
// http.Request, and turns a failure into the error that the retryer inspects. A
// service client has a dozen middlewares more, so this is the least that the
// SDK adds.
func overSDK(newRetryer func() aws.Retryer) func(http.RoundTripper) send {
	return func(base http.RoundTripper) send {
		middle := retry.NewAttemptMiddleware(newRetryer(), smithyhttp.RequestCloner)
		next := middleware.FinalizeHandlerFunc(func(ctx context.Context, in middleware.FinalizeInput) (
			out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
		) {
			resp, err := base.RoundTrip(in.Request.(*smithyhttp.Request).Build(ctx))
			if err != nil {
				return out, metadata, &smithyhttp.RequestSendError{Err: err}
			}
			out.Result = resp
			if resp.StatusCode >= 400 {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				err = &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: errStatus}
			}
			return out, metadata, err
		})
		return func(x *exchange) (*http.Response, error) {
			out, _, err := middle.HandleFinalize(x.req.Context(), middleware.FinalizeInput{Request: x.smithy}, next)
			if err != nil {
				return nil, err
			}
			return out.Result.(*http.Response), nil
		}
	}
}

var errStatus = errors.New("bench: the service failed")

func sdkOptions(o *retry.StandardOptions) {
	o.MaxAttempts = attempts
	o.RateLimiter = ratelimit.None
	o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
}

func sdkStandard() aws.Retryer { return retry.NewStandard(sdkOptions) }

func sdkAdaptive() aws.Retryer {
	return retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
		o.StandardOptions = append(o.StandardOptions, sdkOptions)
	})
}
