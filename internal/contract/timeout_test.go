package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// wantTimeoutOf fails unless err says that a limit is over, and does not look
// like the caller's own deadline.
func wantTimeoutOf(t *testing.T, limit string, err error) {
	t.Helper()
	var timeout interface{ Timeout() bool }
	if err == nil || !strings.Contains(err.Error(), limit) || errors.Is(err, context.DeadlineExceeded) ||
		!errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is not the %s", err, limit)
	}
}

func wantTimeoutError(t *testing.T, err error) { t.Helper(); wantTimeoutOf(t, "AttemptTimeout", err) }
func wantStall(t *testing.T, err error)        { t.Helper(); wantTimeoutOf(t, "StallTimeout", err) }

// contexts are those of the attempts of a call.
type contexts []context.Context

// of makes c note the contexts of base's requests. Those of the attempts before
// must have ended.
func (c *contexts) of(t *testing.T, base httpfake.Base) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		c.wantEnded(t)
		*c = append(*c, req.Context())
		return base(req)
	}
}

func (c *contexts) wantEnded(t *testing.T) {
	t.Helper()
	for i, ctx := range *c {
		if ctx.Err() == nil {
			t.Errorf("the context of attempt %d outlives it", i+1)
		}
	}
}

// slowly returns a Base that responds after headers, with a body whose Reads
// take as long as read.
func slowly(headers, read time.Duration, status int, body string) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		ctx := req.Context()
		select {
		case <-time.After(headers):
		case <-ctx.Done():
			return nil, fmt.Errorf("base: %w", ctx.Err())
		}
		slow := httpfake.SlowReader(ctx, read, strings.NewReader(body))
		return httpfake.Response(req, status, httpfake.NewBody(slow)), nil
	}
}

// AttemptTimeout covers an attempt up to the end of its response body.
func TestAttemptTimeout(t *testing.T) {
	const limit = 10 * time.Second
	for _, tt := range []struct {
		name string
		base httpfake.Base
		fate string // "", or what is cut
		body string
	}{
		{"in time", slowly(9*time.Second, 400*time.Millisecond, 200, "good"), "", "good"},
		{"slow headers", slowly(11*time.Second, 0, 200, "good"), "headers", ""},
		{"slow body", slowly(5*time.Second, 6*time.Second, 200, "good"), "body", ""},
		{"slow error body", slowly(0, 11*time.Second, 400, "bad"), "body", ""},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var attempts contexts
			tr := retrying(attempts.of(t, tt.base))
			tr.AttemptTimeout = limit
			start := time.Now()
			r := sendGet(t, tr)
			if tt.fate == "headers" {
				r.want(t, 0, awsretry.StopMaxAttempts, 3*limit)
				wantTimeoutError(t, r.err)
				wantTokens(t, tr, 480) // two retries after a timeout
				return
			}
			got, err := io.ReadAll(r.Body)
			if tt.fate == "body" {
				wantTimeoutError(t, err)
				if took := time.Since(start); took != limit {
					t.Errorf("cut after %v", took)
				}
			} else if err != nil {
				t.Error(err)
			}
			if attempts.wantEnded(t); string(got) != tt.body || len(attempts) != 1 {
				t.Errorf("read %q by attempt %d", got, len(attempts))
			}
			r.Body.Close()
		})
	}
}

// use resolves the settings of a Transport, so that the next request may take the
// fast path.
func use(t *testing.T, tr *transport) {
	t.Helper()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	wantNotSent(t, send(tr, httpfake.Request(t, canceled, "GET", nil)).err, awsretry.StopCanceled)
}

