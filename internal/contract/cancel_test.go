package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A canceled request is not sent, draws no tokens and calls no hook.
func TestCanceledRequestIsNotSent(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	closed := make(chan struct{})
	close(closed)
	for name, tt := range map[string]struct {
		ctx    context.Context
		cancel chan struct{}
		stop   awsretry.Stop
		want   error
	}{
		"canceled":       {canceled, nil, awsretry.StopCanceled, errGone},
		"expired":        {within(t, -time.Second), nil, awsretry.StopDeadline, context.DeadlineExceeded},
		"Request.Cancel": {t.Context(), closed, awsretry.StopCanceled, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &transport{
				Quota: awsretry.QuotaConfig{InitialCost: 10}, Base: notSent(t),
				Prepare: func(*http.Request, int) error { t.Error("Prepare is called"); return nil },
				Observe: func(awsretry.Attempt) { t.Error("Observe is called") },
			}
			req := httpfake.Request(t, tt.ctx, "PUT", strings.NewReader("x"))
			req.Cancel = tt.cancel
			wantNotSent(t, send(tr, req).err, tt.stop, tt.want)
			for _, state := range tr.Partitions() {
				if state.Tokens != 500 {
					t.Errorf("%d tokens", state.Tokens)
				}
			}
		})
	}
}

// If the caller cancels before the first attempt, nothing is sent, however far
// the call has come.
func TestCancelBeforeTheFirstAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tr := &transport{Partition: func(*http.Request) string { cancel(); return "" }, Base: notSent(t)}
	send(tr, httpfake.Request(t, ctx, "GET", nil)).wantIs(t, context.Canceled)
}

// A cancel in the delay ends the call at once. The error names the cause and
// the failure before it. FailFast decides after the delay.
func TestCancelInTheDelay(t *testing.T) {
	for _, tt := range []struct {
		by       string
		failure  outcome
		says     string
		failFast bool
	}{
		{"context", busy, "Service Unavailable", false},
		{"context, with FailFast", busy, "Service Unavailable", true},
		{"Request.Cancel", busy, "Service Unavailable", false},
		{"Request.Cancel of an http.Client with a Timeout", fails(errReset), errReset.Error(), false},
	} {
		inBubble(t, tt.by, func(t *testing.T) {
			body := httpfake.NewBody(strings.NewReader("busy"))
			var seen []awsretry.Attempt
			tr := &transport{
				Mode: awsretry.Adaptive, Backoff: delayed(20 * time.Second),
				Base:    httpfake.Base(func(req *http.Request) (*http.Response, error) { return tt.failure(req, body) }),
				Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
			}
			tr.RateLimit.FailFast = tt.failFast
			ctx, cancel := context.WithCancelCause(within(t, time.Hour))
			defer cancel(nil)
			req, cause := httpfake.Request(t, t.Context(), "GET", nil), context.Canceled
			switch tt.by {
			case "Request.Cancel":
				req.Cancel = closeAfter(time.Second)
			case "Request.Cancel of an http.Client with a Timeout":
				req = req.WithContext(ctx)
				req.Cancel = closeAfter(time.Second)
			default:
				req, cause = req.WithContext(ctx), errGone
				time.AfterFunc(time.Second, func() { cancel(errGone) })
			}
			r := send(tr, req)
			r.want(t, 0, awsretry.StopCanceled, time.Second)
			if r.wantIs(t, cause, context.Canceled); !strings.Contains(r.err.Error(), tt.says) {
				t.Errorf("%v does not name the failure before", r.err)
			}
			if wantTokens(t, tr, 500); len(seen) != 1 {
				t.Errorf("%d records", len(seen))
			}
			if seen[0].Response != nil {
				wantClosed(t, body)
			}
		})
	}
}

// A response that has arrived whole when the caller cancels is returned. One
// whose body ended with the context is not.
func TestCancelInTheAttempt(t *testing.T) {
	ends := func(ctx context.Context) io.Reader { return httpfake.SlowReader(ctx, time.Hour, nil) }
	for name, tt := range map[string]struct {
		cancelIn string
		body     func(context.Context) io.Reader // nil: whole
	}{
		"in Base":                  {"Base", nil},
		"when the body is read":    {"Policy", nil},
		"while the body is read":   {"the body", ends},
		"before the body is read":  {"Base", ends},
		"before a body that fails": {"Base", failAfter},
	} {
		inBubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cancelIn := func(where string) {
				if where == tt.cancelIn {
					cancel(errGone)
				}
			}
			sends := 0
			tr := &transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				sends++
				cancelIn("Base")
				time.AfterFunc(time.Second/10, func() { cancelIn("the body") })
				body := io.NopCloser(strings.NewReader("busy"))
				if tt.body != nil {
					body = httpfake.NewBody(tt.body(ctx))
				}
				return httpfake.Response(req, 503, body), nil
			})}
			tr.Policy = func(a *awsretry.Attempt) awsretry.Class { // called when the body has been read
				cancelIn("Policy")
				return awsretry.DefaultPolicy(a)
			}
			r := send(tr, httpfake.Request(t, ctx, "GET", nil))
			if wantTokens(t, tr, 500); sends != 1 || r.stop != awsretry.StopCanceled {
				t.Errorf("%v after %d attempts", r, sends)
			}
			if tt.body == nil {
				r.wantBody(t, "busy")
			} else if r.wantIs(t, errGone); !strings.Contains(r.String(), "503") {
				t.Errorf("%v", r)
			}
		})
	}
}

