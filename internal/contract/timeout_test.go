package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// wantTimeoutError fails unless err says that an AttemptTimeout is over, and
// does not look like the caller's own deadline.
func wantTimeoutError(t *testing.T, err error) {
	t.Helper()
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil || !strings.Contains(err.Error(), "AttemptTimeout"):
		t.Errorf("error %v, want one that names AttemptTimeout", err)
	case !errors.As(err, &timeout) || !timeout.Timeout():
		t.Errorf("%v is not a time-out", err)
	case errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%v looks like the caller's deadline", err)
	}
}

// A slowService responds after headers, and its body takes as long as read. It
// notes the contexts of the attempts.
type slowService struct {
	headers, read time.Duration
	status        int
	body          string
	contexts      []context.Context
}

func (s *slowService) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	s.contexts = append(s.contexts, ctx)
	select {
	case <-time.After(s.headers):
	case <-ctx.Done():
		return nil, fmt.Errorf("base: %w", ctx.Err())
	}
	if s.body == "" {
		return httpfake.Response(req, s.status, http.NoBody), nil
	}
	body := httpfake.NewBody(httpfake.SlowReader(ctx, s.read, strings.NewReader(s.body)))
	return httpfake.Response(req, s.status, body), nil
}

// AttemptTimeout covers an attempt up to the end of its response body.
func TestAttemptTimeout(t *testing.T) {
	const limit = 10 * time.Second
	for _, tt := range []struct {
		name string
		slowService
		sends int
		cut   bool // the body
	}{
		{"in time", slowService{9 * time.Second, 400 * time.Millisecond, 200, "good", nil}, 1, false},
		{"slow headers", slowService{11 * time.Second, 0, 200, "good", nil}, 3, false},
		{"slow body", slowService{5 * time.Second, 6 * time.Second, 200, "good", nil}, 1, true},
		{"slow error body", slowService{0, 11 * time.Second, 400, "bad", nil}, 1, true},
		{"no body", slowService{9 * time.Second, 0, 204, "", nil}, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := tt.slowService
				var classes []awsretry.Class
				tr := &transport{
					AttemptTimeout: limit, Backoff: contract.Delay(0), Base: &service,
					Observe: func(a awsretry.Attempt) { classes = append(classes, a.Class) },
				}
				start := time.Now()
				resp, err := get(t, tr)
				if len(service.contexts) != tt.sends {
					t.Fatalf("%d attempts; %v", len(service.contexts), err)
				}
				if tt.sends > 1 {
					wantTimeoutError(t, err)
					if contract.StopOf(nil, err) != awsretry.StopMaxAttempts || time.Since(start) != 3*limit {
						t.Errorf("%v after %v", err, time.Since(start))
					}
					if classes[0] != awsretry.Timeout || contract.TokensOf(t, tr) != 480 {
						t.Errorf("classified as %v; %d tokens", classes, contract.TokensOf(t, tr))
					}
				} else if err != nil {
					t.Fatal(err)
				} else if tt.cut {
					got, err := io.ReadAll(resp.Body)
					if wantTimeoutError(t, err); string(got) != "" || time.Since(start) != limit {
						t.Errorf("read %q after %v", got, time.Since(start))
					}
				} else if got, err := io.ReadAll(resp.Body); string(got) != tt.body || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
				for i, ctx := range service.contexts {
					if ctx.Err() == nil {
						t.Errorf("the context of attempt %d outlives its body", i+1)
					}
				}
				if resp != nil {
					resp.Body.Close()
				}
			})
		})
	}
}

// Base sees the earlier of the attempt's deadline and the caller's.
func TestDeadlineOfAnAttempt(t *testing.T) {
	for _, tt := range []struct{ timeout, callers, want time.Duration }{
		{10 * time.Second, time.Hour, 10 * time.Second},
		{2 * time.Second, time.Second, time.Second},
	} {
		t.Run(tt.want.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.callers)
				defer cancel()
				tr := once(func(req *http.Request) (*http.Response, error) {
					if deadline, ok := req.Context().Deadline(); !ok || time.Until(deadline) != tt.want {
						t.Errorf("the deadline is in %v", time.Until(deadline))
					}
					return hangs(req, nil)
				})
				tr.AttemptTimeout = tt.timeout
				_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
				if tt.want == tt.timeout {
					wantTimeoutError(t, err)
					return
				}
				e := new(awsretry.Error)
				if !errors.As(err, &e) || e.Stop != awsretry.StopCanceled || e.Attempts != 1 || !e.Timeout() {
					t.Error(err)
				}
				if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "AttemptTimeout") {
					t.Errorf("%v is not the caller's deadline", err)
				}
			})
		})
	}
}

