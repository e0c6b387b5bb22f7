package otelretry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/otelretry"
	"example.com/awsretry/retrytest"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// quick keeps the examples short. A program does not need it.
var quick = awsretry.Exponential{Initial: time.Millisecond}

// Metrics for Prometheus, through OpenTelemetry's exporter.
func ExampleNewTransport_prometheus() {
	service := httptest.NewServer(retrytest.Statuses(503, 503, 200))
	defer service.Close()
	registry, err := meteredForPrometheus(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	metrics, err := registry.Gather() // promhttp.HandlerFor serves them
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range metrics {
		if m.GetName() == "awsretry_tokens" {
			fmt.Println(m.GetName(), m.Metric[0].Gauge.GetValue())
		}
	}
	// Output:
	// awsretry_tokens 495
}

func meteredForPrometheus(url string) (prometheus.Gatherer, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	meters := metric.NewMeterProvider(metric.WithReader(exporter))
	transport, err := otelretry.NewTransport(&awsretry.Transport{Backoff: quick}, meters)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport}

	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	return registry, resp.Body.Close()
}

// A span for each attempt, by otelhttp, with its count of resends.
func ExampleResendCount() {
	service := httptest.NewServer(retrytest.Statuses(503, 503, 200))
	defer service.Close()
	spans := tracetest.NewInMemoryExporter()
	defer otel.SetTracerProvider(otel.GetTracerProvider())
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans)))

	attempts := otelhttp.NewTransport(&otelretry.ResendCount{})
	client := &http.Client{Transport: &awsretry.Transport{Base: attempts, Backoff: quick}}
	resp, err := client.Get(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()

	for _, span := range spans.GetSpans() {
		fmt.Print(span.Name)
		for _, attr := range span.Attributes {
			if attr.Key == "http.response.status_code" || attr.Key == "http.request.resend_count" {
				fmt.Printf(" %s=%s", attr.Key, attr.Value.Emit())
			}
		}
		fmt.Println()
	}
	// Output:
	// HTTP GET http.response.status_code=503
	// HTTP GET http.request.resend_count=1 http.response.status_code=503
	// HTTP GET http.request.resend_count=2 http.response.status_code=200
}