// The context of an attempt ends at the end of its body, with its Close, or
// with the attempt if that has no body. That of a response that is retried has
// ended before the retry.
func TestAttemptContextEndsWithTheBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		base   outcome
		size   int // of the body
		closed bool
		lives  bool // the context outlives RoundTrip
	}{
		{"200, closed", ok, 10, true, true},
		{"200, read", ok, 10, false, true},
		{"503, read ahead", busy, 10, true, false},
		{"503 that is longer, closed", busy, 3 * peekLimit, true, true},
		{"503 that is longer, read", busy, 3 * peekLimit, false, true},
		{"error", fails(errReset), 0, false, false},
		{"neither response nor error", fails(nil), 0, false, false},
		{"204", responds(204), 0, false, false},
		{"panic", panics, 0, false, false},
	} {
		for _, timeout := range []time.Duration{time.Hour, 0} {
			t.Run(fmt.Sprintf("%s, timeout %v", tt.name, timeout), func(t *testing.T) {
				var attempts contexts
				tr := retrying(attempts.of(t, func(req *http.Request) (*http.Response, error) {
					if tt.size == 0 {
						return tt.base(req, http.NoBody)
					}
					return tt.base(req, httpfake.NewBody(strings.NewReader(httpfake.Text(tt.size))))
				}))
				tr.AttemptTimeout, tr.MaxAttempts = timeout, 2
				use(t, tr)
				resp, err, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "GET", nil))
				if len(attempts) == 0 || panicked != (tt.name == "panic") {
					t.Fatalf("%d attempts; panicked: %v; %v", len(attempts), panicked, err)
				}
				if tt.lives && attempts[len(attempts)-1].Err() != nil {
					t.Error("the context ends before the body")
				}
				switch {
				case tt.closed:
					resp.Body.Close()
				case tt.size > 0:
					if n, err := io.Copy(io.Discard, resp.Body); n != int64(tt.size) || err != nil {
						t.Errorf("read %d, %v", n, err)
					}
				}
				attempts.wantEnded(t)
			})
		}
	}
}

// Base derives contexts from that of an attempt as from any other, without a
// goroutine for each. They end with it, or with the caller's and its cause. The
// caller sees its own context.
func TestContextsDerivedFromAnAttempt(t *testing.T) {
	type key struct{}
	for _, timeout := range []time.Duration{0, time.Hour} { // the first takes the fast path
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			for _, end := range []string{"body", "caller"} {
				inBubble(t, fmt.Sprintf("timeout %v, %s, ended by the %s", timeout, mode, end), func(t *testing.T) {
					var derived []context.Context
					ended := false
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						ctx := req.Context()
						if deadline, ok := ctx.Deadline(); ok != (timeout > 0) || ok && time.Until(deadline) != timeout {
							t.Errorf("the deadline is %v, %v", deadline, ok)
						}
						goroutines := runtime.NumGoroutine()
						within, stop := context.WithTimeout(context.WithValue(ctx, key{}, "inner"), time.Minute)
						t.Cleanup(stop)
						child, cancel := context.WithCancelCause(within)
						t.Cleanup(func() { cancel(nil) })
						context.AfterFunc(child, func() { ended = true })
						if more := runtime.NumGoroutine() - goroutines; more != 0 {
							t.Errorf("%d goroutines for the contexts", more)
						}
						derived = []context.Context{ctx, within, child}
						return ok(req, httpfake.NewBody(strings.NewReader("body")))
					})
					tr.AttemptTimeout, tr.Mode = timeout, mode
					use(t, tr)
					ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "outer"))
					defer cancel(nil)
					req := httpfake.Request(t, ctx, "GET", nil)
					resp := send(tr, req).response(t)
					if derived[0] == ctx || derived[0].Value(key{}) != "outer" || derived[2].Value(key{}) != "inner" {
						t.Errorf("the contexts are %v", derived)
					}
					if resp.Request != req {
						t.Error("the response is not of the caller's request")
					}
					want := context.Canceled
					if end == "caller" {
						cancel(errGone)
						want = errGone
					} else {
						resp.Body.Close()
					}
					synctest.Wait()
					for i, ctx := range derived {
						if ctx.Err() != context.Canceled || context.Cause(ctx) != want {
							t.Errorf("context %d ended with %v, %v", i, ctx.Err(), context.Cause(ctx))
						}
					}
					if !ended {
						t.Error("AfterFunc did not run")
					}
					resp.Body.Close()
				})
			}
		}
	}
}