// An attempt that the caller ended says nothing about the service: the policy
// does not classify it, and the rate limiter does not count it.
func TestCanceledAttemptIsNotClassified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(awsretry.WithoutRetry(t.Context()))
		time.AfterFunc(100*time.Millisecond, func() { cancel(errGone) })
		var seen []awsretry.Attempt
		tr := &transport{
			Mode: awsretry.Adaptive, Base: inTurn(hangs, ok), Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
			Policy: func(a *awsretry.Attempt) awsretry.Class {
				if a.Err != nil {
					t.Error("the policy is asked")
				}
				return awsretry.DefaultPolicy(a)
			},
		}
		send(tr, httpfake.Request(t, ctx, "GET", nil)).wantIs(t, errGone)
		if len(seen) != 1 || seen[0].Stop != awsretry.StopCanceled || seen[0].Class != awsretry.Permanent {
			t.Errorf("%+v", seen)
		}
		time.Sleep(time.Second)
		sendGet(t, tr).want(t, 200, "", 0)
		const want = 0.8 // one outcome in the first second, smoothed
		if state, _ := tr.State("service.example"); state.MeasuredRate != want {
			t.Errorf("measured %v outcomes a second, want %v", state.MeasuredRate, want)
		}
	})
}

// A cancel also ends the waits of a call, and leaves no goroutine.
func TestCancelOfAWait(t *testing.T) {
	const after = 2 * time.Second
	slow := awsretry.QuotaConfig{Capacity: 10, InitialCost: 10, RefillPerSecond: 0.01, Wait: true}
	for name, tt := range map[string]struct {
		tr     *transport
		first  outcome // of a request before
		base   httpfake.Base
		query  string
		body   io.Reader // of the request
		legacy bool      // Request.Cancel
	}{
		"for a send token": {
			tr:    &transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.01}},
			first: throttled, legacy: true,
		},
		"for tokens of a first attempt": {tr: &transport{Quota: slow}, first: throttled, legacy: true},
		"for an error that Amazon S3 may still write into a 200": {
			tr: &transport{}, query: "uploadId=1", legacy: true,
			base: func(req *http.Request) (*http.Response, error) {
				body := io.MultiReader(strings.NewReader("<?xml version='1.0'?>\n"), failAfter(req.Context()))
				return httpfake.Response(req, 200, httpfake.NewBody(body)), nil
			},
		},
		"for a Read of the request body": {
			tr: &transport{}, body: everyNow(time.Minute), base: func(req *http.Request) (*http.Response, error) {
				go httpfake.Receive(req)
				time.Sleep(1500 * time.Millisecond)
				return httpfake.Response(req, 503, http.NoBody), nil
			},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			tr := tt.tr
			tr.MaxAttempts, tr.Backoff = 2, delayed(0)
			if tt.first != nil {
				tr.MaxAttempts, tr.Base = 1, always(tt.first)
				sendGet(t, tr).response(t)
				tt.base = notSent(t)
			}
			sends := 0
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) { sends++; return tt.base(req) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req := httpfake.Request(t, ctx, "POST", tt.body)
			if req.URL.RawQuery = tt.query; tt.legacy {
				req.Cancel = closeAfter(after)
			} else {
				time.AfterFunc(after, cancel)
			}
			r := send(tr, req)
			r.want(t, 0, awsretry.StopCanceled, after)
			if r.wantIs(t, context.Canceled); sends > 1 {
				t.Errorf("%d attempts", sends)
			}
			time.Sleep(time.Hour) // until the body is read
		})
	}
}

// A delay is not begun that http.Client.Timeout would end.
func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Base: httpfake.Statuses(503), Backoff: delayed(3 * time.Second)}
		client := http.Client{Timeout: 5 * time.Second, Transport: tr}
		r := sendGet(t, httpfake.Base(client.Do))
		r.want(t, 503, awsretry.StopDeadline, 3*time.Second)
		r.wantBody(t, "")
	})
}

