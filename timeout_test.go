package awsretry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A patient is a body whose Read takes time, and that its request's context ends.
func patient(ctx context.Context, d time.Duration, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		select {
		case <-time.After(d):
			return r.Read(p)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
}

func TestAttemptTimeout(t *testing.T) {
	const limit = 10 * time.Second
	for _, c := range []struct {
		name          string
		headers, read time.Duration // until they are there
		body          string
		status        int
		sends         int
		cut           bool // the body
	}{
		{"in time", 9 * time.Second, 400 * time.Millisecond, "good", 200, 1, false},
		{"slow headers", 11 * time.Second, 0, "good", 200, 3, false},
		{"slow body", 5 * time.Second, 6 * time.Second, "good", 200, 1, true},
		{"slow error body", 0, 11 * time.Second, "bad", 400, 1, true},
		{"no body", 9 * time.Second, 0, "", 204, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var contexts []context.Context
				var classes []awsretry.Class
				tr := &awsretry.Transport{AttemptTimeout: limit, Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					contexts = append(contexts, req.Context())
					if deadline, ok := req.Context().Deadline(); !ok || time.Until(deadline) != limit {
						t.Errorf("the attempt's deadline is %v", deadline)
					}
					select {
					case <-time.After(c.headers):
					case <-req.Context().Done():
						return nil, fmt.Errorf("base: %w", req.Context().Err())
					}
					if c.body == "" {
						return respond(req, c.status, http.NoBody), nil
					}
					return respond(req, c.status, track(patient(req.Context(), c.read, strings.NewReader(c.body)))), nil
				}), Observe: func(a awsretry.Attempt) { classes = append(classes, a.Class) }}
				start := time.Now()
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
				if len(contexts) != c.sends {
					t.Fatalf("%d attempts; %v", len(contexts), err)
				}
				if c.sends > 1 {
					checkTimeoutError(t, err)
					if !strings.HasPrefix(err.Error(), "awsretry: gave up after 3 attempts (max_attempts): ") || time.Since(start) != 3*limit ||
						classes[0] != awsretry.Timeout || tokensOf(t, tr) != 480 {
						t.Errorf("%v after %v; %v; %d tokens", err, time.Since(start), classes, tokensOf(t, tr))
					}
				} else if err != nil {
					t.Fatal(err)
				} else if c.cut {
					got, err := io.ReadAll(resp.Body)
					if checkTimeoutError(t, err); string(got) != "" || time.Since(start) != limit {
						t.Errorf("read %q after %v", got, time.Since(start))
					}
				} else if got, err := io.ReadAll(resp.Body); string(got) != c.body || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
				for i, ctx := range contexts {
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

// checkTimeoutError: a time-out of the attempt says so, and is not the caller's deadline.
func checkTimeoutError(t *testing.T, err error) {
	t.Helper()
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil || !strings.Contains(err.Error(), "AttemptTimeout"):
		t.Errorf("error %v, want one that names AttemptTimeout", err)
	case !errors.As(err, &timeout) || !timeout.Timeout():
		t.Errorf("%v is no time-out", err)
	case errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%v is taken for the caller's deadline", err)
	}
}

// TestAttemptContextEndsWithTheBody: at its end, or its Close; of an answer that is retried, at the retry.
func TestAttemptContextEndsWithTheBody(t *testing.T) {
	for _, status := range []int{200, 404, 503} {
		for _, size := range []int{10, 3 * peekLimit} {
			for _, closed := range []bool{true, false} {
				var contexts []context.Context
				tr := &awsretry.Transport{AttemptTimeout: time.Hour, MaxAttempts: 2, Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					for i, ctx := range contexts {
						if ctx.Err() == nil {
							t.Errorf("%d: the context of attempt %d outlives it", status, i+1)
						}
					}
					contexts = append(contexts, req.Context())
					return respond(req, status, track(strings.NewReader(letters(size)))), nil
				})}
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
				if err != nil {
					t.Fatal(err)
				}
				last := contexts[len(contexts)-1]
				if (status == 200 || size > peekLimit) && last.Err() != nil {
					t.Errorf("%d: the context ends before the body", status)
				}
				if closed {
					resp.Body.Close()
				} else if n, err := io.Copy(io.Discard, resp.Body); n != int64(size) || err != nil {
					t.Errorf("%d: read %d, %v", status, n, err)
				}
				if last.Err() == nil {
					t.Errorf("%d: the context outlives the body (closed: %v)", status, closed)
				}
			}
		}
	}
}

// TestAttemptContextEndsWithAnError, and with an answer that has no body.
func TestAttemptContextEndsWithAnError(t *testing.T) {
	for _, answer := range []answerFunc{breaks(errReset), breaks(nil), says(204)} {
		var last context.Context
		tr := once(func(req *http.Request) (*http.Response, error) {
			last = req.Context()
			return answer(req, http.NoBody)
		})
		tr.AttemptTimeout = time.Hour
		tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if last.Err() == nil {
			t.Error("the context outlives the attempt")
		}
	}
}

