package otelretry_test

import (
	"fmt"
	"io"
	"net"
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

// quick makes the examples short; a program has no need of it.
var quick = awsretry.Exponential{Initial: time.Millisecond}

// busyOnce starts a service on loopback that answers its first request with 503.
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
	page, _ := io.ReadAll(resp.Body)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(service.URL, "http://"))
	for line := range strings.Lines(strings.ReplaceAll(string(page), port, "PORT")) {
		if strings.HasPrefix(line, "awsretry_tokens") || strings.HasPrefix(line, "client_call_attempts_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// awsretry_tokens{awsretry_partition="127.0.0.1:PORT"} 500
	// client_call_attempts_total{awsretry_class="success",awsretry_partition="127.0.0.1:PORT",awsretry_retry="true",http_request_method="GET",http_response_status_code="200",server_address="127.0.0.1",server_port="PORT"} 1
	// client_call_attempts_total{awsretry_class="transient",awsretry_partition="127.0.0.1:PORT",awsretry_retry="false",error_type="503",http_request_method="GET",http_response_status_code="503",server_address="127.0.0.1",server_port="PORT"} 1
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