// A delay that would not end before the deadline is not begun: the outcome is
// returned at once.
func TestDelayThatWouldPassTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		failure  outcome // with delays of 1 s and 2 s, or as Retry-After says
		status   int
		deadline time.Duration
		attempts int
		took     time.Duration
		stop     awsretry.Stop
	}{
		{busy, 503, time.Second, 1, 0, awsretry.StopDeadline}, // nothing could be sent after the delay
		{busy, 503, 1001 * time.Millisecond, 2, time.Second, awsretry.StopDeadline},
		{busy, 503, 4 * time.Second, 3, 3 * time.Second, awsretry.StopMaxAttempts},
		{responds(429, "Retry-After", "10"), 429, 20 * time.Second, 2, 10 * time.Second, awsretry.StopDeadline},
		{fails(errReset), 0, 3 * time.Second, 2, time.Second, awsretry.StopDeadline},
	} {
		inBubble(t, fmt.Sprint(tt.status, " before ", tt.deadline), func(t *testing.T) {
			sends := 0
			tr := &transport{Backoff: noJitter, RetryAfterSpread: -1}
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				sends++
				return tt.failure(req, httpfake.NewBody(strings.NewReader("busy")))
			})
			r := send(tr, httpfake.Request(t, within(t, tt.deadline), "GET", nil))
			if r.want(t, tt.status, tt.stop, tt.took); sends != tt.attempts {
				t.Errorf("%d attempts, want %d", sends, tt.attempts)
			}
			if tt.status > 0 {
				r.wantBody(t, "busy")
			} else if r.wantIs(t, errReset); errors.Is(r.err, context.DeadlineExceeded) {
				t.Error(r.err)
			}
		})
	}
}

// The error of a deadline in an attempt names the failure before it.
func TestDeadlineNamesTheFailureBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := within(t, time.Second)
		r := send(retrying(inTurn(busy, hangs)), httpfake.Request(t, ctx, "GET", nil))
		if r.wantIs(t, context.DeadlineExceeded); !strings.Contains(r.err.Error(), "503") {
			t.Error(r.err)
		}
	})
}

// If the line in front and the retry tokens would take until after the deadline, the
// response is returned at once, and no place in line is taken. The delay passes
// during the wait.
func TestQuotaLineThatWouldPassTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{
			Base: httpfake.Statuses(503), MaxAttempts: 2, Backoff: delayed(time.Second),
			Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 0.5, Wait: true},
		}
		results := make(chan result, 3)
		for range 3 { // the first finds 5 tokens, the second waits 10 s for 5 more, the third would wait 20 s
			go func() { results <- send(tr, httpfake.Request(t, within(t, 19500*time.Millisecond), "GET", nil)) }()
		}
		(<-results).want(t, 503, awsretry.StopDeadline, 0)
		(<-results).want(t, 503, awsretry.StopMaxAttempts, time.Second)
		(<-results).want(t, 503, awsretry.StopMaxAttempts, 10*time.Second)
		wantTokens(t, tr, 0)
	})
}

// A hastyContext has a deadline that comes nearer after some looks at it.
type hastyContext struct {
	context.Context
	looks *int // that are left
}

func (c hastyContext) Deadline() (time.Time, bool) {
	if *c.looks--; *c.looks >= 0 {
		return time.Now().Add(time.Hour), true
	}
	return time.Now().Add(time.Second), true
}

// If others join the line between the decision to retry and the wait, the
// response is still there to be returned.
func TestLineThatGrows(t *testing.T) {
	for status, tr := range map[int]*transport{
		503: {Quota: awsretry.QuotaConfig{Capacity: 5, RefillPerSecond: 1, Wait: true}}, // the first retry draws all tokens
		429: {Mode: awsretry.Adaptive},
	} {
		looks := map[int]int{503: 1, 429: 2}[status] // of the decision
		inBubble(t, fmt.Sprint(status), func(t *testing.T) {
			left := 0
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, status, httpfake.NewBody(strings.NewReader("busy"))), nil
			})
			tr.Backoff = awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { left = looks; return 0 })
			r := send(tr, httpfake.Request(t, hastyContext{t.Context(), &left}, "GET", nil))
			r.want(t, status, awsretry.StopDeadline, 0)
			r.wantBody(t, "busy")
		})
	}
}

// The Timeout of an http.Client closes Request.Cancel when the context's
// deadline passes. Whichever net/http sees first, the call ends at its deadline.
func TestClientTimeoutIsADeadline(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	for _, tr := range []*transport{{}, {Base: httpfake.Base(http.DefaultTransport.RoundTrip)}} {
		const calls = 40
		seen := make(chan awsretry.Attempt, 2*calls)
		tr.Observe = func(a awsretry.Attempt) { seen <- a }
		var wait sync.WaitGroup
		for range calls {
			wait.Go(func() {
				client := http.Client{Transport: tr, Timeout: 200 * time.Millisecond}
				_, err := client.Get(server.URL)
				var timeout net.Error
				if !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("%v is no timeout", err)
				}
				if failed := new(awsretry.Error); errors.As(err, &failed) && failed.Stop != awsretry.StopDeadline ||
					strings.Contains(fmt.Sprint(err), "request canceled") {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		tr.CloseIdleConnections()
		if len(seen) != calls {
			t.Errorf("%d attempts were observed, want %d", len(seen), calls)
		}
		for range len(seen) {
			if a := <-seen; a.Stop != awsretry.StopDeadline || !errors.Is(a.Err, context.DeadlineExceeded) {
				t.Errorf("stopped by %q: %v", a.Stop, a.Err)
			}
		}
	}
}
