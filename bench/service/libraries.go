package main

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"

	"example.com/awsretry"
)

// A library puts its retries over base. Each client has one of its own.
type library struct {
	name string
	over func(base http.RoundTripper) http.RoundTripper
	wall func(base http.RoundTripper) http.RoundTripper // for the wall clock; nil: not run on it
}

const (
	noRetriesName   = "no retries"
	naiveName       = "naive: 3 attempts, 100 ms apart"
	standardName    = "awsretry standard"
	adaptiveName    = "awsretry adaptive"
	sdkAdaptiveName = "aws-sdk-go-v2 adaptive"
)

// libraries have their defaults, or what their documentation shows.
var libraries = []library{
	{name: noRetriesName, over: func(base http.RoundTripper) http.RoundTripper { return base }},
	{name: naiveName, over: func(base http.RoundTripper) http.RoundTripper { return naive{base} }},
	{name: standardName, over: ours()},
	{name: "awsretry standard, Revision2026", over: ours(revision2026)},
	{name: adaptiveName, over: ours(adaptive), wall: ours(adaptive)},
	{name: sdkStandardName, over: sdk(sdkStandard, fast)},
	{name: sdkAdaptiveName, over: sdk(sdkAdaptive, slow), wall: sdk(sdkAdaptive, fast)},
	{name: "go-retryablehttp", over: overRetryablehttp},
	{name: "rehttp, ExpJitterDelay", over: overRehttp},
	{name: "failsafe-go retry", over: overFailsafe(func() []policy {
		return []policy{failsafeRetry().Build()}
	})},
	{name: "failsafe-go retry, budget", over: overFailsafe(func() []policy {
		return []policy{failsafeRetry().WithBudget(budget.New()).Build()}
	})},
	{name: "failsafe-go retry, circuit breaker", over: overFailsafe(func() []policy {
		return []policy{failsafeRetry().Build(), failsafeBreaker()}
	})},
	{name: "failsafe-go retry, tuned breaker", over: overFailsafe(func() []policy {
		return []policy{failsafeRetry().AbortOnErrors(circuitbreaker.ErrOpen).Build(), tunedBreaker()}
	})},
}

const scaledName = "awsretry adaptive, ScaledPacing"

var scaledPacing = library{name: scaledName, over: ours(adaptive, scaled)}

// pacers are compared in finding the rate of a service.
var pacers = slices.Concat(named(adaptiveName), []library{scaledPacing}, named(sdkAdaptiveName, "rehttp, ExpJitterDelay"))

func named(names ...string) []library {
	return slices.DeleteFunc(slices.Clone(libraries), func(lib library) bool { return !slices.Contains(names, lib.name) })
}

const longPollName = "awsretry standard, LongPoll"

// inLoops returns what the closed loops compare: the libraries, and what makes
// their callers wait.
func inLoops() []library {
	return append(slices.Clone(libraries),
		library{name: longPollName, over: ours(longPoll)},
		library{name: "awsretry standard, Revision2026, LongPoll", over: ours(revision2026, longPoll)},
		library{name: "awsretry adaptive, LongPoll", over: ours(adaptive, longPoll)},
		library{name: "awsretry standard, no bucket", over: ours(noBucket)},
		library{name: "aws-sdk-go-v2 standard, ratelimit.None", over: sdk(sdkWithoutQuota, fast)},
	)
}

// A naive RoundTripper retries every failure after a fixed delay.
type naive struct{ base http.RoundTripper }

func (n naive) RoundTrip(req *http.Request) (*http.Response, error) {
	const attempts, delay = 3, 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		resp, err := n.base.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusOK || attempt == attempts || req.Context().Err() != nil {
			return resp, err
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		time.Sleep(delay)
	}
}

// ours is a Transport with these options.
func ours(options ...func(*awsretry.Transport)) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		t := &awsretry.Transport{Base: base}
		for _, set := range options {
			set(t)
		}
		return t
	}
}

func revision2026(t *awsretry.Transport) { t.Revision = awsretry.Revision2026 }
func adaptive(t *awsretry.Transport)     { t.Mode = awsretry.Adaptive }
func scaled(t *awsretry.Transport)       { t.RateLimit.Pacing = awsretry.ScaledPacing }
func longPoll(t *awsretry.Transport)     { t.LongPoll = func(*http.Request) bool { return true } }
func share(t *awsretry.Transport)        { t.Quota.Share = 0.2 }
func noBucket(t *awsretry.Transport)     { t.Quota.Capacity = -1 }

func overRetryablehttp(base http.RoundTripper) http.RoundTripper {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: base}
	client.Logger = nil
	return &retryablehttp.RoundTripper{Client: client}
}

// overRehttp retries the same failures as go-retryablehttp and failsafehttp.
// rehttp has no list of its own.
func overRehttp(base http.RoundTripper) http.RoundTripper {
	return rehttp.NewTransport(base,
		rehttp.RetryAll(
			rehttp.RetryMaxRetries(3),
			rehttp.RetryAny(
				rehttp.RetryStatuses(http.StatusTooManyRequests, http.StatusServiceUnavailable),
				rehttp.RetryTemporaryErr(),
			),
		),
		rehttp.ExpJitterDelay(time.Second, 30*time.Second),
	)
}

type policy = failsafe.Policy[*http.Response]

func overFailsafe(policies func() []policy) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, policies()...)
	}
}

// failsafeRetry is the policy in failsafe-go's documentation of HTTP.
func failsafeRetry() retrypolicy.Builder[*http.Response] {
	return failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 30*time.Second).WithMaxRetries(3)
}

// failsafeBreaker is the first one in failsafe-go's documentation of circuit
// breakers.
func failsafeBreaker() policy {
	return breaker().WithFailureThreshold(5).WithDelay(time.Minute).WithSuccessThreshold(2).Build()
}

// tunedBreaker fits the storms here. It does not open because of a few
// throttled requests, and tries again soon.
func tunedBreaker() policy {
	return breaker().
		WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(5 * time.Second).WithSuccessThreshold(5).Build()
}

// breaker counts the same failures as the retry policy.
func breaker() circuitbreaker.Builder[*http.Response] {
	return circuitbreaker.NewBuilder[*http.Response]().HandleIf(func(resp *http.Response, err error) bool {
		return err != nil || resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500)
	})
}
