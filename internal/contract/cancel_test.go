package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A canceled request is not sent, draws no tokens and calls no hook.
func TestCanceledRequestIsNotSent(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	expired, end := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer end()
	closed := make(chan struct{})
	close(closed)
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive, awsretry.Legacy} {
		for _, tt := range []struct {
			name   string
			ctx    context.Context
			cancel chan struct{}
			want   []error
		}{
			{"canceled", canceled, nil, []error{errGone, context.Canceled}},
			{"expired", expired, nil, []error{context.DeadlineExceeded}},
			{"Request.Cancel", t.Context(), closed, []error{context.Canceled}},
		} {
			t.Run(tt.name+", "+string(mode), func(t *testing.T) {
				tr := &transport{Mode: mode, Quota: awsretry.QuotaConfig{InitialCost: 10},
					Base: httpfake.Base(
						func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, errReset }),
					Prepare: func(*http.Request, int) error { t.Error("Prepare is called"); return nil },
					Observe: func(awsretry.Attempt) { t.Error("Observe is called") },
				}
				req := httpfake.Request(t, tt.ctx, "PUT", strings.NewReader("x"))
				req.Cancel = tt.cancel
				resp, err := tr.RoundTrip(req)
				if resp != nil {
					t.Errorf("%v, %v", resp, err)
				}
				wantNotSent(t, err, awsretry.StopCanceled, tt.want...)
				for name, state := range tr.Partitions() {
					if mode != awsretry.Legacy && state.Tokens != 500 {
						t.Errorf("%d tokens in %s", state.Tokens, name)
					}
				}
			})
		}
	}
}

// If the caller cancels before the first attempt, nothing is sent, however far
// the call has come.
func TestCancelBeforeTheFirstAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tr := &transport{
		Partition: func(*http.Request) string { cancel(); return "" },
		Base:      httpfake.Base(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, errReset }),
	}
	if _, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A cancel in the delay ends the call at once. The error names the cause and
// the failure before it.
func TestCancelInTheDelay(t *testing.T) {
	for _, failure := range []struct {
		name    string
		outcome outcome
		says    string
	}{
		{"503", busy, "Service Unavailable"},
		{"Retry-After", responds(429, "Retry-After", "30"), "Too Many Requests"},
		{"error", fails(errReset), errReset.Error()},
	} {
		for _, by := range []string{"context", "Request.Cancel", "Request.Cancel before a deadline"} {
			for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
				t.Run(fmt.Sprintf("%s, %s, %s", failure.name, by, mode), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						body := httpfake.NewBody(strings.NewReader("busy"))
						var seen []awsretry.Attempt
						tr := &transport{
							Mode: mode, Backoff: contract.Delay(20 * time.Second),
							Base: httpfake.Base(
								func(req *http.Request) (*http.Response, error) { return failure.outcome(req, body) }),
							Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
						}
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						if by == "Request.Cancel before a deadline" { // as of an http.Client with a Timeout
							var end context.CancelFunc
							ctx, end = context.WithTimeout(ctx, time.Hour)
							defer end()
						}
						req := httpfake.Request(t, ctx, "GET", nil)
						cause := errGone
						if by == "context" {
							time.AfterFunc(time.Second, func() { cancel(errGone) })
						} else {
							cause = context.Canceled
							req.Cancel = closeAfter(time.Second)
						}
						start := time.Now()
						resp, err := tr.RoundTrip(req)
						if took := time.Since(start); took != time.Second ||
							contract.StopOf(resp, err) != awsretry.StopCanceled {
							t.Errorf("%v, %v after %v", resp, err, took)
						}
						if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) ||
							!strings.Contains(err.Error(), failure.says) {
							t.Errorf("%v does not name the cause and the failure before", err)
						}
						if len(seen) != 1 || contract.TokensOf(t, tr) != 500 {
							t.Errorf("%d records, %d tokens", len(seen), contract.TokensOf(t, tr))
						}
						if seen[0].Response != nil && body.Closes() != 1 {
							t.Errorf("the response was closed %d times", body.Closes())
						}
					})
				})
			}
		}
	}
}

