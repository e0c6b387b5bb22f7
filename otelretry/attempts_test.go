package otelretry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"go.opentelemetry.io/otel/attribute"
)

func TestAttempts(t *testing.T) {
	throttled := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 400, http.NoBody, "X-Amzn-ErrorType", "ThrottlingException"), nil
	})
	hidden := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		body := strings.NewReader("<Error><Code>AccessDenied</Code></Error>")
		return httpfake.Response(req, 200, io.NopCloser(body)), nil
	})
	refused := failsWith(&net.OpError{Op: "dial", Err: errors.New("refused")})
	late := failsWith(&net.OpError{Op: "dial", Err: context.DeadlineExceeded})
	timeout := func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout }
	for _, tt := range []struct {
		name   string
		base   httpfake.Base
		once   bool // without retries
		policy awsretry.Policy
		want   []recorded
	}{
		{name: "success", base: httpfake.Statuses(200), want: []recorded{{class: "success", status: 200}}},
		{name: "success after retries", base: httpfake.Statuses(503, 500, 204), want: []recorded{
			{class: "transient", status: 503},
			{class: "transient", status: 500, retry: true},
			{class: "success", status: 204, retry: true},
		}},
		{name: "throttling", base: throttled, want: []recorded{
			{class: "throttled", status: 400},
			{class: "throttled", status: 400, retry: true, times: 2},
		}},
		{name: "error in a 200", base: hidden, want: []recorded{{class: "permanent", status: 200, errorType: "_OTHER"}}},
		{name: "no connection", base: refused, once: true, want: []recorded{
			{class: "transient", errorType: "*net.OpError"},
		}},
		{name: "time-out", base: late, once: true, want: []recorded{{class: "timeout", errorType: "timeout"}}},
		{name: "time-out by the policy", base: failsWith(io.EOF), once: true, policy: timeout, want: []recorded{
			{class: "timeout", errorType: "timeout"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &awsretry.Transport{Base: slow(tt.base), Policy: tt.policy}
				if tt.once {
					tr.MaxAttempts = 1
				}
				rt, reader := instrumented(t, tr)
				req := request(t, t.Context(), "PUT", "http://Service.example/path?secret=1")
				req.Header.Set("X-Amz-Copy-Source", "bucket/key") // S3 may respond with an error in a 200
				send(rt, req)
				var want []string
				for _, r := range tt.want {
					want = append(want, r.all()...)
				}
				wantMetrics(t, reader, want, "client.")
			})
		})
	}
}

// An attempt that its caller ended is recorded even though its context has
// ended.
func TestEndedAttempts(t *testing.T) {
	const early = 50 * time.Millisecond
	for errorType, within := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, early)
		},
		"canceled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(early, func() { cancel(errors.New("the user went away")) })
			return ctx, func() { cancel(nil) }
		},
	} {
		t.Run(errorType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, reader := instrumented(t, &awsretry.Transport{
					Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
						<-req.Context().Done()
						return nil, context.Cause(req.Context())
					}),
				})
				ctx, cancel := within(t.Context())
				defer cancel()
				get(t, ctx, rt)
				wantMetrics(t, reader, []string{
					refusal("canceled", "GET"),
					recorded{class: "permanent", method: "GET", errorType: errorType}.failure(),
				}, "client.call.errors", "awsretry.refusals")
			})
		})
	}
}

// The user's attributes are set on every measurement, and take precedence.
func TestAttributesOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attrs := []attribute.KeyValue{
			attribute.String("rpc.service", "DynamoDB"),
			attribute.String("server.address", "mine"),
		}
		rt, reader := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(503), MaxAttempts: 1}, attrs...)
		attrs[0] = attribute.String("changed", "later")
		get(t, t.Context(), rt)
		const mine = "rpc.service=DynamoDB,server.address=mine"
		mineInstead := func(line string) string {
			return strings.Replace(line, "server.address=service.example", mine, 1)
		}
		wantMetrics(t, reader, []string{
			mineInstead(refusal("max_attempts", "GET")),
			"awsretry.tokens[{token}] awsretry.partition=service.example," + mine + " = 500",
			mineInstead(recorded{class: "transient", method: "GET", status: 503}.attempt()),
		}, "client.call.attempts", "awsretry.refusals", "awsretry.tokens")
	})
}

func TestServersAndMethods(t *testing.T) {
	for _, tt := range []struct{ method, url, want string }{
		{"", "https://a.example/", "GET,server.address=a.example,server.port=443"},
		{"DELETE", "https://a.example:8443/", "DELETE,server.address=a.example,server.port=8443"},
		{"PURGE", "http://[::1]:8080/", "_OTHER,server.address=::1,server.port=8080"},
		{"GET", "unix://a.example/", "GET,server.address=a.example"},
		{"GET", "http://a.example:99999/", "GET,server.address=a.example,server.port=80"},
		{"GET", "file:///path", "GET"},
		{"GET", "http://" + strings.Repeat("a", 261) + "/", "GET,server.address=_OTHER"},
		{"GET", "http://%ff.example/", "GET,server.address=\uFFFD.example,server.port=80"},
	} {
		t.Run(tt.url, func(t *testing.T) {
			rt, reader := instrumented(t, &awsretry.Transport{Base: httpfake.Statuses(503), MaxAttempts: 1})
			req := request(t, t.Context(), tt.method, tt.url)
			req.Method = tt.method // NewRequest changes "" to GET
			send(rt, req)
			wantMetrics(t, reader, []string{
				"awsretry.refusals[{refusal}] awsretry.stop=max_attempts,http.request.method=" + tt.want + " = 1",
			}, "awsretry.refusals")
		})
	}
}
