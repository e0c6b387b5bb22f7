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
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/oauth2"
)

// With oauth2 below a Transport, every attempt asks for a token. With oauth2
// over it, all attempts send the first one.
func TestTokens(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(http.RoundTripper, oauth2.TokenSource) http.RoundTripper
		want  []string
	}{
		{"over", func(b http.RoundTripper, s oauth2.TokenSource) http.RoundTripper {
			return &oauth2.Transport{Source: s, Base: retrying(b)}
		}, []string{"Bearer token-1", "Bearer token-1", "Bearer token-1"}},
		{"below", func(b http.RoundTripper, s oauth2.TokenSource) http.RoundTripper {
			return retrying(&oauth2.Transport{Source: s, Base: b})
		}, []string{"Bearer token-1", "Bearer token-2", "Bearer token-3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := serveScript(t, respond(503, "{}"), respond(503, "{}"), respond(200, "{}"))
			rt := tt.build(srv.Base, &shortLived{})
			resp, err := rt.RoundTrip(srv.Request(t, http.MethodPost, streamOf("a stream")))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			var tokens []string
			for _, r := range srv.requests() {
				tokens = append(tokens, r.auth)
				if r.body != "a stream" {
					t.Errorf("an attempt sent %q", r.body)
				}
			}
			if !slices.Equal(tokens, tt.want) {
				t.Errorf("the attempts sent the tokens %q, want %q", tokens, tt.want)
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

// A hangingService responds to the first request for each path with an error
// whose body begins and does not end before the client closes it.
type hangingService struct {
	status int
	header []string
	seen   sync.Map     // the paths
	open   atomic.Int32 // responses that hang
}

func (s *hangingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, again := s.seen.LoadOrStore(r.URL.Path, true); again {
		io.WriteString(w, "done")
		return
	}
	s.open.Add(1)
	defer s.open.Add(-1)
	for i := 0; i < len(s.header); i += 2 {
		w.Header().Set(s.header[i], s.header[i+1])
	}
	w.WriteHeader(s.status)
	io.WriteString(w, "x")
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// otelhttp hides that an *http.Transport sends the requests, and wraps its
// bodies. The error bodies that hang still end with their attempts, though the
// callers have neither a deadline nor a time-out.
func TestHangingBodiesEndWithTheirAttempts(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2", "HTTP/3"} {
		for _, service := range []*hangingService{
			{status: 503},
			{status: 429, header: []string{"X-Amzn-ErrorType", "ThrottlingException"}},
		} {
			t.Run(protocol+" "+strconv.Itoa(service.status), func(t *testing.T) {
				var base http.RoundTripper
				var url string
				if protocol == "HTTP/3" {
					server, h3 := serveHTTP3(t, service.ServeHTTP)
					h3.QUICConfig.KeepAlivePeriod = 100 * time.Millisecond // or an idle connection ends soon
					base, url = h3, server.url()
				} else {
					server := httpfake.Serve(t, protocol, service.ServeHTTP)
					base, url = server.Base, server.URL+"/"
				}
				const calls = 20
				tr := retrying(otelhttp.NewTransport(base))
				inParallel(calls, calls, func(i int) {
					resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, url+strconv.Itoa(i), nil))
					if err != nil {
						t.Error(err)
						return
					}
					if got := httpfake.ReadAll(t, resp); resp.StatusCode != 200 || got != "done" {
						t.Errorf("%s: %q", resp.Status, got)
					}
				})
				start := time.Now()
				eventually(func() bool { return service.open.Load() == 0 || time.Since(start) > 5*time.Second })
				if open := service.open.Load(); open > 0 {
					t.Errorf("%d of %d responses are open after the calls", open, calls)
				}
				wantNoGoroutines(t)
			})
		}
	}
}
