package otelretry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

func TestRefusals(t *testing.T) {
	later := baseFunc(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, 503)
		resp.Header.Set("Retry-After", "3600")
		return resp, nil
	})
	busy := func() baseFunc { return answersWith(503) }
	tests := []struct {
		name, want string
		tr         *awsretry.Transport
		change     func(*http.Request) *http.Request
	}{
		{"success", "", &awsretry.Transport{Base: answersWith(200)}, nil},
		{"success after a retry", "", &awsretry.Transport{Base: answersWith(503, 200)}, nil},
		{"permanent", "", &awsretry.Transport{Base: answersWith(404)}, nil},
		{"permanent after a retry", "", &awsretry.Transport{Base: answersWith(503, 404)}, nil},
		{"permanent error", "", &awsretry.Transport{Base: failsWith(http.ErrSchemeMismatch)}, nil},
		{"wrong settings", "", &awsretry.Transport{Base: busy(), MaxAttempts: -1}, nil},
		{"error from Prepare", "", &awsretry.Transport{Base: busy(), Prepare: func(*http.Request, int) error {
			return errors.New("no credentials")
		}}, nil},
		{"attempts", "max_attempts", &awsretry.Transport{Base: busy()}, nil},
		{"attempts, with an error", "max_attempts", &awsretry.Transport{Base: failsWith(io.EOF)}, nil},
		{"quota", "quota", &awsretry.Transport{Base: busy(), Quota: awsretry.QuotaConfig{Capacity: 5}}, nil},
		{"deadline", "deadline", &awsretry.Transport{Base: busy()}, within(500*time.Millisecond, 0)},
		{"canceled in the pause", "canceled", &awsretry.Transport{Base: busy()}, within(time.Hour, 500*time.Millisecond)},
		{"canceled before", "canceled", &awsretry.Transport{Base: busy()}, within(-1, 0)},
		{"body", "body", &awsretry.Transport{Base: busy(), MaxBodyBuffer: -1}, func(req *http.Request) *http.Request {
			req.Method, req.Body = "PUT", io.NopCloser(io.LimitReader(strings.NewReader("a stream"), 100))
			return req
		}},
		{"Retry-After", "retry_after", &awsretry.Transport{Base: later}, nil},
		{"an outer loop", "outer_retry", &awsretry.Transport{Base: busy()}, func(req *http.Request) *http.Request {
			req.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
			return req
		}},
		{"disabled", "disabled", &awsretry.Transport{Base: busy()}, func(req *http.Request) *http.Request {
			return req.WithContext(awsretry.WithoutRetry(req.Context()))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, reader := instrumented(t, tt.tr)
				req := request(t, t.Context(), "PUT", "http://service.example/")
				if tt.change != nil {
					req = tt.change(req)
				}
				send(rt, req)
				synctest.Wait()
				var want []string
				if tt.want != "" {
					want = []string{"awsretry.refusals[{refusal}] awsretry.stop=" + tt.want + ",http.request.method=PUT," + server + " = 1"}
				}
				differ(t, collected(t, reader, "awsretry.refusals"), want)
			})
		})
	}
}

// within gives a request a deadline, and cancels it before that where cancelAfter is not 0.
func within(deadline, cancelAfter time.Duration) func(*http.Request) *http.Request {
	return func(req *http.Request) *http.Request {
		ctx, cancel := context.WithTimeout(req.Context(), deadline)
		if cancelAfter > 0 {
			time.AfterFunc(cancelAfter, cancel)
		} else {
			context.AfterFunc(ctx, cancel)
		}
		return req.WithContext(ctx)
	}
}

// Requests that are refused before their first attempt count too, though no observer is told of them.
func TestRefusedUnsent(t *testing.T) {
	tests := []struct {
		stop string
		tr   *awsretry.Transport
	}{
		{"rate_limit", &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}}},
		{"quota", &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5}}},
	}
	for _, tt := range tests {
		t.Run(tt.stop, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.tr.Base, tt.tr.MaxAttempts = answersWith(429), 1
				rt, reader := instrumented(t, tt.tr)
				for range 5 {
					get(t, t.Context(), rt)
				}
				differ(t, collected(t, reader, "client.call.attempts", "awsretry.refusals"), []string{
					"awsretry.refusals[{refusal}] awsretry.stop=" + tt.stop + ",http.request.method=GET," + server + " = 4",
					"awsretry.refusals[{refusal}] awsretry.stop=max_attempts,http.request.method=GET," + server + " = 1",
					"client.call.attempts[{attempt}] awsretry.class=throttled,awsretry.partition=service.example,awsretry.retry=false,error.type=429,http.request.method=GET,http.response.status_code=429," + server + " = 1",
				})
			})
		})
	}
}
