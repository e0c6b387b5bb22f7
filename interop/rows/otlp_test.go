package rows

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"example.com/awsretry"
)

const (
	otlpHow = "`WithRetry(RetryConfig{Enabled: false})`, and `WithHTTPClient`, which turns `WithTimeout` off: " +
		"`AttemptTimeout: 10 * time.Second`; `MaxAttempts: 5`, `Backoff: awsretry.Exponential{Initial: 5 * time.Second}`, " +
		"which lasts about as long"
	otlpAlone = "for a minute"
)

var otlpLosses = []loss{
	{"a batch whose response is lost is sent again, as OTLP asks", `(lost|cut within the response): .* executed 2`},
}

func otlpTransport(tr *awsretry.Transport) {
	tr.MaxAttempts, tr.Backoff = 5, awsretry.Exponential{Initial: 5 * time.Second}
	if tr.AttemptTimeout == 0 {
		tr.AttemptTimeout = 10 * time.Second
	}
}

var tracesRow = row{
	client: "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", how: otlpHow, repeats: otlpAlone, transport: otlpTransport,
	calls: otlpCalls(func(ctx context.Context, s setting, compressed bool) error {
		options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(s.url + "/v1/traces"), otlptracehttp.WithHTTPClient(s.Client)}
		if s.over {
			options = append(options, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
		}
		if compressed {
			options = append(options, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
		}
		exporter, err := otlptracehttp.New(ctx, options...)
		if err != nil {
			return err
		}
		return exporter.ExportSpans(ctx, tracetest.SpanStubs{{Name: otlpName}}.Snapshots())
	}),
	losses: otlpLosses,
}

var metricsRow = row{
	client: "go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp", how: otlpHow, repeats: otlpAlone, transport: otlpTransport,
	calls: otlpCalls(func(ctx context.Context, s setting, compressed bool) error {
		options := []otlpmetrichttp.Option{otlpmetrichttp.WithEndpointURL(s.url + "/v1/metrics"), otlpmetrichttp.WithHTTPClient(s.Client)}
		if s.over {
			options = append(options, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: false}))
		}
		if compressed {
			options = append(options, otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
		}
		exporter, err := otlpmetrichttp.New(ctx, options...)
		if err != nil {
			return err
		}
		return exporter.Export(ctx, &metricdata.ResourceMetrics{ScopeMetrics: []metricdata.ScopeMetrics{{Metrics: []metricdata.Metrics{
			{Name: otlpName, Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Value: 1}}}},
		}}}})
	}),
	losses: otlpLosses,
}

const otlpName = "the-name"

func otlpCalls(export func(ctx context.Context, s setting, compressed bool) error) (calls []call) {
	for _, compressed := range []bool{false, true} {
		calls = append(calls, call{
			name: map[bool]string{false: "export", true: "export of gzip"}[compressed], server: otlpServer, limited: true,
			do: func(ctx context.Context, s setting) error {
				if !s.over {
					s.Timeout = 10 * time.Second // as without WithHTTPClient
					if s.limit > 0 {
						s.Timeout = s.limit
					}
				}
				return export(ctx, s, compressed)
			},
		})
	}
	return calls
}

// otlpServer returns a server that refuses what is not a batch with otlpName.
func otlpServer() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		var err error
		if slices.Contains(r.Header["Content-Encoding"], "gzip") {
			body, err = gzip.NewReader(body)
		}
		var batch []byte
		if err == nil {
			batch, err = io.ReadAll(body)
		}
		if err != nil || !bytes.Contains(batch, []byte(otlpName)) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}
