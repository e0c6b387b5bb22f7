package otelretry_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/otelretry"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// quick keeps the examples short. A program does not need it.
var quick = awsretry.Exponential{Initial: time.Millisecond}

// busyOnce starts a service on loopback that responds to its first request with
// 503.
func busyOnce() *httptest.Server {
	var n atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	}))
}

// Metrics for Prometheus, through OpenTelemetry's exporter.
func ExampleNewTransport_prometheus() {
	service := busyOnce()
	defer service.Close()
	metrics, err := meteredForPrometheus(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(metrics)
	defer server.Close()

	resp, err := http.Get(server.URL + "/metrics")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		_, value, _ := strings.Cut(rest, "} ")
		if name == "awsretry_tokens" || name == "client_call_errors_total" {
			fmt.Println(name, value)
		}
	}
	// Output:
	// awsretry_tokens 500
	// client_call_errors_total 1
}

func meteredForPrometheus(url string) (http.Handler, error) {
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
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	return metrics, resp.Body.Close()
}

// A span for each attempt, by otelhttp, with its count of resends.
func ExampleResendCount() {
	service := busyOnce()
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
	// HTTP GET http.request.resend_count=1 http.response.status_code=200
}
