package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"

	"example.com/awsretry"
)

// A call sends one request through a library, reads the answer, and reports whether it was a success.
type call func() bool

// A library puts its retries over base. Each client has one of its own.
type library struct {
	name   string
	client func(base http.RoundTripper) call
	wall   func(base http.RoundTripper) call // for the wall clock; nil: not run on it
}

const (
	noRetriesName   = "no retries"
	naiveName       = "naive: 3 attempts, 100 ms apart"
	adaptiveName    = "awsretry adaptive"
	sdkAdaptiveName = "aws-sdk-go-v2 adaptive"
)

// libraries have their defaults, or what their documentation shows.
var libraries = []library{
	{name: noRetriesName, client: through},
	{name: naiveName, client: naive},
	{name: "awsretry standard", client: ours(awsretry.Standard, awsretry.Classic)},
	{name: "awsretry standard, Revision2026", client: ours(awsretry.Standard, awsretry.Revision2026)},
	{
		name:   adaptiveName,
		client: ours(awsretry.Adaptive, awsretry.Classic),
		wall:   ours(awsretry.Adaptive, awsretry.Classic),
	},
	{name: "aws-sdk-go-v2 standard", client: sdk(context.Background(), sdkStandard)},
	{
		name:   sdkAdaptiveName,
		client: sdk(slowContext{context.Background()}, sdkAdaptive),
		wall:   sdk(context.Background(), sdkAdaptive),
	},
	{name: "go-retryablehttp", client: retryable},
	{name: "rehttp, ExpJitterDelay", client: expJitter},
	{name: "failsafe-go retry", client: overFailsafe(func() []policy {
		return []policy{failsafeRetry().Build()}
	})},
	{name: "failsafe-go retry, budget", client: overFailsafe(func() []policy {
		return []policy{failsafeRetry().WithBudget(budget.New()).Build()}
	})},
	{name: "failsafe-go retry, circuit breaker", client: overFailsafe(func() []policy {
		return []policy{failsafeRetry().Build(), failsafeBreaker()}
	})},
	{name: "failsafe-go retry, tuned breaker", client: overFailsafe(func() []policy {
		return []policy{failsafeRetry().AbortOnErrors(circuitbreaker.ErrOpen).Build(), tunedBreaker()}
	})},
}

var target = &url.URL{Scheme: "http", Host: "service.example", Path: "/"}

func newRequest() *http.Request {
	return (&http.Request{
		Method: http.MethodGet, URL: target, Host: target.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(context.Background())
}

func through(rt http.RoundTripper) call {
	return func() bool { return finish(rt.RoundTrip(newRequest())) == http.StatusOK }
}

// finish returns the status, 0 where there is no response.
func finish(resp *http.Response, err error) int {
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

func naive(base http.RoundTripper) call {
	const attempts, pause = 3, 100 * time.Millisecond
	return func() bool {
		for attempt := 1; ; attempt++ {
			status := finish(base.RoundTrip(newRequest()))
			if status == http.StatusOK || attempt == attempts {
				return status == http.StatusOK
			}
			time.Sleep(pause)
		}
	}
}

func ours(mode awsretry.Mode, revision awsretry.Revision) func(http.RoundTripper) call {
	return func(base http.RoundTripper) call {
		return through(&awsretry.Transport{Base: base, Mode: mode, Revision: revision})
	}
}

func retryable(base http.RoundTripper) call {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: base}
	client.Logger = nil
	return through(&retryablehttp.RoundTripper{Client: client})
}

// expJitter retries what go-retryablehttp and failsafehttp do: rehttp has no list of its own.
func expJitter(base http.RoundTripper) call {
	return through(rehttp.NewTransport(base,
		rehttp.RetryAll(
			rehttp.RetryMaxRetries(3),
			rehttp.RetryAny(
				rehttp.RetryStatuses(http.StatusTooManyRequests, http.StatusServiceUnavailable),
				rehttp.RetryTemporaryErr(),
			),
		),
		rehttp.ExpJitterDelay(time.Second, 30*time.Second),
	))
}

type policy = failsafe.Policy[*http.Response]

func overFailsafe(policies func() []policy) func(http.RoundTripper) call {
	return func(base http.RoundTripper) call {
		return through(failsafehttp.NewRoundTripper(base, policies()...))
	}
}

// failsafeRetry is the policy that failsafe-go's documentation of HTTP shows.
func failsafeRetry() retrypolicy.Builder[*http.Response] {
	return failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3)
}

// failsafeBreaker is the one with which failsafe-go's documentation of circuit breakers begins.
func failsafeBreaker() policy {
	return breaker().WithFailureThreshold(5).WithDelay(time.Minute).WithSuccessThreshold(2).Build()
}

// tunedBreaker is one for the storms here. It does not open because of the few that a service throttles, and tries again
// soon.
func tunedBreaker() policy {
	return breaker().WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(5 * time.Second).WithSuccessThreshold(5).Build()
}

// breaker counts as failures what the retry policy does.
func breaker() circuitbreaker.Builder[*http.Response] {
	return circuitbreaker.NewBuilder[*http.Response]().HandleIf(func(resp *http.Response, err error) bool {
		return err != nil || resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500)
	})
}

func sdkStandard() aws.Retryer { return retry.NewStandard() }
func sdkAdaptive() aws.Retryer { return retry.NewAdaptiveMode() }

// A slowContext takes a microsecond to be asked for its end, as every pause of the SDK's does. Its rate limiter needs that in virtual
// time, which goes on only when nobody runs: there a waiter who has to wait for less than a nanosecond asks for a pause of 0, is woken at
// the same instant, and so on for ever.
type slowContext struct{ context.Context }

func (c slowContext) Done() <-chan struct{} {
	time.Sleep(time.Microsecond)
	return c.Context.Done()
}

// sdk is the SDK's retry middleware, with what a service client has below it: the making of an http.Request and the turning of a failure
// into the error that the retryer looks at.
func sdk(ctx context.Context, newRetryer func() aws.Retryer) func(http.RoundTripper) call {
	return func(base http.RoundTripper) call {
		attempts := retry.NewAttemptMiddleware(newRetryer(), smithyhttp.RequestCloner)
		next := middleware.FinalizeHandlerFunc(func(ctx context.Context, in middleware.FinalizeInput) (
			out middleware.FinalizeOutput, metadata middleware.Metadata, err error,
		) {
			resp, err := base.RoundTrip(in.Request.(*smithyhttp.Request).Build(ctx))
			if err != nil {
				return out, metadata, &smithyhttp.RequestSendError{Err: err}
			}
			out.Result = resp
			if resp.StatusCode >= 400 {
				err = responseError(resp)
			}
			return out, metadata, err
		})
		return func() bool {
			req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
			req.Method, req.URL, req.Host = http.MethodGet, target, target.Host
			out, _, err := attempts.HandleFinalize(ctx, middleware.FinalizeInput{Request: req}, next)
			if err != nil {
				return false
			}
			return finish(out.Result.(*http.Response), nil) == http.StatusOK
		}
	}
}

// responseError reads the error code as the SDK's clients of the AWS JSON protocols do.
func responseError(resp *http.Response) error {
	defer resp.Body.Close()
	var body struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	err := error(&smithy.GenericAPIError{Code: "UnknownError"})
	if failure := json.NewDecoder(resp.Body).Decode(&body); failure != nil {
		err = failure
	} else if body.Type != "" {
		err = &smithy.GenericAPIError{Code: body.Type[strings.IndexByte(body.Type, '#')+1:], Message: body.Message}
	}
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err}
}
