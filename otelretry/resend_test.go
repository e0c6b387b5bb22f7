package otelretry_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/otelretry"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestResendCount(t *testing.T) {
	failures := 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failures > 0 {
			failures--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	below := &otelretry.ResendCount{Base: server.Client().Transport}
	tr := &awsretry.Transport{
		Base:    otelhttp.NewTransport(below, otelhttp.WithTracerProvider(provider)),
		Backoff: awsretry.Exponential{Initial: 1},
	}

	ctx, call := provider.Tracer("test").Start(t.Context(), "call")
	resp, err := tr.RoundTrip(request(t, ctx, "GET", server.URL))
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	call.End()

	var got []int64
	for _, span := range spans.GetSpans() {
		resends := int64(-1) // not set
		for _, attr := range span.Attributes {
			if attr.Key == "http.request.resend_count" {
				resends = attr.Value.AsInt64()
			}
		}
		if span.Name == "call" {
			if resends != -1 {
				t.Errorf("the caller's span has resend_count %d", resends)
			}
			continue
		}
		got = append(got, resends)
	}
	if want := []int64{-1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("resend_count by attempt: %v, want %v, where -1 is none", got, want)
	}
}

func TestResendCountBase(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	resp, err := send(&otelretry.ResendCount{}, request(t, context.Background(), "GET", server.URL))
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("without Base: %v, %v", resp, err)
	}
	closed := &closes{}
	(&http.Client{Transport: &otelretry.ResendCount{Base: closed}}).CloseIdleConnections()
	(&http.Client{Transport: &otelretry.ResendCount{Base: plain(200)}}).CloseIdleConnections()
	if closed.n != 1 {
		t.Errorf("Base's idle connections were closed %d times", closed.n)
	}
	nested := &awsretry.Transport{Base: &otelretry.ResendCount{Base: &awsretry.Transport{}}}
	if nested.Validate() == nil {
		t.Error("it hides that a Transport sends through another")
	}
}
