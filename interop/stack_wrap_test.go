package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// TestSpans shows what a trace looks like: over the Transport one span with all attempts in it, under it one for each attempt,
// all of them ended, and the trace's context goes to the service with every attempt.
func TestSpans(t *testing.T) {
	for _, c := range []struct {
		name     string
		build    func(http.RoundTripper, ...otelhttp.Option) http.RoundTripper
		statuses []int64 // of the spans, in the order of their ends
		parents  int     // different ones that the service is told of
	}{
		{"over", func(b http.RoundTripper, o ...otelhttp.Option) http.RoundTripper {
			return otelhttp.NewTransport(retrying(b), o...)
		}, []int64{200}, 1},
		{"under", func(b http.RoundTripper, o ...otelhttp.Option) http.RoundTripper {
			return retrying(otelhttp.NewTransport(b, o...))
		}, []int64{503, 503, 200}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			var parents []string
			service := newThrottler(t, answer(503, "{}"), answer(503, "{}"), answer(200, "{}"))
			server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				parents = append(parents, r.Header.Get("Traceparent"))
				service.ServeHTTP(w, r)
			}), nil)
			transport := c.build(newPool(t), otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}),
				otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
					return fmt.Sprint(r.Method, " attempt ", awsretry.AttemptNumber(r.Context()))
				}))
			ctx, caller := provider.Tracer("test").Start(context.Background(), "the caller's")
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader("traced"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			caller.End()

			var names []string
			var statuses []int64
			for _, span := range recorder.Ended() {
				if span.Name() == "the caller's" {
					continue
				}
				names = append(names, span.Name())
				if span.Parent().SpanID() != caller.SpanContext().SpanID() {
					t.Errorf("%s is not the caller's child", span.Name())
				}
				for _, a := range span.Attributes() {
					if a.Key == "http.response.status_code" && a.Value.Type() == attribute.INT64 {
						statuses = append(statuses, a.Value.AsInt64())
					}
				}
			}
			if !slices.Equal(statuses, c.statuses) {
				t.Errorf("spans %q with statuses %v, want %v", names, statuses, c.statuses)
			}
			if len(recorder.Started()) != len(recorder.Ended()) {
				t.Errorf("%d spans were started and %d ended", len(recorder.Started()), len(recorder.Ended()))
			}
			if c.name == "under" && !slices.Equal(names, []string{"PUT attempt 1", "PUT attempt 2", "PUT attempt 3"}) {
				t.Errorf("the spans are %q", names)
			}
			slices.Sort(parents)
			if len(parents) != 3 || parents[0] == "" || len(slices.Compact(parents)) != c.parents {
				t.Errorf("the service was told of %q, want %d different parents in 3 attempts", parents, c.parents)
			}
		})
	}
}

// TestTokens has oauth2 under the Transport, so that every attempt asks for a token that is still good, and over it, where all attempts
// send the one of the first.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(http.RoundTripper, oauth2.TokenSource) http.RoundTripper
		want  []string
	}{
		{"over", func(b http.RoundTripper, s oauth2.TokenSource) http.RoundTripper {
			return &oauth2.Transport{Source: s, Base: retrying(b)}
		}, []string{"Bearer token-1", "Bearer token-1", "Bearer token-1"}},
		{"under", func(b http.RoundTripper, s oauth2.TokenSource) http.RoundTripper {
			return retrying(&oauth2.Transport{Source: s, Base: b})
		}, []string{"Bearer token-1", "Bearer token-2", "Bearer token-3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := newThrottler(t, answer(503, "{}"), answer(503, "{}"), answer(200, "{}"))
			client := &http.Client{Transport: c.build(newPool(t), &shortLived{})}
			resp, err := client.Post(service.URL, "text/plain", struct{ io.Reader }{strings.NewReader("a stream")})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			var tokens []string
			for _, r := range service.requests() {
				tokens = append(tokens, r.auth)
				if r.body != "a stream" {
					t.Errorf("an attempt sent %q", r.body)
				}
			}
			if !slices.Equal(tokens, c.want) {
				t.Errorf("the attempts' tokens were %q, want %q", tokens, c.want)
			}
		})
	}
}

