package otelretry_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/otelretry"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// What one request is recorded as: its attempts, and why no other one was made.
func TestRequests(t *testing.T) {
	errorInBody := func(req *http.Request) (*http.Response, error) {
		body := strings.NewReader("<Error><Code>Client.Denied</Code></Error>")
		return httpfake.Response(req, 200, io.NopCloser(body)), nil
	}
	hangs := func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		time.Sleep(took / 2)
		return nil, context.Cause(req.Context())
	}
	// Each of these changes a request.
	within := func(deadline time.Duration) func(*http.Request) *http.Request {
		return func(req *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(req.Context(), deadline)
			context.AfterFunc(ctx, cancel)
			return req.WithContext(ctx)
		}
	}
	canceled := func(after time.Duration) func(*http.Request) *http.Request {
		return func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancelCause(req.Context())
			time.AfterFunc(after, func() { cancel(errors.New("the user went away")) })
			return req.WithContext(ctx)
		}
	}
	unavailable := recorded{class: "transient", status: 503}
	for name, tt := range map[string]struct {
		base     httpfake.Base                     // nil responds with 503
		tr       *awsretry.Transport               // nil means the zero Transport
		change   func(*http.Request) *http.Request // nil changes nothing
		attempts []recorded
		stop     string // "" means no refusal
	}{
		"success": {base: httpfake.Statuses(200), attempts: []recorded{{class: "success", status: 200}}},
		"success after retries": {base: httpfake.Statuses(503, 500, 204), attempts: []recorded{
			unavailable, {class: "transient", status: 500, retry: true}, {class: "success", status: 204, retry: true},
		}},
		"certificate": {base: failsWith(x509.UnknownAuthorityError{}), attempts: []recorded{
			{class: "permanent", errorType: "tls"},
		}},
		"another error": {base: failsWith(http.ErrSchemeMismatch), attempts: []recorded{
			{class: "permanent", errorType: "*errors.errorString"},
		}},
		"error in a 200": {
			base:     errorInBody,
			attempts: []recorded{{class: "permanent", status: 200, errorType: "_OTHER"}},
		},
		"wrong settings": {tr: &awsretry.Transport{MaxAttempts: -1}},
		"error from Prepare": {tr: &awsretry.Transport{
			Prepare: func(*http.Request, int) error { return errors.New("no credentials") },
		}},

		"time-out by the policy": {
			base: failsWith(io.EOF), stop: "max_attempts",
			tr: &awsretry.Transport{
				MaxAttempts: 1, Policy: func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout },
			},
			attempts: []recorded{{class: "timeout", errorType: "timeout"}},
		},
		"deadline in an attempt": { // which is recorded although its context has ended
			base: hangs, change: within(took / 2),
			attempts: []recorded{{class: "permanent", errorType: "timeout"}},
		},
		"canceled in an attempt": {
			base: hangs, change: canceled(took / 2),
			attempts: []recorded{{class: "permanent", errorType: "canceled"}},
		},
		"canceled in the delay": {change: canceled(5 * took), attempts: []recorded{unavailable}},
		"canceled before": {change: func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			cancel()
			return req.WithContext(ctx)
		}},
		"deadline": {change: within(5 * took), attempts: []recorded{unavailable}, stop: "deadline"},
		"quota": {
			tr:       &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 5}},
			attempts: []recorded{unavailable, {class: "transient", status: 503, retry: true}}, stop: "quota",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := tt.tr
				if tr == nil {
					tr = new(awsretry.Transport)
				}
				if tr.Base = httpfake.Statuses(503); tt.base != nil {
					tr.Base = tt.base
				}
				if !strings.HasSuffix(name, "in an attempt") {
					tr.Base = slow(tr.Base.(httpfake.Base))
				}
				rt, reader := instrumented(t, tr)
				req := httpfake.Request(t, t.Context(), "PUT", nil)
				req.Header.Set("X-Amz-Copy-Source", "bucket/key") // S3 may respond with an error in a 200
				if tt.change != nil {
					req = tt.change(req)
				}
				send(rt, req)
				synctest.Wait()
				var want []string
				for _, r := range tt.attempts {
					want = append(want, r.lines("PUT")...)
				}
				if tt.stop != "" {
					want = append(want, refusals(tt.stop, "PUT", 1))
				}
				wantMetrics(t, reader, want, "client.call.attempt", "client.call.errors", "awsretry.refusals")
			})
		})
	}
}