// While RoundTrip keeps a response, for the delay or for a Read of the request
// body, its AttemptTimeout does not run.
func TestTimeoutStandsStill(t *testing.T) {
	for name, tt := range map[string]struct {
		tr     *transport
		source io.Reader // of the request
		stop   awsretry.Stop
	}{
		"long poll": {&transport{
			LongPoll: func(*http.Request) bool { return true }, Quota: quota{Capacity: 1},
		}, nil, awsretry.StopQuota},
		"fail fast": {&transport{
			Mode: awsretry.Adaptive, RateLimit: rateLimit{FailFast: true, MinFillRate: 1e-3, Beta: 1e-6},
		}, nil, awsretry.StopRateLimit},
		"Read": {&transport{}, everyNow(time.Hour), awsretry.StopBody},
		"delay, then Read": {&transport{
			Mode: awsretry.Adaptive, RateLimit: rateLimit{FailFast: true}, MaxBodyBuffer: 10,
		}, everyNow(5*time.Second/2, httpfake.Text(20), "b", "c", "d", "e"), awsretry.StopBody},
	} {
		inBubble(t, name, func(t *testing.T) {
			data := httpfake.Text(3 * peekLimit)
			tt.tr.AttemptTimeout, tt.tr.Backoff = 10*time.Second, delayed(15*time.Second)
			tt.tr.Base = receiving(func(req *http.Request, _ io.ReadCloser) (*http.Response, error) {
				time.Sleep(2 * time.Second)
				body := httpfake.NewBody(until(req.Context(), strings.NewReader(data)))
				return httpfake.Response(req, 429, body, "Content-Type", "image/png"), nil
			})
			r := send(tt.tr, httpfake.Request(t, t.Context(), "PUT", tt.source))
			r.want(t, 429, tt.stop, 17*time.Second+time.Millisecond) // with that of receiving
			time.Sleep(7 * time.Second)                              // of the 8 that are left
			half := make([]byte, len(data)/2)
			if _, err := io.ReadFull(r.Body, half); err != nil || string(half) != data[:len(half)] {
				t.Errorf("reading the response: %v", err)
			}
			time.Sleep(2 * time.Second)
			_, err := readToEnd(r.Response)
			wantTimeoutError(t, err)
			time.Sleep(2 * time.Hour) // until the request's body is read
		})
	}
}

// StallTimeout ends a Read without a byte. Neither a download that takes long
// nor a caller that does is a stall.
func TestStallTimeout(t *testing.T) {
	const limit, quiet = 10 * time.Second, 9 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var attempts contexts
		tr := retrying(attempts.of(t, func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Minute) // the headers do not count
			drops := httpfake.SlowReader(req.Context(), quiet, iotest.OneByteReader(strings.NewReader("slowly")))
			return httpfake.Response(req, 200, httpfake.NewBody(io.MultiReader(drops, failAfter(req.Context())))), nil
		}))
		tr.StallTimeout = limit
		r := sendGet(t, tr)
		buf := make([]byte, 6)
		for _, half := range [][]byte{buf[:3], buf[3:]} {
			time.Sleep(time.Hour)
			if _, err := io.ReadFull(r.Body, half); err != nil || attempts[0].Err() != nil {
				t.Fatalf("%v; the attempt's context has ended: %v", err, attempts[0].Err())
			}
		}
		start := time.Now()
		_, err := r.Body.Read(make([]byte, 1))
		wantStall(t, err)
		// The drops have an end too, which takes 9 s.
		if took := time.Since(start); string(buf) != "slowly" || took != limit {
			t.Errorf("%q, stalled after %v", buf, took)
		}
		attempts.wantEnded(t)
		r.Body.Close()
	})
}

// A stall of an error body that is read for its code ends that Read too, which the
// caller takes over.
func TestStalledErrorBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := unpaid(func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, 503, hangingResponse(req.Context())), nil
		})
		tr.StallTimeout = 5 * time.Second
		r := sendGet(t, tr)
		r.want(t, 503, awsretry.StopQuota, time.Second)
		got, err := readToEnd(r.Response)
		if wantStall(t, err); got != "x" {
			t.Errorf("read %q", got)
		}
	})
}

// A connection that was upgraded may be silent, and its peer may have no more
// to say while the caller has.
func TestUpgradedConnectionDoesNotStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &writableBody{Body: httpfake.NewBody(httpfake.SlowReader(t.Context(), time.Hour, strings.NewReader("hi")))}
		var attempts contexts
		tr := retrying(attempts.of(t, respondsWith(101, conn)))
		tr.StallTimeout = time.Second
		r := sendGet(t, tr)
		if got, err := io.ReadAll(r.Body); string(got) != "hi" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if attempts[0].Err() != nil {
			t.Error("the end of what the peer sends ended the connection")
		}
		wantWritable(t, conn, r.Body)
		r.Body.Close()
		attempts.wantEnded(t)
	})
}
