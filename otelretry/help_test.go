package otelretry_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/otelretry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A baseFunc is a Base.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answersWith is a Base that takes 100 ms for each attempt and gives these statuses in turn, the last one for ever.
func answersWith(statuses ...int) baseFunc {
	var n atomic.Int32
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(100 * time.Millisecond)
		if req.Body != nil {
			io.Copy(io.Discard, req.Body)
			req.Body.Close()
		}
		i := min(int(n.Add(1)), len(statuses)) - 1
		return answer(req, statuses[i]), nil
	}
}

func answer(req *http.Request, status int) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// failsWith is a Base that takes 100 ms to find an error.
func failsWith(err error) baseFunc {
	return func(*http.Request) (*http.Response, error) {
		time.Sleep(100 * time.Millisecond)
		return nil, err
	}
}

// second is a Backoff of pauses of one second.
var second = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return time.Second })

// instrumented makes tr record for the reader.
func instrumented(t testing.TB, tr *awsretry.Transport, attrs ...attribute.KeyValue) (*otelretry.Transport, *metric.ManualReader) {
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

// get sends a GET and closes the answer.
func get(t testing.TB, ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	t.Helper()
	return send(rt, request(t, ctx, "GET", "http://service.example/path?secret=1"))
}

func request(t testing.TB, ctx context.Context, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func send(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return resp, err
}

// collected is every metric that the reader sees whose name begins with one of the prefixes, each data point a line.
func collected(t testing.TB, reader *metric.ManualReader, prefixes ...string) []string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "example.com/awsretry/otelretry" || !strings.HasPrefix(scope.Scope.SchemaURL, "https://opentelemetry.io/schemas/1.") {
			t.Errorf("the scope is %+v", scope.Scope)
		}
		for _, m := range scope.Metrics {
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

func points(t testing.TB, m metricdata.Metrics) map[string]string {
	points := make(map[string]string)
	add := func(set attribute.Set, value string) {
		points[set.Encoded(attribute.DefaultEncoder())] = value
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		if !data.IsMonotonic {
			t.Errorf("%s is no counter", m.Name)
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
		t.Errorf("%s has no point", m.Name)
	}
	return points
}

// differ reports in which lines the two differ.
func differ(t testing.TB, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	lines := make(map[string]string)
	for _, l := range got {
		lines[l] = "+"
	}
	for _, l := range want {
		if lines[l] == "+" {
			delete(lines, l)
		} else {
			lines[l] = "-"
		}
	}
	for _, l := range slices.Sorted(maps.Keys(lines)) {
		t.Errorf("%s %s", lines[l], l)
	}
}
