package otelqueue

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"example.com/awsretry/deliveryqueue"
	"example.com/awsretry/internal/httpfake"
)

// collect returns what a reader collects, by the names of the metrics and their
// attributes.
func collect(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	check(t, reader.Collect(t.Context(), &data))
	values := make(map[string]float64)
	for _, s := range data.ScopeMetrics {
		for _, m := range s.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				add(values, m.Name, d.DataPoints)
			case metricdata.Gauge[float64]:
				add(values, m.Name, d.DataPoints)
			case metricdata.Sum[int64]:
				add(values, m.Name, d.DataPoints)
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					state, _ := p.Attributes.Value(stateKey)
					values[m.Name+" "+state.AsString()] = float64(p.Count)
					if p.Sum < 0 || p.Sum > 60 {
						t.Errorf("%s is %v", m.Name, p.Sum)
					}
				}
			}
		}
	}
	return values
}

func add[N int64 | float64](values map[string]float64, name string, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		key := name
		for _, a := range p.Attributes.ToSlice() {
			key += " " + a.Value.AsString()
		}
		values[key] = float64(p.Value)
	}
}

// The metrics of deliveries that are delivered, dead and waiting.
func TestRecorder(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	r := must[*Recorder](t)(New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	q := must[*deliveryqueue.Queue](t)(deliveryqueue.Open(t.Context(), filepath.Join(t.TempDir(), "deliveries.db"),
		deliveryqueue.Config{OnOutcome: r.Outcome, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			status := 200
			switch req.URL.Host {
			case "gone.test":
				status = 400
			case "busy.test":
				status = 503
			}
			return httpfake.Empty(status, req), req.Body.Close()
		})}))
	defer q.Close()
	registration := must[metric.Registration](t)(r.Watch(q))
	check(t, q.Pause(t.Context(), "http://paused.test"))
	for _, host := range []string{"paused", "good", "good", "gone", "busy"} {
		req := httpfake.Post(t, "http://"+host+".test/hook", "hello")
		must[int64](t)(q.Enqueue(t.Context(), req, deliveryqueue.Options{}))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	want := map[string]float64{
		"awsretry.queue.attempts delivered":                    2,
		"awsretry.queue.attempts permanent dead":               1,
		"awsretry.queue.attempts waiting":                      1,
		"awsretry.queue.attempt.duration waiting":              1,
		"awsretry.queue.attempt.duration delivered":            2,
		"awsretry.queue.delivery.duration delivered":           2,
		"awsretry.queue.delivery.duration dead":                1,
		"awsretry.queue.outcomes delivered":                    2,
		"awsretry.queue.outcomes permanent dead":               1,
		"awsretry.queue.deliveries http://paused.test waiting": 1,
		"awsretry.queue.deliveries http://paused.test running": 0,
		"awsretry.queue.deliveries http://gone.test dead":      1,
		"awsretry.queue.endpoints paused":                      1,
		"awsretry.queue.endpoints failing":                     2,
		"awsretry.queue.endpoints disabled":                    0,
		"awsretry.queue.oldest http://gone.test":               0,
	}
	missing := "all"
	for deadline := time.Now().Add(time.Minute); missing != "" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
		missing = ""
		got := collect(t, reader)
		for name, value := range want {
			if seen, ok := got[name]; !ok || seen != value {
				missing += fmt.Sprintf("%s is %v, want %v\n", name, seen, value)
			}
		}
		if age := got["awsretry.queue.oldest http://paused.test"]; age <= 0 || age > 60 {
			missing += fmt.Sprintf("the oldest has been due for %v s\n", age)
		}
		if lag, ok := got["awsretry.queue.sweep.lag"]; !ok || lag < 0 || lag > 60 || got["awsretry.queue.outcomes waiting"] != 0 {
			missing += fmt.Sprintf("the last sweep was %v s ago\n", lag)
		}
	}
	if missing != "" {
		t.Error(missing)
	}
	stop()
	check(t, <-ended)
	check(t, registration.Unregister())
	if _, err := r.Watch(nil); err == nil {
		t.Error("Watch takes no Queue")
	}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The number of series is bounded, and nothing is left out of their sum.
func TestBounded(t *testing.T) {
	t.Parallel()
	var all []deliveryqueue.Endpoint
	now := time.Now()
	for i := range 1000 {
		all = append(all, deliveryqueue.Endpoint{
			URL: fmt.Sprint(i), Waiting: i, Running: 1, Dead: 2, Due: now.Add(-time.Duration(1000-i) * time.Second),
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
		rest.Running != 900 || rest.Dead != 1800 || !rest.Due.Equal(now.Add(-1000*time.Second)) {
		t.Errorf("%d endpoints, the least has %d, the rest is %+v", len(few), least, rest)
	}
}