// A response that has arrived whole when the caller cancels is returned. One
// whose body ended with the context is not.
func TestCancelWhileTheResponseIsReadAhead(t *testing.T) {
	t.Run("whole", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		tr := &transport{Base: respondsWith(503, httpfake.NewBody(strings.NewReader("busy")))}
		tr.Policy = func(a *awsretry.Attempt) awsretry.Class { // called when the body has been read
			cancel(errGone)
			return awsretry.DefaultPolicy(a)
		}
		resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
		if err != nil || contract.StopOf(resp, err) != awsretry.StopCanceled || contract.TokensOf(t, tr) != 500 {
			t.Fatal(resp, err)
		}
		if got := httpfake.ReadAll(t, resp); got != "busy" {
			t.Errorf("read %q", got)
		}
	})
	t.Run("broken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second/10, func() { cancel(errGone) })
			tr := &transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				return httpfake.Response(req, 503, httpfake.NewBody(httpfake.SlowReader(ctx, time.Hour, nil))), nil
			})}
			start := time.Now()
			resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
			if took := time.Since(start); took != time.Second/10 ||
				contract.StopOf(resp, err) != awsretry.StopCanceled {
				t.Fatalf("%v, %v after %v", resp, err, took)
			}
			if !errors.Is(err, errGone) || !strings.Contains(err.Error(), "503") || contract.TokensOf(t, tr) != 500 {
				t.Errorf("%v; %d tokens", err, contract.TokensOf(t, tr))
			}
		})
	})
}

// A response that comes although the caller has canceled is returned.
func TestCancelInTheAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sends := 0
	tr := &transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
		sends++
		cancel()
		return httpfake.Response(req, 503, io.NopCloser(strings.NewReader("down"))), nil
	})}
	resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
	if err != nil || sends != 1 {
		t.Fatalf("%v after %d attempts", err, sends)
	}
	if got := httpfake.ReadAll(t, resp); got != "down" || contract.StopOf(resp, nil) != awsretry.StopCanceled {
		t.Errorf("%q, stopped by %q", got, contract.StopOf(resp, nil))
	}
	if got := contract.TokensOf(t, tr); got != 500 {
		t.Errorf("%d tokens, want 500", got)
	}
}

// An attempt that the caller ended says nothing about the service: the policy
// does not classify it.
func TestCanceledAttemptIsNotClassified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(awsretry.WithoutRetry(t.Context()))
		time.AfterFunc(time.Second, func() { cancel(errGone) })
		var seen []awsretry.Attempt
		tr := &transport{
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) { return hangs(req, nil) }),
			Policy: func(*awsretry.Attempt) awsretry.Class {
				t.Error("the policy is asked")
				return awsretry.Transient
			},
			Observe: func(a awsretry.Attempt) { seen = append(seen, a) },
		}
		_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
		if !errors.Is(err, errGone) || len(seen) != 1 {
			t.Fatalf("%v, %+v", err, seen)
		}
		if seen[0].Stop != awsretry.StopCanceled || seen[0].Class != awsretry.Permanent {
			t.Errorf("%+v", seen[0])
		}
	})
}

// A cancel ends the wait for a Read of the request body.
func TestCancelWhileABodyIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		ctx, cancel := canceledAfter(time.Second / 2)(t.Context())
		defer cancel()
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			go httpfake.Receive(req)
			synctest.Wait()
			return httpfake.Response(req, 503, http.NoBody), nil
		})
		resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "POST", pr))
		pw.Close()
		if stop := contract.StopOf(resp, err); stop != awsretry.StopCanceled {
			t.Errorf("%v, %v, %q", resp, err, stop)
		}
	})
}

// http.Client.Timeout ends an attempt, but not a delay: that is not begun.
func TestClientTimeout(t *testing.T) {
	for _, tt := range []struct {
		name  string
		base  httpfake.Base
		delay time.Duration
		want  time.Duration
		fails bool
	}{
		{"in an attempt", always(hangs), 0, 5 * time.Second, true},
		{"in a delay", httpfake.Statuses(503), 3 * time.Second, 3 * time.Second, false},
		{"not", httpfake.Statuses(503, 503, 200), 2 * time.Second, 4 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &transport{Base: tt.base, Backoff: contract.Delay(tt.delay)}
				client := http.Client{Timeout: 5 * time.Second, Transport: tr}
				start := time.Now()
				resp, err := client.Get("http://service.example/")
				if took := time.Since(start); took != tt.want || (err != nil) != tt.fails {
					t.Errorf("%v, %v after %v", resp, err, took)
				}
				var timeout interface{ Timeout() bool }
				if err != nil &&
					(!errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("%v is not a time-out", err)
				}
				if resp != nil {
					resp.Body.Close()
				}
			})
		})
	}
}

