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
	"example.com/awsretry/internal/httpfake"
)

func TestRefusals(t *testing.T) {
	later := httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 503, http.NoBody, "Retry-After", "3600"), nil
	})
	noCredentials := func(*http.Request, int) error { return errors.New("no credentials") }
	oneShot := func(req *http.Request) *http.Request {
		req.Body = httpfake.NewBody(strings.NewReader("a stream"))
		return req
	}
	outerLoop := func(req *http.Request) *http.Request {
		req.Header.Set("Amz-Sdk-Request", "attempt=1; max=3")
		return req
	}
	withoutRetry := func(req *http.Request) *http.Request {
		return req.WithContext(awsretry.WithoutRetry(req.Context()))
	}
	for _, tt := range []struct {
		name, stop string // stop: "": no refusal
		base       httpfake.Base
		tr         *awsretry.Transport               // nil: the zero Transport
		change     func(*http.Request) *http.Request // nil: nothing
	}{
		{name: "success", base: httpfake.Statuses(200)},
		{name: "success after a retry", base: httpfake.Statuses(503, 200)},
		{name: "permanent", base: httpfake.Statuses(404)},
		{name: "permanent after a retry", base: httpfake.Statuses(503, 404)},
		{name: "permanent error", base: failsWith(http.ErrSchemeMismatch)},
		{name: "wrong settings", base: httpfake.Statuses(503), tr: &awsretry.Transport{MaxAttempts: -1}},
		{name: "error from Prepare", base: httpfake.Statuses(503), tr: &awsretry.Transport{Prepare: noCredentials}},
		{name: "attempts", stop: "max_attempts", base: httpfake.Statuses(503)},
		{name: "attempts, with an error", stop: "max_attempts", base: failsWith(io.EOF)},
		{
			name: "quota", stop: "quota", base: httpfake.Statuses(503),
			tr: &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 5}},
		},
		{name: "deadline", stop: "deadline", base: httpfake.Statuses(503), change: within(500*time.Millisecond, 0)},
		{
			name: "canceled in the delay", stop: "canceled", base: httpfake.Statuses(503),
			change: within(time.Hour, 500*time.Millisecond),
		},
		{name: "canceled before", stop: "canceled", base: httpfake.Statuses(503), change: within(-1, 0)},
		{
			name: "body", stop: "body", base: httpfake.Statuses(503),
			tr: &awsretry.Transport{MaxBodyBuffer: -1}, change: oneShot,
		},
		{name: "Retry-After", stop: "retry_after", base: later},
		{name: "outer loop", stop: "outer_retry", base: httpfake.Statuses(503), change: outerLoop},
		{name: "disabled", stop: "disabled", base: httpfake.Statuses(503), change: withoutRetry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := tt.tr
				if tr == nil {
					tr = new(awsretry.Transport)
				}
				tr.Base = slow(tt.base)
				rt, reader := instrumented(t, tr)
				req := httpfake.Request(t, t.Context(), "PUT", nil)
				if tt.change != nil {
					req = tt.change(req)
				}
				send(rt, req)
				synctest.Wait()
				var want []string
				if tt.stop != "" {
					want = []string{refusal(tt.stop, "PUT")}
				}
				wantMetrics(t, reader, want, "awsretry.refusals")
			})
		})
	}
}

// within gives a request a deadline. If cancelAfter is not 0, it cancels the
// request earlier.
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

// Requests that are refused before their first attempt are counted once, those
// to the inner Transport too, and not as attempts.
func TestRefusedBeforeSending(t *testing.T) {
	for stop, tr := range map[string]*awsretry.Transport{
		"rate_limit": {Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true}},
		"quota":      {Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5}},
	} {
		t.Run(stop, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr.Base, tr.MaxAttempts = httpfake.Statuses(429), 1
				rt, reader := instrumented(t, tr)
				for range 3 {
					get(t, t.Context(), rt)
				}
				for range 2 {
					get(t, t.Context(), rt.Transport)
				}
				wantMetrics(t, reader, []string{
					refusals(stop, "GET", 4),
					refusal("max_attempts", "GET"),
					recorded{class: "throttled", method: "GET", status: 429}.attempt(),
				}, "client.call.attempts", "awsretry.refusals")
			})
		})
	}
}
