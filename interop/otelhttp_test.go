package interop

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// otelhttp over a Transport makes one span of all attempts, and below it one of
// each. All spans end. Every attempt sends the trace's context.
func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		name     string
		build    func(http.RoundTripper, ...otelhttp.Option) http.RoundTripper
		spans    []string
		statuses []int64 // of the spans, in the order of their ends
		parents  int     // different ones that the service sees
	}{
		{
			"over", func(b http.RoundTripper, o ...otelhttp.Option) http.RoundTripper {
				return otelhttp.NewTransport(retrying(b), o...)
			}, []string{"PUT attempt 1"}, []int64{200}, 1,
		},
		{
			"below", func(b http.RoundTripper, o ...otelhttp.Option) http.RoundTripper {
				return retrying(otelhttp.NewTransport(b, o...))
			}, []string{"PUT attempt 1", "PUT attempt 2", "PUT attempt 3"}, []int64{503, 503, 200}, 3,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			var mu sync.Mutex
			var parents []string // guarded by mu
			responses := []int{503, 503, 200}
			srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				parents = append(parents, r.Header.Get("Traceparent"))
				w.WriteHeader(responses[min(len(parents), len(responses))-1])
			})
			rt := tt.build(srv.Base,
				otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
				otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
					return fmt.Sprint(r.Method, " attempt ", awsretry.AttemptNumber(r.Context()))
				}))
			ctx, caller := provider.Tracer("test").Start(t.Context(), "the caller's")
			resp, err := rt.RoundTrip(newRequest(t, ctx, http.MethodPut, srv.URL, strings.NewReader("traced")))
			if err != nil {
				t.Fatal(err)
			}
			httpfake.ReadAll(t, resp)
			caller.End()

			var spans []string
			var statuses []int64
			for _, span := range recorder.Ended() {
				if span.Name() == "the caller's" {
					continue
				}
				spans = append(spans, span.Name())
				if span.Parent().SpanID() != caller.SpanContext().SpanID() {
					t.Errorf("%s is not the caller's child", span.Name())
				}
				for _, a := range span.Attributes() {
					if a.Key == "http.response.status_code" && a.Value.Type() == attribute.INT64 {
						statuses = append(statuses, a.Value.AsInt64())
					}
				}
			}
			if !slices.Equal(spans, tt.spans) || !slices.Equal(statuses, tt.statuses) {
				t.Errorf("spans %q with statuses %v, want %q with %v", spans, statuses, tt.spans, tt.statuses)
			}
			if started, ended := len(recorder.Started()), len(recorder.Ended()); started != ended {
				t.Errorf("%d spans started and %d ended", started, ended)
			}
			slices.Sort(parents)
			if len(parents) != 3 || parents[0] == "" || len(slices.Compact(parents)) != tt.parents {
				t.Errorf("the service saw %q, want %d different parents in 3 attempts", parents, tt.parents)
			}
		})
	}
}