// shortLived gives a new token every time, as a source does whose tokens end while a retry pauses.
type shortLived struct{ given atomic.Int64 }

func (s *shortLived) Token() (*oauth2.Token, error) {
	return &oauth2.Token{AccessToken: fmt.Sprint("token-", s.given.Add(1))}, nil
}

// TestTokenEndpoint fetches tokens from an endpoint that fails: it is asked again when it was busy, and not when it refuses; and the
// request that the token was for keeps its body.
func TestTokenEndpoint(t *testing.T) {
	// The error of a refusal is oauth2's own, and a policy's to know.
	policy := func(a *awsretry.Attempt) awsretry.Class {
		var refused *oauth2.RetrieveError
		if errors.As(a.Err, &refused) && refused.Response.StatusCode < 500 {
			return awsretry.Permanent
		}
		return awsretry.DefaultPolicy(a)
	}
	granted := answer(200, `{"access_token": "granted", "token_type": "Bearer", "expires_in": 3600}`)
	for _, c := range []struct {
		name          string
		endpoint      []http.HandlerFunc
		asked, served int
		ok            bool
	}{
		{"busy", []http.HandlerFunc{answer(503, "{}"), hangUp, granted}, 3, 1, true},
		{"refuses", []http.HandlerFunc{answer(401, `{"error": "invalid_client"}`)}, 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoint := newThrottler(t, c.endpoint...)
			service := newThrottler(t, answer(200, "{}"))
			// The endpoint has a Transport of its own: the one around it would repeat each of its failures again.
			ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: retrying(newPool(t))})
			config := clientcredentials.Config{ClientID: "id", ClientSecret: "secret", TokenURL: endpoint.URL, AuthStyle: oauth2.AuthStyleInHeader}
			transport := retrying(&oauth2.Transport{Source: config.TokenSource(ctx), Base: newPool(t)})
			transport.Policy = policy

			var closes atomic.Int32
			req, err := http.NewRequest(http.MethodPost, service.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Body = &closeCounter{io.NopCloser(strings.NewReader("kept")), &closes}
			resp, err := transport.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != c.ok || len(endpoint.requests()) != c.asked || len(service.requests()) != c.served {
				t.Errorf("%v; the endpoint was asked %d times, the service %d, want %d and %d", err, len(endpoint.requests()), len(service.requests()), c.asked, c.served)
			}
			for _, r := range service.requests() {
				if r.body != "kept" || r.auth != "Bearer granted" {
					t.Errorf("the service was sent %q with %q", r.body, r.auth)
				}
			}
			if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
				t.Errorf("the body was closed %d times", closes.Load())
			}
		})
	}
}

// TestConcurrentStacks sends many requests at once through otelhttp, the Transport and oauth2 over HTTP/2, where they share a connection.
func TestConcurrentStacks(t *testing.T) {
	service := &failsFirst{attempts: make(map[string][]string)}
	for _, name := range []string{"HTTP/1.1", "HTTP/2", "otelhttp over, oauth2 under"} {
		t.Run(name, func(t *testing.T) {
			client, url := stacks()[name].start(t, service)
			failures := make(chan error, 64)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			for i := range cap(failures) {
				go func() { failures <- echoOnce(ctx, client, url, fmt.Sprint(t.Name(), i), i) }()
			}
			for range cap(failures) {
				if err := <-failures; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// echoOnce sends a body of its own, every second one as a stream.
func echoOnce(ctx context.Context, client *http.Client, url, call string, i int) error {
	sent := strings.Repeat(call+" ", 100+i*10)
	var body io.Reader = strings.NewReader(sent)
	if i%2 == 1 {
		body = struct{ io.Reader }{body}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Call", call)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != sent {
		return fmt.Errorf("%s: %d bytes came back of %d, status %d, %v", call, len(got), len(sent), resp.StatusCode, err)
	}
	return nil
}