// TestCallersDeadlineIsNoAttemptTimeout: it ends the request, and its error is the context's.
func TestCallersDeadlineIsNoAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tr := &awsretry.Transport{AttemptTimeout: 2 * time.Second, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if deadline, _ := req.Context().Deadline(); time.Until(deadline) != time.Second {
				t.Errorf("the attempt's deadline is %v", deadline)
			}
			return hangs(req, nil)
		})}
		_, err := tr.RoundTrip(request(t, ctx, "GET", nil))
		e := new(awsretry.Error)
		if !errors.As(err, &e) || e.Stop != awsretry.StopCanceled || e.Attempts != 1 || !e.Timeout() || !errors.Is(err, context.DeadlineExceeded) ||
			strings.Contains(err.Error(), "AttemptTimeout") {
			t.Errorf("error %v", err)
		}
	})
}

// TestKeptAnswersAreNotCut: while RoundTrip itself keeps an answer through a pause, its attempt's time stands still.
func TestKeptAnswersAreNotCut(t *testing.T) {
	for name, tr := range map[string]*awsretry.Transport{
		"long poll": {LongPoll: func(*http.Request) bool { return true }, Quota: awsretry.QuotaConfig{Capacity: 1}},
		"fail fast": {Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{FailFast: true, MinFillRate: 1e-3, Beta: 1e-6}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := letters(2 * peekLimit)
				tr.AttemptTimeout, tr.Backoff = 10*time.Second, pauseOf(15*time.Second)
				tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
					time.Sleep(6 * time.Second)
					once := strings.NewReader(data)
					return respond(req, 429, track(readFunc(func(p []byte) (int, error) {
						if req.Context().Err() != nil {
							return 0, req.Context().Err()
						}
						return once.Read(p)
					}))), nil
				})
				start := time.Now()
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
				if d := time.Since(start); err != nil || d != 21*time.Second {
					t.Fatalf("%v after %v", err, d)
				}
				time.Sleep(3 * time.Second) // of 4 that are left
				half := make([]byte, len(data)/2+1)
				if _, err := io.ReadFull(resp.Body, half); err != nil || string(half) != data[:len(half)] {
					t.Errorf("reading the answer: %v", err)
				}
				time.Sleep(2 * time.Second)
				_, err = io.ReadAll(resp.Body)
				checkTimeoutError(t, err)
				resp.Body.Close()
			})
		})
	}
}

// TestCodeIsFoundUnderTimeout: the attempt's context ends with its body, but not before the code in it is found.
func TestCodeIsFoundUnderTimeout(t *testing.T) {
	tr := &awsretry.Transport{AttemptTimeout: time.Minute, MaxAttempts: 1, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		return respond(req, 400, track(iotest.DataErrReader(strings.NewReader(`{"__type":"ThrottlingException"}`)))), nil
	})}
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 200 {
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
				if err != nil || stopOf(resp, nil) != awsretry.StopMaxAttempts {
					t.Errorf("%v, stopped by %q", err, stopOf(resp, nil))
					return
				}
				resp.Body.Close()
			}
		})
	}
	all.Wait()
}

func TestTimeoutIsHeldWhileAReadIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		data := letters(3 << 16)
		tr := &awsretry.Transport{Backoff: pauseOf(0), AttemptTimeout: time.Second, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			go useUp(req)
			time.Sleep(time.Second / 2)
			rest := strings.NewReader(data)
			return respond(req, 503, track(readFunc(func(p []byte) (int, error) {
				if req.Context().Err() != nil {
					return 0, req.Context().Err()
				}
				return rest.Read(p)
			}))), nil
		})}
		resp, err := tr.RoundTrip(request(t, t.Context(), "POST", pr))
		pw.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := whole(t, resp); got != data {
			t.Errorf("%d of %d bytes", len(got), len(data))
		}
	})
}

// TestPrepareSeesTheCallersDeadline: the time-out of an attempt has not begun yet.
func TestPrepareSeesTheCallersDeadline(t *testing.T) {
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), ctx} {
		tr := &awsretry.Transport{AttemptTimeout: time.Minute, Base: answersWith(200), Prepare: func(req *http.Request, _ int) error {
			got, ok := req.Context().Deadline()
			if want, has := ctx.Deadline(); got != want || ok != has {
				t.Errorf("the deadline is %v, %v, want %v, %v", got, ok, want, has)
			}
			return nil
		}}
		resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

// TestGivenUpDrainEndsTheAttempt: where a response is not read to its end and
// cannot be closed beside the Read, the attempt's context ends it.
func TestGivenUpDrainEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var ended atomic.Int64
		var source *tracked
		sends := 0
		tr := &awsretry.Transport{AttemptTimeout: time.Hour, Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if sends++; sends > 1 {
				return respond(req, 200, http.NoBody), nil
			}
			source = track(readFunc(func([]byte) (int, error) {
				<-req.Context().Done()
				ended.Store(int64(time.Since(start)))
				return 0, req.Context().Err()
			}))
			return respond(req, 429, source, "X-Amzn-ErrorType", "SlowDown"), nil
		})}
		resp, err := tr.RoundTrip(request(t, t.Context(), "GET", nil))
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		time.Sleep(2 * time.Hour)
		if d := time.Duration(ended.Load()); d > time.Second || source.closes.Load() != 1 || source.closedReading.Load() > 0 {
			t.Errorf("the attempt's context ended after %v; closed %d times, %d times while it was read", d, source.closes.Load(), source.closedReading.Load())
		}
	})
}
