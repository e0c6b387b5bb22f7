package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"go.opentelemetry.io/otel/attribute"
)

// What one request is recorded as: its attempts, and why no other one was made.
func TestRequests(t *testing.T) {
	responds := func(status int, body string, header ...string) httpfake.Base {
		return func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, status, io.NopCloser(strings.NewReader(body)), header...), nil
		}
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
	once := func() *awsretry.Transport { return &awsretry.Transport{MaxAttempts: 1} }
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
		"permanent": {base: httpfake.Statuses(404), attempts: []recorded{{class: "permanent", status: 404}}},
		"permanent after a retry": {base: httpfake.Statuses(503, 404), attempts: []recorded{
			unavailable, {class: "permanent", status: 404, retry: true},
		}},
		"permanent error": {base: failsWith(http.ErrSchemeMismatch), attempts: []recorded{
			{class: "permanent", errorType: "*errors.errorString"},
		}},
		"error in a 200": {
			base:     responds(200, "<Error><Code>AccessDenied</Code></Error>"),
			attempts: []recorded{{class: "permanent", status: 200, errorType: "_OTHER"}},
		},
		"wrong settings": {tr: &awsretry.Transport{MaxAttempts: -1}},
		"error from Prepare": {tr: &awsretry.Transport{
			Prepare: func(*http.Request, int) error { return errors.New("no credentials") },
		}},

		"throttling": {
			base: responds(400, "", "X-Amzn-ErrorType", "ThrottlingException"), stop: "max_attempts",
			attempts: []recorded{{class: "throttled", status: 400}, {class: "throttled", status: 400, retry: true, times: 2}},
		},
		"no connection": {
			base: failsWith(&net.OpError{Op: "dial", Err: errors.New("refused")}), tr: once(), stop: "max_attempts",
			attempts: []recorded{{class: "transient", errorType: "*net.OpError"}},
		},
		"time-out": {
			base: failsWith(&net.OpError{Op: "dial", Err: context.DeadlineExceeded}), tr: once(), stop: "max_attempts",
			attempts: []recorded{{class: "timeout", errorType: "timeout"}},
		},
		"time-out by the policy": {
			base: failsWith(io.EOF), stop: "max_attempts",
			tr: &awsretry.Transport{
				MaxAttempts: 1, Policy: func(*awsretry.Attempt) awsretry.Class { return awsretry.Timeout },
			},
			attempts: []recorded{{class: "timeout", errorType: "timeout"}},
		},
		"deadline in an attempt": { // which is recorded although its context has ended
			base: hangs, change: within(took / 2), stop: "canceled",
			attempts: []recorded{{class: "permanent", errorType: "timeout"}},
		},
		"canceled in an attempt": {
			base: hangs, change: canceled(took / 2), stop: "canceled",
			attempts: []recorded{{class: "permanent", errorType: "canceled"}},
		},
		"canceled in the delay": {change: canceled(5 * took), attempts: []recorded{unavailable}, stop: "canceled"},
		"canceled before":       {change: within(-1), stop: "canceled"},
		"deadline":              {change: within(5 * took), attempts: []recorded{unavailable}, stop: "deadline"},
		"quota": {
			tr:       &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 5}},
			attempts: []recorded{unavailable, {class: "transient", status: 503, retry: true}}, stop: "quota",
		},
		"body": {
			tr: &awsretry.Transport{MaxBodyBuffer: -1}, change: oneShot, attempts: []recorded{unavailable}, stop: "body",
		},
		"Retry-After": {
			base: responds(503, "", "Retry-After", "3600"), attempts: []recorded{unavailable}, stop: "retry_after",
		},
		"outer loop": {change: outerLoop, attempts: []recorded{unavailable}, stop: "outer_retry"},
		"disabled":   {change: withoutRetry, attempts: []recorded{unavailable}, stop: "disabled"},
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
				wantMetrics(t, reader, want, "client.", "awsretry.refusals")
			})
		})
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
				tr.Base, tr.MaxAttempts = slow(httpfake.Statuses(429)), 1
				rt, reader := instrumented(t, tr)
				for range 3 {
					get(t, t.Context(), rt)
				}
				for range 2 {
					get(t, t.Context(), rt.Transport)
				}
				want := []string{refusals(stop, "GET", 4), refusals("max_attempts", "GET", 1)}
				want = append(want, recorded{class: "throttled", status: 429}.lines("GET")...)
				wantMetrics(t, reader, want, "client.", "awsretry.refusals")
			})
		})
	}
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
		want = append(want, "awsretry.tokens[{token}] awsretry.partition=service.example,"+mine+" = 500")
		wantMetrics(t, reader, want, "client.", "awsretry.")
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
			req := request(t, t.Context(), tt.method, tt.url)
			req.Method = tt.method // NewRequest changes "" to GET
			send(rt, req)
			wantMetrics(t, reader, []string{
				"awsretry.refusals[{refusal}] awsretry.stop=max_attempts,http.request.method=" + tt.want + " = 1",
			}, "awsretry.refusals")
		})
	}
}

// A metric has at most 2000 series, and its sum is right, however many servers
// and statuses there are, and from several goroutines.
func TestSeriesAreLimited(t *testing.T) {
	const callers, hosts, statuses = 4, 3000, 900
	rt, reader := instrumented(t, &awsretry.Transport{
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			status, err := strconv.Atoi(req.Header.Get("Status"))
			return httpfake.Response(req, status, http.NoBody), err
		}), MaxAttempts: 1,
	})
	sendFor := func(status int, method, url string) {
		req := request(t, context.Background(), method, url)
		req.Header.Set("Status", strconv.Itoa(status))
		send(rt, req)
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range hosts {
				sendFor(200, "GET", fmt.Sprintf("http://h%d.example/", i))
			}
			collected(t, reader, "client.", "awsretry.")
		})
	}
	wg.Wait()
	for i := range statuses {
		sendFor(100+i, "PUT", "http://last.example/")
		sendFor(100+i, "POST", "http://last.example/")
	}
	var sum, servers, others, overflow int
	series := collected(t, reader, "client.call.attempts")
	for _, line := range series {
		var n int
		if _, err := fmt.Sscan(line[strings.LastIndex(line, "= ")+2:], &n); err != nil {
			t.Fatal(err)
		}
		sum += n
		other := strings.Contains(line, "server.address=_OTHER")
		if other != strings.Contains(line, "partition=_OTHER") {
			t.Errorf("the server and the partition do not fit: %s", line)
		}
		switch {
		case strings.Contains(line, "otel.metric.overflow=true"):
			overflow += n
		case other:
			others += n
		default:
			servers++
		}
	}
	if sum != callers*hosts+2*statuses || len(series) != 2000 || servers != 1500 || others < hosts-1500 || overflow == 0 {
		t.Errorf("%d attempts in %d series, %d with a server; %d attempts without one, %d in the overflow",
			sum, len(series), servers, others, overflow)
	}
}
