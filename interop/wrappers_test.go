package interop

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/gregjones/httpcache"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/oauth2"
)

// With oauth2 below a Transport, every attempt asks for a token. With oauth2
// over it, all attempts send the first one.
func TestTokens(t *testing.T) {
	for name, want := range map[string][]string{
		"over":  {"Bearer token-1", "Bearer token-1", "Bearer token-1"},
		"below": {"Bearer token-1", "Bearer token-2", "Bearer token-3"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := kit.ServeScript(t, kit.Respond(503, "{}"), kit.Respond(503, "{}"), kit.Respond(200, "{}"))
			var rt http.RoundTripper = &oauth2.Transport{Source: &shortLived{}, Base: kit.Retrying(srv.Base)}
			if name == "below" {
				rt = kit.Retrying(&oauth2.Transport{Source: &shortLived{}, Base: srv.Base})
			}
			resp := kit.Must[*http.Response](t)(rt.RoundTrip(srv.Request(t, http.MethodPost, kit.StreamOf("a stream"))))
			resp.Body.Close()
			var tokens []string
			for _, r := range srv.Requests() {
				tokens = append(tokens, r.Auth)
				if r.Body != "a stream" {
					t.Errorf("an attempt sent %q", r.Body)
				}
			}
			if !slices.Equal(tokens, want) {
				t.Errorf("the attempts sent the tokens %q, want %q", tokens, want)
			}
		})
	}
}

// shortLived returns a new token every time, as a source does whose tokens
// expire during a delay.
type shortLived struct{ tokens atomic.Int32 }

func (s *shortLived) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: fmt.Sprint("token-", s.tokens.Add(1))}, nil
}

// otelhttp over a Transport makes one span of all attempts, and below it one of
// each. All spans end. Every attempt sends the trace's context.
func TestSpans(t *testing.T) {
	for name, want := range map[string][]string{
		"over":  {"PUT attempt 1: 200"},
		"below": {"PUT attempt 1: 503", "PUT attempt 2: 503", "PUT attempt 3: 200"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			srv := kit.ServeScript(t, kit.Respond(503, ""), kit.Respond(503, ""), kit.Respond(200, ""))
			options := []otelhttp.Option{
				otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
				otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
					return fmt.Sprint(r.Method, " attempt ", awsretry.AttemptNumber(r.Context()))
				}),
			}
			parents := make(map[string]bool) // that the service sees
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				parents[req.Header.Get("Traceparent")] = true
				return srv.Base.RoundTrip(req)
			})
			var rt http.RoundTripper = otelhttp.NewTransport(kit.Retrying(base), options...)
			if name == "below" {
				rt = kit.Retrying(otelhttp.NewTransport(base, options...))
			}
			ctx, caller := provider.Tracer("test").Start(t.Context(), "the caller's")
			req := kit.NewRequest(t, ctx, http.MethodPut, srv.URL, strings.NewReader("traced"))
			httpfake.ReadAll(t, kit.Must[*http.Response](t)(rt.RoundTrip(req)))

			var spans []string
			for _, span := range recorder.Ended() {
				if span.Parent().SpanID() != caller.SpanContext().SpanID() {
					t.Errorf("%s is not the caller's child", span.Name())
				}
				for _, a := range span.Attributes() {
					if a.Key == "http.response.status_code" {
						spans = append(spans, fmt.Sprint(span.Name(), ": ", a.Value.AsInt64()))
					}
				}
			}
			if !slices.Equal(spans, want) || len(recorder.Started()) != 1+len(want) {
				t.Errorf("of %d spans %q ended, want %q", len(recorder.Started()), spans, want)
			}
			if len(srv.Requests()) != 3 || parents[""] || len(parents) != len(want) {
				t.Errorf("the service saw %v, want %d different parents in 3 attempts", parents, len(want))
			}
		})
	}
}

// otelhttp hides that an *http.Transport sends the requests, and wraps its
// bodies. The error bodies that hang still end with their attempts, though the
// callers have neither a deadline nor a time-out.
func TestHangingBodiesEndWithTheirAttempts(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/3"} {
		t.Run(protocol, func(t *testing.T) {
			var begun sync.Map // paths
			var stalling atomic.Int32
			serve := func(w http.ResponseWriter, r *http.Request) {
				if _, again := begun.LoadOrStore(r.URL.Path, true); again {
					io.WriteString(w, "done")
					return
				}
				stalling.Add(1)
				defer stalling.Add(-1)
				w.WriteHeader(http.StatusServiceUnavailable)
				io.WriteString(w, "half of ")
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			var base http.RoundTripper
			var url string
			if protocol == "HTTP/3" {
				server, h3 := serveHTTP3(t, serve)
				h3.QUICConfig.KeepAlivePeriod = 100 * time.Millisecond // or an idle connection ends soon
				base, url = h3, server.url()
			} else {
				server := httpfake.Serve(t, protocol, serve)
				base, url = server.Base, server.URL+"/"
			}
			const calls = 20
			client := &http.Client{Transport: kit.Retrying(otelhttp.NewTransport(base))}
			kit.InParallel(calls, calls, func(i int) {
				if got, err := kit.Text(client.Get(url + strconv.Itoa(i))); err != nil || got != "done" {
					t.Errorf("%q, %v", got, err)
				}
			})
			start := time.Now()
			kit.Eventually(func() bool { return stalling.Load() == 0 || time.Since(start) > 5*time.Second })
			if open := stalling.Load(); open > 0 {
				t.Errorf("%d of %d responses are open after the calls", open, calls)
			}
			kit.WantNoGoroutines(t)
		})
	}
}

// A Transport retries what an HTTP cache sends. The cache stores a response
// when its body has been read to the end, and copies the response then. Nothing
// may read the body while the response changes.
func TestCacheBelow(t *testing.T) {
	const page = `{"message": "from the service"}`
	for status, service := range map[int][]http.HandlerFunc{ // for the requests of two calls
		200: {kit.Respond(503, page), kit.Respond(200, page, "Cache-Control", "max-age=60")},
		404: {kit.Respond(404, page, "Cache-Control", "max-age=60")},
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			srv := kit.ServeScript(t, service...)
			cache := httpcache.NewMemoryCacheTransport()
			cache.Transport = srv.Base
			client := &http.Client{Transport: kit.Retrying(cache)}
			for range 2 {
				resp := kit.Must[*http.Response](t)(client.Get(srv.URL))
				if body := httpfake.ReadAll(t, resp); body != page || resp.StatusCode != status {
					t.Errorf("status %d with %q", resp.StatusCode, body)
				}
			}
			if n := len(srv.Requests()); n != len(service) {
				t.Errorf("%d requests reached the service, want %d", n, len(service))
			}
		})
	}
}
