// Package peers wraps a RoundTripper in libraries that retry, for tests that
// compare them.
package peers

import (
	"net/http"

	"example.com/awsretry"
	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
)

type (
	// A Wrap puts a library around a RoundTripper.
	Wrap func(http.RoundTripper) http.RoundTripper

	// A Policy is one of failsafe-go.
	Policy = failsafe.Policy[*http.Response]

	// A RetryBuilder makes a retry policy of failsafe-go.
	RetryBuilder = retrypolicy.Builder[*http.Response]
)

// Awsretry wraps with a Transport that has some settings.
func Awsretry(set ...func(*awsretry.Transport)) Wrap {
	return func(base http.RoundTripper) http.RoundTripper {
		tr := &awsretry.Transport{Base: base}
		for _, s := range set {
			s(tr)
		}
		return tr
	}
}

// Retryablehttp wraps with the RoundTripper of go-retryablehttp.
func Retryablehttp(set ...func(*retryablehttp.Client)) Wrap {
	return func(base http.RoundTripper) http.RoundTripper {
		client := retryablehttp.NewClient()
		client.HTTPClient = &http.Client{Transport: base}
		client.Logger = nil
		for _, s := range set {
			s(client)
		}
		return &retryablehttp.RoundTripper{Client: client}
	}
}

// Rehttp wraps with the Transport of rehttp, which retries so often at most.
func Rehttp(most int, retry rehttp.RetryFn, delay rehttp.DelayFn, set ...func(*rehttp.Transport)) Wrap {
	return func(base http.RoundTripper) http.RoundTripper {
		tr := rehttp.NewTransport(base, rehttp.RetryAll(rehttp.RetryMaxRetries(most), retry), delay)
		for _, s := range set {
			s(tr)
		}
		return tr
	}
}

// Failsafe wraps with the RoundTripper of failsafe-go and its retry policy for
// HTTP.
func Failsafe(set ...func(RetryBuilder)) Wrap {
	return func(base http.RoundTripper) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, FailsafeRetry(set...))
	}
}

// FailsafeRetry returns that policy.
func FailsafeRetry(set ...func(RetryBuilder)) Policy {
	builder := failsafehttp.NewRetryPolicyBuilder()
	for _, s := range set {
		s(builder)
	}
	return builder.Build()
}
