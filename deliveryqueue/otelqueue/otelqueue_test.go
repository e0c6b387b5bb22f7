package otelqueue

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"example.com/awsretry/deliveryqueue"
)

// collect returns what a reader collects, by the names of the metrics and their
// attributes.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	add := func(name string, attrs attribute.Set, value float64) {
		for _, a := range attrs.ToSlice() {
			name += " " + a.Value.AsString()
		}
		values[name] = value
	}
	for _, s := range data.ScopeMetrics {
		for _, m := range s.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					add(m.Name, p.Attributes, float64(p.Value))
				}
			}
		}
	}
	return values
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The metrics of deliveries that are delivered, dead and waiting.
func TestRecorder(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	r, err := New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	q, err := deliveryqueue.Open(t.Context(), filepath.Join(t.TempDir(), "deliveries.db"), deliveryqueue.Config{
		OnOutcome: r.Outcome,
		Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			status := 200
			if strings.HasPrefix(req.URL.Host, "gone") {
				status = 410
			}
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	registration, err := r.Watch(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Pause(t.Context(), "http://paused.test"); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"paused", "good", "good", "gone"} {
		req, err := http.NewRequest("POST", "http://"+host+".test/hook", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.Enqueue(t.Context(), req, deliveryqueue.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	want := map[string]float64{
		"awsretry.queue.outcomes delivered":                    2,
		"awsretry.queue.outcomes permanent dead":               1,
		"awsretry.queue.deliveries http://paused.test waiting": 1,
		"awsretry.queue.deliveries http://paused.test running": 0,
		"awsretry.queue.deliveries http://gone.test dead":      1,
		"awsretry.queue.endpoints paused":                      1,
		"awsretry.queue.endpoints failing":                     1,
		"awsretry.queue.endpoints disabled":                    0,
		"awsretry.queue.oldest http://gone.test":               0,
	}
	var missing string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		got := collect(t, reader)
		missing = ""
		for name, value := range want {
			if seen, ok := got[name]; !ok || seen != value {
				missing += fmt.Sprintf("%s is %v, want %v\n", name, seen, value)
			}
		}
		if age := got["awsretry.queue.oldest http://paused.test"]; age <= 0 || age > 60 {
			missing += fmt.Sprintf("the oldest was enqueued %v s ago\n", age)
		}
		if missing == "" {
			break
		}
	}
	if missing != "" {
		t.Error(missing)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	if _, err := r.Watch(nil); err == nil {
		t.Error("Watch takes no Queue")
	}
}

// The number of series is bounded, and nothing is left out of their sum.
func TestBounded(t *testing.T) {
	t.Parallel()
	var all []deliveryqueue.Endpoint
	now := time.Now()
	for i := range 1000 {
		all = append(all, deliveryqueue.Endpoint{
			URL: fmt.Sprint(i), Waiting: i, Running: 1, Dead: 2, Oldest: now.Add(-time.Duration(1000-i) * time.Second),
		})
	}
	few := bounded(all)
	waiting, least := 0, math.MaxInt
	for _, e := range few[:MaxEndpoints] {
		waiting += e.Waiting
		least = min(least, e.Waiting)
	}
	rest := few[MaxEndpoints]
	if len(few) != MaxEndpoints+1 || least != 900 || rest.URL != other || waiting+rest.Waiting != 1000*999/2 ||
		rest.Running != 900 || rest.Dead != 1800 || !rest.Oldest.Equal(now.Add(-1000*time.Second)) {
		t.Errorf("%d endpoints, the least has %d, the rest is %+v", len(few), least, rest)
	}
}
