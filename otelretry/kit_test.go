package otelretry_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/otelretry"
	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// took is how long each attempt of a slow Base takes.
const took = 100 * time.Millisecond

func slow(base httpfake.Base) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(took)
		return base(req)
	}
}

func failsWith(err error) httpfake.Base {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// second is a Backoff with delays of one second.
var second = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return time.Second })

// get sends a GET to service.example and closes the response.
func get(t testing.TB, ctx context.Context, rt http.RoundTripper) {
	t.Helper()
	send(rt, httpfake.Request(t, ctx, "GET", nil))
}

func request(t testing.TB, ctx context.Context, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send sends a request and closes the response.
func send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

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
	if diff := gocmp.Diff(want, collected(t, reader, prefixes...)); diff != "" {
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
		if s.Scope.Name != "example.com/awsretry/otelretry" ||
			!strings.HasPrefix(s.Scope.SchemaURL, "https://opentelemetry.io/schemas/1.") {
			t.Errorf("the scope is %+v", s.Scope)
		}
		for _, m := range s.Metrics {
			if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(m.Name, p) }) {
				continue
			}
			add := func(set attribute.Set, value string) {
				attrs := set.Encoded(attribute.DefaultEncoder())
				lines = append(lines, fmt.Sprintf("%s[%s] %s = %s", m.Name, m.Unit, attrs, value))
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
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, fmt.Sprintf("%d of %d", p.Count, p.Sum))
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// server is the attributes of the server of httpfake.Request.
const server = "server.address=service.example,server.port=80"

// recorded is what attempts with the same attributes are recorded as.
type recorded struct {
	class     string
	retry     bool
	status    int    // 0 means no response
	errorType string // "" means the status
	times     int    // 0 means 1
}

// lines returns the lines of all metrics of attempts by a slow Base.
func (r recorded) lines(method string) []string {
	attrs := "awsretry.class=" + r.class + ",awsretry.partition=service.example,awsretry.retry=" + fmt.Sprint(r.retry)
	if r.class != "success" {
		attrs += ",error.type=" + cmp.Or(r.errorType, fmt.Sprint(r.status))
	}
	attrs += ",http.request.method=" + method
	if r.status != 0 {
		attrs += fmt.Sprint(",http.response.status_code=", r.status)
	}
	attrs += "," + server
	n := max(r.times, 1)
	lines := []string{
		fmt.Sprintf("client.call.attempt_duration[s] %s = %d of %.4g", attrs, n, float64(n)*took.Seconds()),
		fmt.Sprintf("client.call.attempts[{attempt}] %s = %d", attrs, n),
	}
	if r.class != "success" {
		lines = append(lines, fmt.Sprintf("client.call.errors[{error}] %s = %d", attrs, n))
	}
	return lines
}

// refusals returns the line of n refusals.
func refusals(stop, method string, n int) string {
	return fmt.Sprintf("awsretry.refusals[{refusal}] awsretry.partition=service.example,awsretry.stop=%s,"+
		"http.request.method=%s,%s = %d", stop, method, server, n)
}
