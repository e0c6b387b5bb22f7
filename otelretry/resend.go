package otelretry

import (
	"net/http"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// A ResendCount sets http.request.resend_count, an attribute of the OpenTelemetry
// semantic conventions for HTTP, on the span of every retry. It is 1 for the
// second attempt. Use a ResendCount below the RoundTripper that starts a span for
// each attempt, and that RoundTripper below the awsretry.Transport:
//
//	&awsretry.Transport{Base: otelhttp.NewTransport(&otelretry.ResendCount{})}
//
// Without a span for each attempt, the caller's span gets the count. The count
// starts again with each redirect, which http.Client follows above the Transport,
// although the conventions count redirects too.
//
// The zero value is ready to use.
type ResendCount struct {
	Base http.RoundTripper // sends the attempt; nil means http.DefaultTransport
}

// RoundTrip implements http.RoundTripper.
func (r *ResendCount) RoundTrip(req *http.Request) (*http.Response, error) {
	if n := awsretry.AttemptNumber(req.Context()); n > 1 {
		trace.SpanFromContext(req.Context()).SetAttributes(semconv.HTTPRequestResendCount(n - 1))
	}
	return r.base().RoundTrip(req)
}

// CloseIdleConnections calls Base's CloseIdleConnections method, if it has one.
func (r *ResendCount) CloseIdleConnections() {
	if base, ok := r.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Retries reports whether Base retries. The packages of this repository call it,
// so that retries are not retried.
func (r *ResendCount) Retries(retrier.Seal) bool { return retrier.Retries(r.Base) }

func (r *ResendCount) base() http.RoundTripper {
	if r.Base != nil {
		return r.Base
	}
	return http.DefaultTransport
}
