package otelretry_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/otelretry"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestResendCount(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	below := &otelretry.ResendCount{Base: httpfake.Statuses(503, 503, 200)}
	tr := &awsretry.Transport{
		Base:    otelhttp.NewTransport(below, otelhttp.WithTracerProvider(provider)),
		Backoff: awsretry.Exponential{Initial: 1},
	}

	ctx, call := provider.Tracer("test").Start(t.Context(), "call")
	get(t, ctx, tr)
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
		t.Errorf("the attempts have resend_count %v, want %v; -1 is none", got, want)
	}
}

func TestResendCountBase(t *testing.T) {
	t.Run("nil is http.DefaultTransport", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		resp, err := send(&otelretry.ResendCount{}, request(t, t.Context(), "GET", server.URL))
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%v, %v", resp, err)
		}
	})
	t.Run("CloseIdleConnections", func(t *testing.T) {
		base := new(idler)
		(&otelretry.ResendCount{Base: base}).CloseIdleConnections()
		(&otelretry.ResendCount{Base: httpfake.Statuses(200)}).CloseIdleConnections()
		if base.closed != 1 {
			t.Errorf("it reached Base %d times, want 1", base.closed)
		}
	})
	t.Run("a Transport is visible", func(t *testing.T) {
		nested := &awsretry.Transport{Base: &otelretry.ResendCount{Base: &awsretry.Transport{}}}
		if nested.Validate() == nil {
			t.Error("a Transport that sends through another is valid")
		}
	})
}

// An idler is a Base that counts the calls of CloseIdleConnections.
type idler struct {
	httpfake.Base
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }
