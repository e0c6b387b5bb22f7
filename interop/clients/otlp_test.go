package clients

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// The exporter for OTLP over HTTP compresses its body while it is sent, and leaves
// the request a GetBody. A retry sends the compressed bytes again.
func TestCompressedMetricsAreSentAgain(t *testing.T) {
	var mu sync.Mutex
	var bodies [][]byte // guarded by mu
	srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%q, %v", r.Header, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if bodies = append(bodies, body); len(bodies) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	exporter := kit.Must[*otlpmetrichttp.Exporter](t)(otlpmetrichttp.New(t.Context(),
		otlpmetrichttp.WithEndpointURL(srv.URL+"/v1/metrics"),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: false}),
		otlpmetrichttp.WithHTTPClient(&http.Client{Transport: kit.Retrying(srv.Base)}),
	))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	counter := kit.Must[metric.Int64Counter](t)(provider.Meter("test").Int64Counter("calls"))
	counter.Add(t.Context(), 42)
	if err := provider.ForceFlush(t.Context()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	if len(bodies) != 2 || !bytes.Equal(bodies[0], bodies[1]) {
		t.Fatalf("%d requests: %x", len(bodies), bodies)
	}
	zip := kit.Must[*gzip.Reader](t)(gzip.NewReader(bytes.NewReader(bodies[1])))
	if text := kit.Must[[]byte](t)(io.ReadAll(zip)); !bytes.Contains(text, []byte("calls")) {
		t.Errorf("the second request has %q", text)
	}
	mu.Unlock()
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