// Requests that are refused before their first attempt are counted once, those
// to the inner Transport too, and not as attempts.
func TestRefusedBeforeSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, reader := instrumented(t, &awsretry.Transport{
			Base: slow(httpfake.Statuses(429)), MaxAttempts: 1, Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5},
		})
		for range 3 {
			get(t, t.Context(), rt)
		}
		for range 2 {
			get(t, t.Context(), rt.Transport)
		}
		want := []string{refusals("quota", "GET", 4), refusals("max_attempts", "GET", 1)}
		want = append(want, recorded{class: "throttled", status: 429}.lines("GET")...)
		wantMetrics(t, reader, want, "client.call.attempt", "client.call.errors", "awsretry.refusals")
	})
}

// The user's attributes are set on every measurement, and take precedence.
func TestAttributesOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attrs := []attribute.KeyValue{
			attribute.String("rpc.service", "DynamoDB"), attribute.String("server.address", "mine"),
		}
		rt, reader := instrumented(t, &awsretry.Transport{Base: slow(httpfake.Statuses(503)), MaxAttempts: 1}, attrs...)
		attrs[0] = attribute.String("changed", "later")
		get(t, t.Context(), rt)
		const mine = "rpc.service=DynamoDB,server.address=mine"
		want := append(recorded{class: "transient", status: 503}.lines("GET"), refusals("max_attempts", "GET", 1))
		for i, line := range want {
			want[i] = strings.Replace(line, "server.address=service.example", mine, 1)
		}
		want = append(want, "awsretry.tokens[{token}] awsretry.partition=service.example,"+mine+",server.port=80 = 500")
		wantMetrics(t, reader, want, "client.call.attempt", "client.call.errors", "awsretry.refusals", "awsretry.tokens")
	})
}

func TestServersAndMethods(t *testing.T) {
	for _, tt := range []struct{ method, url, want string }{
		{"", "https://a.example/", "GET,server.address=a.example,server.port=443"},
		{"DELETE", "https://A.example:8443/", "DELETE,server.address=a.example,server.port=8443"},
		{"PURGE", "http://[::1]:8080/", "_OTHER,server.address=::1,server.port=8080"},
		{"GET", "unix://a.example/", "GET,server.address=a.example"},
		{"GET", "http://a.example:99999/", "GET,server.address=a.example,server.port=80"},
		{"GET", "file:///path", "GET"},
		{"GET", "http://" + strings.Repeat("a", 261) + "/", "GET,server.address=_OTHER"},
		{"GET", "http://%ff.example/", "GET,server.address=\uFFFD.example,server.port=80"},
	} {
		t.Run(tt.url, func(t *testing.T) {
			rt, reader := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(503), MaxAttempts: 1})
			req := request(t, awsretry.WithPartition(t.Context(), "one"), tt.method, tt.url)
			req.Method = tt.method // NewRequest changes "" to GET
			send(rt, req)
			wantMetrics(t, reader, []string{
				"awsretry.refusals[{refusal}] awsretry.partition=one,awsretry.stop=max_attempts,http.request.method=" + tt.want + " = 1",
			}, "awsretry.refusals")
		})
	}
}

// A partition whose attempts went to several servers has gauges without one.
func TestServerOfAPartition(t *testing.T) {
	rt, reader := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(200)})
	ctx := awsretry.WithPartition(t.Context(), "one")
	for _, tt := range []struct{ url, want string }{
		{"http://a.example/", "one,server.address=a.example,server.port=80"},
		{"http://a.example/again", "one,server.address=a.example,server.port=80"},
		{"https://b.example/", "one"},
		{"http://a.example/", "one"},
	} {
		send(rt, request(t, ctx, "GET", tt.url))
		wantMetrics(t, reader, []string{"awsretry.tokens[{token}] awsretry.partition=" + tt.want + " = 500"}, "awsretry.tokens")
	}
}

