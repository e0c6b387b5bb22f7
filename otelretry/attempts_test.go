package otelretry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"go.opentelemetry.io/otel/attribute"
)

const server = "server.address=service.example,server.port=80"

func TestAttempts(t *testing.T) {
	throttled := baseFunc(func(req *http.Request) (*http.Response, error) {
		time.Sleep(100 * time.Millisecond)
		resp := answer(req, 400)
		resp.Header.Set("X-Amzn-ErrorType", "ThrottlingException")
		return resp, nil
	})
	hidden := baseFunc(func(req *http.Request) (*http.Response, error) {
		time.Sleep(100 * time.Millisecond)
		resp := answer(req, 200)
		resp.Body = io.NopCloser(strings.NewReader("<Error><Code>AccessDenied</Code></Error>"))
		return resp, nil
	})
	tests := []struct {
		name string
		tr   *awsretry.Transport
		want []string
	}{
		{"success", &awsretry.Transport{Base: answersWith(200)}, []string{
			"client.call.attempt_duration[s] awsretry.class=success,awsretry.partition=service.example,awsretry.retry=false,http.request.method=PUT,http.response.status_code=200,SERVER = 1 of 0.1",
			"client.call.attempts[{attempt}] awsretry.class=success,awsretry.partition=service.example,awsretry.retry=false,http.request.method=PUT,http.response.status_code=200,SERVER = 1",
		}},
		{"success after retries", &awsretry.Transport{Base: answersWith(503, 500, 204)}, []string{
			"client.call.attempt_duration[s] awsretry.class=success,awsretry.partition=service.example,awsretry.retry=true,http.request.method=PUT,http.response.status_code=204,SERVER = 1 of 0.1",
			"client.call.attempt_duration[s] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=false,error.type=503,http.request.method=PUT,http.response.status_code=503,SERVER = 1 of 0.1",
			"client.call.attempt_duration[s] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=true,error.type=500,http.request.method=PUT,http.response.status_code=500,SERVER = 1 of 0.1",
			"client.call.attempts[{attempt}] awsretry.class=success,awsretry.partition=service.example,awsretry.retry=true,http.request.method=PUT,http.response.status_code=204,SERVER = 1",
			"client.call.attempts[{attempt}] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=false,error.type=503,http.request.method=PUT,http.response.status_code=503,SERVER = 1",
			"client.call.attempts[{attempt}] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=true,error.type=500,http.request.method=PUT,http.response.status_code=500,SERVER = 1",
			"client.call.errors[{error}] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=false,error.type=503,http.request.method=PUT,http.response.status_code=503,SERVER = 1",
			"client.call.errors[{error}] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=true,error.type=500,http.request.method=PUT,http.response.status_code=500,SERVER = 1",
		}},
		{"throttling", &awsretry.Transport{Base: throttled}, []string{
			"client.call.attempt_duration[s] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=false,error.type=400,http.request.method=PUT,http.response.status_code=400,SERVER = 1 of 0.1",
			"client.call.attempt_duration[s] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=true,error.type=400,http.request.method=PUT,http.response.status_code=400,SERVER = 2 of 0.2",
			"client.call.attempts[{attempt}] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=false,error.type=400,http.request.method=PUT,http.response.status_code=400,SERVER = 1",
			"client.call.attempts[{attempt}] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=true,error.type=400,http.request.method=PUT,http.response.status_code=400,SERVER = 2",
			"client.call.errors[{error}] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=false,error.type=400,http.request.method=PUT,http.response.status_code=400,SERVER = 1",
			"client.call.errors[{error}] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=true,error.type=400,http.request.method=PUT,http.response.status_code=400,SERVER = 2",
		}},
		{"an error in a 200", &awsretry.Transport{Base: hidden}, failedOnce("permanent", "_OTHER", 200)},
		{"no connection", &awsretry.Transport{MaxAttempts: 1, Base: failsWith(&net.OpError{Op: "dial", Err: errors.New("refused")})},
			failedOnce("transient", "*net.OpError", 0)},
		{"a time-out", &awsretry.Transport{MaxAttempts: 1, Base: failsWith(&net.OpError{Op: "dial", Err: context.DeadlineExceeded})},
			failedOnce("timeout", "timeout", 0)},
		{"a time-out by the policy", &awsretry.Transport{MaxAttempts: 1, Base: failsWith(io.EOF),
			Policy: func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout }}, failedOnce("timeout", "timeout", 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, reader := instrumented(t, tt.tr)
				req := request(t, t.Context(), "PUT", "http://Service.example/path?secret=1")
				req.Header.Set("X-Amz-Copy-Source", "bucket/key")
				send(rt, req)
				differ(t, collected(t, reader, "client."), withServer(tt.want))
			})
		})
	}
}

