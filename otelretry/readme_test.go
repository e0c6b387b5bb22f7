package otelretry_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/otelretry"
	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// Every block of Go in the README is in an example, or in a test of interop with
// the AWS SDK. Only the examples set quick.
func TestReadmeCodeIsInTheExamples(t *testing.T) {
	examples := strings.ReplaceAll(words(t, "example_test.go")+words(t, "../interop/clients/otel_test.go"), ", Backoff: quick", "")
	examples = strings.ReplaceAll(examples, "Backoff: quick", "")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 4 {
		t.Errorf("the README has %d blocks of Go, want 4", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(examples, strings.Join(strings.Fields(block[1]), " ")) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
}

// words returns a file with one space between its words.
func words(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// The README's table has every instrument and its unit, and each can be
// scraped, even if the name of a host or a partition has invalid bytes.
func TestReadmeTable(t *testing.T) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	reader := metric.NewManualReader()
	meters := metric.NewMeterProvider(metric.WithReader(exporter), metric.WithReader(reader))
	shared := new(store)
	rt, err := otelretry.NewTransport(&awsretry.Transport{
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, 429, http.NoBody, "RateLimit-Limit", "9", "RateLimit-Remaining", "5"), nil
		}),
		Mode: awsretry.Adaptive, MaxAttempts: 2, Shared: shared, ShareRetryAfter: true, Backoff: second,
		RateLimit: awsretry.RateLimitConfig{Limits: awsretry.ReadLimits},
	}, meters)
	if err != nil {
		t.Fatal(err)
	}
	get(t, awsretry.WithPartition(t.Context(), "table \xff"), rt)
	shared.share.Grant(pacer.Grant{Until: time.Now().Add(time.Hour), Limited: true, Rate: 2, FleetRate: 12, Members: 5})
	send(rt, request(t, t.Context(), "GET", "http://%ff.example/"))
	recorder, err := otelretry.NewRecorder(meters)
	if err != nil {
		t.Fatal(err)
	}
	recorder.RecordRenewal("", time.Millisecond, nil)
	rows := regexp.MustCompile("\\| `([^`]+)` \\| (counter|histogram|gauge) \\| `([^`]+)` \\|").
		FindAllStringSubmatch(words(t, "README.md"), -1)
	metrics := collected(t, reader, "")
	for _, row := range rows {
		if !slices.ContainsFunc(metrics, func(m string) bool { return strings.HasPrefix(m, row[1]+"["+row[3]+"] ") }) {
			t.Errorf("there is no %s with the unit %s", row[1], row[3])
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != len(rows) || len(rows) != 22 {
		t.Errorf("%d metrics can be scraped (%v); the README has %d", len(families), err, len(rows))
	}
	page := fmt.Sprint(families)
	for _, want := range []string{"table \uFFFD", "\uFFFD.example", "awsretry_measured_rate_per_second"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