// What a call with two retries is, in the instruments of calls and pauses, and in
// the events of its caller's span.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, reader := instrumented(t, &awsretry.Transport{Base: slow(httpfake.Statuses(503, 429, 200))})
		spans := tracetest.NewInMemoryExporter()
		tracer := trace.NewTracerProvider(trace.WithSyncer(spans)).Tracer("test")
		ctx, span := tracer.Start(t.Context(), "the caller's")
		get(t, ctx, rt)
		span.End()
		var events []string
		for _, e := range spans.GetSpans()[0].Events {
			set := attribute.NewSet(e.Attributes...)
			events = append(events, e.Name+" "+set.Encoded(attribute.DefaultEncoder()))
		}
		want := []string{
			"retrying awsretry.attempt=1,awsretry.class=transient,awsretry.delay=1,http.response.status_code=503",
			"retrying awsretry.attempt=2,awsretry.class=throttled,awsretry.delay=1,http.response.status_code=429",
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		wantMetrics(t, reader, []string{
			"awsretry.call.attempts[{attempt}] awsretry.stop=success," + server + " = 1 of 3",
			"awsretry.delay[s] awsretry.class=transient," + server + " = 1 of 1",
			"awsretry.delay[s] awsretry.class=throttled," + server + " = 1 of 1",
			"client.call.duration[s] awsretry.stop=success," + server + " = 1 of 2.3",
		}, "awsretry.call", "awsretry.delay", "awsretry.wait", "client.call.duration")
	})
}

// The wait of a call for the end of a shared Retry-After, which then gives up.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, reader := instrumented(t, &awsretry.Transport{
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, 503, http.NoBody, "Retry-After", "30"), nil
			}),
			MaxAttempts: 1, ShareRetryAfter: true, RetryAfterSpread: -1,
		})
		get(t, t.Context(), rt)
		get(t, t.Context(), rt)
		wantMetrics(t, reader, []string{
			"awsretry.wait[s] " + server + " = 1 of 30",
			"awsretry.waiting[{request}] awsretry.partition=service.example," + server + " = 0",
			"client.call.duration[s] awsretry.stop=max_attempts," + server + " = 2 of 30",
		}, "awsretry.wait", "client.call.duration")
	})
}

// Attempts that panic are counted, and refusals of a body that is not continued.
func TestPanicsAndBrokenBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, reader := instrumented(t, &awsretry.Transport{
			Base: httpfake.Base(func(*http.Request) (*http.Response, error) { panic("base") }),
		})
		httpfake.Recovered(func() { get(t, t.Context(), rt) })
		if got := collected(t, reader, "client.call.errors"); len(got) != 1 || !strings.HasSuffix(got[0], " = 1") {
			t.Errorf("a panic is %q", got)
		}
		rt, reader = instrumented(t, &awsretry.Transport{
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				if req.Header.Get("Range") != "" {
					return httpfake.Response(req, 503, http.NoBody), nil
				}
				body := io.MultiReader(strings.NewReader("begun"), iotest.ErrReader(io.ErrUnexpectedEOF))
				resp := httpfake.Response(req, 200, io.NopCloser(body), "ETag", `"1"`)
				resp.ContentLength = 100
				return resp, nil
			}), Resume: true,
		})
		resp, err := rt.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		wantMetrics(t, reader, []string{refusals("max_attempts", "GET", 1)}, "awsretry.refusals")
	})
}

// A Recorder records and watches what no Transport of this package sends.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		recorder, err := otelretry.NewRecorder(metric.NewMeterProvider(metric.WithReader(reader)))
		if err != nil {
			t.Fatal(err)
		}
		tr := &awsretry.Transport{Base: httpfake.Statuses(503), MaxAttempts: 1, Observe: recorder.Observe}
		registration, err := recorder.Watch(tr)
		if err != nil {
			t.Fatal(err)
		}
		get(t, t.Context(), tr)
		recorder.Observe(awsretry.Attempt{}) // without a request
		if got := collected(t, reader, "client.call.attempts", "awsretry.tokens", "awsretry.refusals"); len(got) != 3 {
			t.Errorf("%q", got)
		}
		if registration.Unregister(); len(collected(t, reader, "awsretry.tokens")) > 0 {
			t.Error("the gauges remain")
		}
		if _, err := recorder.Watch(nil); err == nil {
			t.Error("nil is watched")
		}
	})
}

// Renewals of a fleet.
func TestRecordRenewal(t *testing.T) {
	reader := metric.NewManualReader()
	recorder, err := otelretry.NewRecorder(metric.NewMeterProvider(metric.WithReader(reader)), attribute.String("team", "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{nil, fmt.Errorf("eval: %w", context.DeadlineExceeded), errors.New("refused")} {
		recorder.RecordRenewal("service.example", time.Second/4, err)
	}
	wantMetrics(t, reader, []string{
		"awsretry.renewal.duration[s] team=a = 1 of 0.25",
		"awsretry.renewal.duration[s] error.type=timeout,team=a = 1 of 0.25",
		"awsretry.renewal.duration[s] error.type=_OTHER,team=a = 1 of 0.25",
	}, "awsretry.renewal")
}