func withServer(lines []string) []string {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "SERVER", server)
	}
	return lines
}

// failedOnce is what one failed PUT of 100 ms is recorded as.
func failedOnce(class, errorType string, status int) []string {
	attrs := "awsretry.class=" + class + ",awsretry.partition=service.example,awsretry.retry=false,error.type=" + errorType + ",http.request.method=PUT,"
	if status != 0 {
		attrs += "http.response.status_code=200,"
	}
	return []string{
		"client.call.attempt_duration[s] " + attrs + "SERVER = 1 of 0.1",
		"client.call.attempts[{attempt}] " + attrs + "SERVER = 1",
		"client.call.errors[{error}] " + attrs + "SERVER = 1",
	}
}

// An attempt that its caller ended is recorded although its context has ended, by the way in which it did.
func TestEndedAttempts(t *testing.T) {
	tests := []struct {
		errorType string
		within    func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"timeout", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		}},
		{"canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("the user went away")) })
			return ctx, func() { cancel(nil) }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.errorType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, reader := instrumented(t, &awsretry.Transport{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					return nil, context.Cause(req.Context())
				})})
				ctx, cancel := tt.within(t.Context())
				defer cancel()
				get(t, ctx, rt)
				differ(t, collected(t, reader, "client.call.errors", "awsretry.refusals"), []string{
					"awsretry.refusals[{refusal}] awsretry.stop=canceled,http.request.method=GET," + server + " = 1",
					"client.call.errors[{error}] awsretry.class=permanent,awsretry.partition=service.example,awsretry.retry=false,error.type=" + tt.errorType + ",http.request.method=GET," + server + " = 1",
				})
			})
		})
	}
}

func TestAttributesOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attrs := []attribute.KeyValue{attribute.String("rpc.service", "DynamoDB"), attribute.String("server.address", "mine")}
		rt, reader := instrumented(t, &awsretry.Transport{Base: answersWith(503), MaxAttempts: 1}, attrs...)
		attrs[0] = attribute.String("changed", "later")
		get(t, t.Context(), rt)
		differ(t, collected(t, reader, "client.call.attempts", "awsretry.refusals", "awsretry.tokens"), []string{
			"awsretry.refusals[{refusal}] awsretry.stop=max_attempts,http.request.method=GET,rpc.service=DynamoDB,server.address=mine,server.port=80 = 1",
			"awsretry.tokens[{token}] awsretry.partition=service.example,rpc.service=DynamoDB,server.address=mine = 500",
			"client.call.attempts[{attempt}] awsretry.class=transient,awsretry.partition=service.example,awsretry.retry=false,error.type=503,http.request.method=GET,http.response.status_code=503,rpc.service=DynamoDB,server.address=mine,server.port=80 = 1",
		})
	})
}

func TestServersAndMethods(t *testing.T) {
	tests := []struct{ method, url, want string }{
		{"", "https://a.example/", "http.request.method=GET,server.address=a.example,server.port=443"},
		{"DELETE", "https://a.example:8443/", "http.request.method=DELETE,server.address=a.example,server.port=8443"},
		{"PURGE", "http://[::1]:8080/", "http.request.method=_OTHER,server.address=::1,server.port=8080"},
		{"GET", "unix://a.example/", "http.request.method=GET,server.address=a.example"},
		{"GET", "http://a.example:99999/", "http.request.method=GET,server.address=a.example,server.port=80"},
		{"GET", "file:///path", "http.request.method=GET"},
		{"GET", "http://" + strings.Repeat("a", 261) + "/", "http.request.method=GET,server.address=_OTHER"},
		{"GET", "http://%ff.example/", "http.request.method=GET,server.address=\uFFFD.example,server.port=80"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, reader := instrumented(t, &awsretry.Transport{Base: answersWith(503), MaxAttempts: 1})
				req := request(t, t.Context(), tt.method, tt.url)
				req.Method = tt.method // "" is GET, which NewRequest would say
				send(rt, req)
				differ(t, collected(t, reader, "awsretry.refusals"), []string{
					"awsretry.refusals[{refusal}] awsretry.stop=max_attempts," + tt.want + " = 1",
				})
			})
		})
	}
}