// The deprecated Request.Cancel ends the wait for an error that Amazon S3 may
// still write into a 200.
func TestRequestCancelWhileAHiddenErrorIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		tr := &transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			go io.WriteString(pw, "<?xml version='1.0'?>\n")
			return httpfake.Response(req, 200, pr), nil
		})}
		req := httpfake.Request(t, t.Context(), "POST", nil)
		req.URL.RawQuery = "uploadId=1"
		req.Cancel = closeAfter(2 * time.Second)
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if took := time.Since(start); took != 2*time.Second || contract.StopOf(resp, err) != awsretry.StopCanceled {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v does not match context.Canceled", err)
		}
	})
}

// Request.Cancel ends the wait for tokens too, and then nothing is sent.
func TestRequestCancelWhileTokensAreAwaited(t *testing.T) {
	for name, tr := range map[string]*transport{
		"send token": {Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{MinFillRate: 0.01}},
		"quota":      {Quota: awsretry.QuotaConfig{Capacity: 10, InitialCost: 10, RefillPerSecond: 0.01, Wait: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sends := 0
				tr.MaxAttempts, tr.Base = 1, httpfake.Base(func(req *http.Request) (*http.Response, error) {
					sends++
					return httpfake.Response(req, 429, http.NoBody), nil
				})
				if _, err := get(t, tr); err != nil {
					t.Fatal(err)
				}
				req := httpfake.Request(t, t.Context(), "GET", nil)
				req.Cancel = closeAfter(time.Second)
				start := time.Now()
				_, err := tr.RoundTrip(req)
				if took := time.Since(start); took != time.Second || !errors.Is(err, context.Canceled) || sends != 1 {
					t.Errorf("%v after %v and %d attempts", err, took, sends)
				}
			})
		})
	}
}

// A request that the deprecated CancelRequest ends is not retried. It works for
// HTTP/1 alone.
func TestCancelRequest(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/1.1 over TLS"} {
		t.Run(protocol, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sends atomic.Int32
				arrived := make(chan bool, 9)
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					sends.Add(1)
					arrived <- true
					<-r.Context().Done()
					panic(http.ErrAbortHandler) // a response could come before the cancel is noticed
				})
				req := srv.Request(t, "GET", nil)
				go func() {
					<-arrived
					srv.Base.CancelRequest(req)
				}()
				resp, err := (&transport{Base: srv.Base, Backoff: contract.Delay(0)}).RoundTrip(req)
				if err == nil || contract.StopOf(resp, err) != awsretry.StopPermanent || sends.Load() != 1 {
					t.Errorf("%v, %v after %d attempts", resp, err, sends.Load())
				}
			})
		})
	}
}

// A Request.Cancel that never closes leaves no goroutine that waits for it: the
// bubble would not end.
func TestRequestCancelLeavesNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Base: httpfake.Statuses(503, 200), Backoff: contract.Delay(time.Second)}
		tr.Prepare = func(*http.Request, int) error { return nil } // it may wait
		req := httpfake.Request(t, context.Background(), "GET", nil)
		req.Cancel = make(chan struct{})
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
		resp.Body.Close()
	})
}

// An attempt that the caller cancels says nothing about the service: the rate
// limiter does not count it.
func TestCanceledAttemptIsNotMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			if _, ok := req.Context().Deadline(); ok {
				return hangs(req, http.NoBody)
			}
			return httpfake.Response(req, 200, http.NoBody), nil
		})
		tr.Mode = awsretry.Adaptive
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := get(t, tr); err != nil {
			t.Fatal(err)
		}
		const want = 0.8 // one outcome in the first second, smoothed
		if state, _ := tr.State("service.example"); state.MeasuredRate != want {
			t.Errorf("measured %v outcomes a second, want %v", state.MeasuredRate, want)
		}
	})
}
