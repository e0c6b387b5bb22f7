package otelretry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/otelretry"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// instrumented makes tr record metrics for the reader.
func instrumented(
	t testing.TB, tr *awsretry.Transport, attrs ...attribute.KeyValue,
) (*otelretry.Transport, *metric.ManualReader) {
	t.Helper()
	if tr.Backoff == nil {
		tr.Backoff = second
	}
	reader := metric.NewManualReader()
	rt, err := otelretry.NewTransport(tr, metric.NewMeterProvider(metric.WithReader(reader)), attrs...)
	if err != nil {
		t.Fatal(err)
	}
	return rt, reader
}

// wantMetrics fails unless the reader sees these data points. It compares
// the metrics whose name begins with one of the prefixes.
func wantMetrics(t testing.TB, reader *metric.ManualReader, want []string, prefixes ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, collected(t, reader, prefixes...)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// collected returns the data points that the reader sees, each as a line: the
// name, the unit, the attributes and the value.
func collected(t testing.TB, reader *metric.ManualReader, prefixes ...string) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range all.ScopeMetrics {
		scope := s.Scope
		if scope.Name != "example.com/awsretry/otelretry" ||
			!strings.HasPrefix(scope.SchemaURL, "https://opentelemetry.io/schemas/1.") {
			t.Errorf("the scope is %+v", scope)
		}
		for _, m := range s.Metrics {
			if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(m.Name, p) }) {
				continue
			}
			for attrs, value := range points(t, m) {
				lines = append(lines, fmt.Sprintf("%s[%s] %s = %s", m.Name, m.Unit, attrs, value))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// points returns the values of a metric by their attributes.
func points(t testing.TB, m metricdata.Metrics) map[string]string {
	t.Helper()
	points := make(map[string]string)
	add := func(set attribute.Set, value string) {
		points[set.Encoded(attribute.DefaultEncoder())] = value
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if !data.IsMonotonic {
			t.Errorf("%s is not a counter", m.Name)
		}
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprint(p.Value))
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprint(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprintf("%.4g", p.Value))
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, fmt.Sprintf("%d of %.4g", p.Count, p.Sum))
		}
	default:
		t.Errorf("%s is a %T", m.Name, m.Data)
	}
	if len(points) == 0 {
		t.Errorf("%s has no data point", m.Name)
	}
	return points
}

// server is the attributes of the server of httpfake.Request.
const server = "server.address=service.example,server.port=80"

// recorded is what attempts with the same attributes are recorded as.
type recorded struct {
	class     string
	retry     bool
	method    string // "": PUT
	status    int    // 0: no response
	errorType string // "": the status
	times     int    // 0: 1
}

// attributes returns the attributes as a line has them.
func (r recorded) attributes() string {
	attrs := []string{
		"awsretry.class=" + r.class, "awsretry.partition=service.example", fmt.Sprint("awsretry.retry=", r.retry),
	}
	errorType, method := r.errorType, r.method
	if errorType == "" {
		errorType = fmt.Sprint(r.status)
	}
	if method == "" {
		method = "PUT"
	}
	if r.class != "success" {
		attrs = append(attrs, "error.type="+errorType)
	}
	attrs = append(attrs, "http.request.method="+method)
	if r.status != 0 {
		attrs = append(attrs, fmt.Sprint("http.response.status_code=", r.status))
	}
	return strings.Join(attrs, ",") + "," + server
}

// attempt returns the line of the counter of attempts.
func (r recorded) attempt() string {
	return fmt.Sprintf("client.call.attempts[{attempt}] %s = %d", r.attributes(), max(r.times, 1))
}

// failure returns the line of the counter of failed attempts.
func (r recorded) failure() string {
	return fmt.Sprintf("client.call.errors[{error}] %s = %d", r.attributes(), max(r.times, 1))
}

// all returns the lines of all metrics of attempts by a slow Base.
func (r recorded) all() []string {
	n := max(r.times, 1)
	lines := []string{
		fmt.Sprintf("client.call.attempt_duration[s] %s = %d of %.4g", r.attributes(), n, float64(n)*took.Seconds()),
		r.attempt(),
	}
	if r.class != "success" {
		lines = append(lines, r.failure())
	}
	return lines
}

// refusal returns the line of one refusal.
func refusal(stop, method string) string { return refusals(stop, method, 1) }

func refusals(stop, method string, n int) string {
	return fmt.Sprintf("awsretry.refusals[{refusal}] awsretry.stop=%s,http.request.method=%s,%s = %d",
		stop, method, server, n)
}