// The context of an attempt ends at the end of its body, or with its Close.
// That of a response that is retried has ended before the retry.
func TestAttemptContextEndsWithTheBody(t *testing.T) {
	for _, status := range []int{200, 404, 503} {
		for _, size := range []int{10, 3 * peekLimit} {
			for _, closed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d with %d bytes, closed %v", status, size, closed), func(t *testing.T) {
					var contexts []context.Context
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						for i, ctx := range contexts {
							if ctx.Err() == nil {
								t.Errorf("the context of attempt %d outlives it", i+1)
							}
						}
						contexts = append(contexts, req.Context())
						return httpfake.Response(req, status,
							httpfake.NewBody(strings.NewReader(httpfake.Text(size)))), nil
					})
					tr.AttemptTimeout, tr.MaxAttempts = time.Hour, 2
					resp, err := get(t, tr)
					if err != nil {
						t.Fatal(err)
					}
					last := contexts[len(contexts)-1]
					if (status == 200 || size > peekLimit) && last.Err() != nil {
						t.Error("the context ends before the body")
					}
					if closed {
						resp.Body.Close()
					} else if n, err := io.Copy(io.Discard, resp.Body); n != int64(size) || err != nil {
						t.Errorf("read %d, %v", n, err)
					}
					if last.Err() == nil {
						t.Error("the context outlives the body")
					}
				})
			}
		}
	}
}

func TestAttemptContextEndsWithoutABody(t *testing.T) {
	for name, outcome := range map[string]outcome{
		"error": fails(errReset), "neither response nor error": fails(nil), "204": responds(204),
	} {
		t.Run(name, func(t *testing.T) {
			var contexts []context.Context
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				contexts = append(contexts, req.Context())
				return outcome(req, http.NoBody)
			})
			tr.AttemptTimeout = time.Hour
			get(t, tr)
			for i, ctx := range contexts {
				if ctx.Err() == nil {
					t.Errorf("the context of attempt %d outlives it", i+1)
				}
			}
		})
	}
}

// The context of an attempt ends with the call if nothing is sent.
func TestAttemptContextEndsIfNothingIsSent(t *testing.T) {
	for name, prepare := range map[string]func(*http.Request){
		"error":           nil,
		"body replaced":   func(req *http.Request) { req.Body = http.NoBody },
		"panic":           func(*http.Request) { panic("prepare") },
		"length replaced": func(req *http.Request) { req.ContentLength = 5 },
	} {
		t.Run(name, func(t *testing.T) {
			last := t.Context()
			tr := retrying(respondsWith(200, http.NoBody))
			tr.Prepare = func(req *http.Request, _ int) error {
				last = req.Context()
				if prepare == nil {
					return errGone
				}
				prepare(req)
				return nil
			}
			_, err, panicked := tryRoundTrip(tr, httpfake.Request(t, context.Background(), "PUT", strings.NewReader("x")))
			if err == nil && !panicked || last.Err() == nil {
				t.Errorf("%v, panicked %v; the context's error is %v", err, panicked, last.Err())
			}
		})
	}
}

// While RoundTrip keeps a response through a delay, its AttemptTimeout
// does not run.
func TestTimeoutStandsStillInTheDelay(t *testing.T) {
	for name, tr := range map[string]*transport{
		"long poll": {LongPoll: func(*http.Request) bool { return true }, Quota: awsretry.QuotaConfig{Capacity: 1}},
		"fail fast": {Mode: awsretry.Adaptive, RateLimit: rateLimit{FailFast: true, MinFillRate: 1e-3, Beta: 1e-6}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := httpfake.Text(2 * peekLimit)
				tr.AttemptTimeout, tr.Backoff = 10*time.Second, contract.Delay(15*time.Second)
				tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
					time.Sleep(6 * time.Second)
					return httpfake.Response(req, 429,
						httpfake.NewBody(until(req.Context(), strings.NewReader(data)))), nil
				})
				start := time.Now()
				resp, err := get(t, tr)
				if took := time.Since(start); err != nil || took != 21*time.Second {
					t.Fatalf("%v after %v", err, took)
				}
				time.Sleep(3 * time.Second) // of the 4 that are left
				half := make([]byte, len(data)/2+1)
				if _, err := io.ReadFull(resp.Body, half); err != nil || string(half) != data[:len(half)] {
					t.Errorf("reading the response: %v", err)
				}
				time.Sleep(2 * time.Second)
				_, err = io.ReadAll(resp.Body)
				wantTimeoutError(t, err)
				resp.Body.Close()
			})
		})
	}
}

// The context of an attempt does not end before the error code in its body is
// found. Many callers at once give the race detector something to see.
func TestCodeIsFoundUnderATimeout(t *testing.T) {
	tr := unpaid(func(req *http.Request) (*http.Response, error) {
		body := iotest.DataErrReader(strings.NewReader(`{"__type":"ThrottlingException"}`))
		return httpfake.Response(req, 400, httpfake.NewBody(body)), nil
	})
	tr.AttemptTimeout = time.Minute
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 50 {
				resp, err := get(t, tr)
				if err != nil || contract.StopOf(resp, nil) != awsretry.StopQuota {
					t.Errorf("%v, stopped by %q", err, contract.StopOf(resp, nil))
					return
				}
				resp.Body.Close()
			}
		})
	}
	all.Wait()
}
