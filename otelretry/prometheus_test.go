package otelretry_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/otelretry"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// Every metric can be scraped, even if the name of a host or a partition has
// invalid bytes.
func TestScrape(t *testing.T) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := otelretry.NewTransport(
		&awsretry.Transport{Base: httpfake.Statuses(429), Mode: awsretry.Adaptive, MaxAttempts: 1},
		metric.NewMeterProvider(metric.WithReader(exporter)))
	if err != nil {
		t.Fatal(err)
	}
	get(t, awsretry.WithPartition(t.Context(), "table \xff"), rt)
	send(rt, request(t, t.Context(), "GET", "http://%ff.example/"))

	metrics := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(metrics, httptest.NewRequest("GET", "/metrics", nil))
	page := metrics.Body.String()
	if metrics.Code != http.StatusOK {
		t.Fatalf("status %d\n%s", metrics.Code, page)
	}
	var got []string
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok && !strings.HasPrefix(rest, "target_info") {
			got = append(got, strings.TrimSpace(rest))
		}
	}
	slices.Sort(got)
	want := []string{
		"awsretry_expected_wait_seconds gauge",
		"awsretry_measured_rate_per_second gauge",
		"awsretry_refusals_total counter",
		"awsretry_send_rate_per_second gauge",
		"awsretry_tokens gauge",
		"awsretry_waiting gauge",
		"client_call_attempt_duration_seconds histogram",
		"client_call_attempts_total counter",
		"client_call_errors_total counter",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for _, want := range []string{"awsretry_partition=\"table \uFFFD\"", "server_address=\"\uFFFD.example\""} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
}
