package awsretry_test

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

var errEnough = errors.New("the caller has had enough")

// TestCanceledContextSendsNothing: nothing is sent, drawn or asked.
func TestCanceledContextSendsNothing(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	expired, cancel2 := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel2()
	closed := make(chan struct{})
	close(closed)
	for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive, awsretry.Legacy} {
		for _, c := range []struct {
			ctx    context.Context
			cancel chan struct{}
			want   []error
		}{
			{canceled, nil, []error{errEnough, context.Canceled}},
			{expired, nil, []error{context.DeadlineExceeded}},
			{t.Context(), closed, []error{context.Canceled}},
		} {
			used := ""
			tr := &awsretry.Transport{Mode: mode, Quota: awsretry.QuotaConfig{InitialCost: 10},
				Base:    baseFunc(func(*http.Request) (*http.Response, error) { used += "Base "; return nil, errReset }),
				Prepare: func(*http.Request, int) error { used += "Prepare "; return nil },
				Observe: func(awsretry.Attempt) { used += "Observe " },
			}
			req := request(t, c.ctx, "PUT", strings.NewReader("x"))
			req.Cancel = c.cancel //lint:ignore SA1019 http.Client.Timeout sets it
			resp, err := tr.RoundTrip(req)
			e := new(awsretry.Error)
			if resp != nil || used != "" || !errors.As(err, &e) || e.Attempts != 0 || e.Stop != awsretry.StopCanceled {
				t.Errorf("%s: %v, %v; used %s", mode, resp, err, used)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("%s: error %v is no %v", mode, err, want)
				}
			}
			for name, state := range tr.Partitions() {
				if mode != awsretry.Legacy && state.Tokens != 500 {
					t.Errorf("%s: %d tokens of %s", mode, state.Tokens, name)
				}
			}
		}
	}
}

// TestCancelInPause ends it at once, and says what ended it and what was wrong before.
func TestCancelInPause(t *testing.T) {
	for _, failure := range []answerFunc{says(503), says(429, "Retry-After", "30"), breaks(errReset)} {
		for _, by := range []string{"context", "Request.Cancel"} {
			for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
				synctest.Test(t, func(t *testing.T) {
					var body *tracked
					var seen []awsretry.Attempt
					tr := &awsretry.Transport{Mode: mode, Backoff: pauseOf(20 * time.Second), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
						body = track(strings.NewReader("busy"))
						return failure(req, body)
					}), Observe: func(a awsretry.Attempt) { seen = append(seen, a) }}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					req := request(t, ctx, "GET", nil)
					want := errEnough
					if by == "context" {
						time.AfterFunc(time.Second, func() { cancel(errEnough) })
					} else {
						c := make(chan struct{})
						want = context.Canceled
						req.Cancel = c //lint:ignore SA1019 http.Client.Timeout sets it
						time.AfterFunc(time.Second, func() { close(c) })
					}
					start := time.Now()
					resp, err := tr.RoundTrip(req)
					if d := time.Since(start); d != time.Second || resp != nil || !errors.Is(err, want) || stopOf(nil, err) != awsretry.StopCanceled {
						t.Errorf("%s: %v, %v after %v", by, resp, err, d)
					}
					if by == "context" && !errors.Is(err, context.Canceled) {
						t.Errorf("%v is not context.Canceled", err)
					}
					a := seen[0]
					if a.Err != nil && !errors.Is(err, errReset) || a.Response != nil && !strings.Contains(err.Error(), http.StatusText(a.Response.StatusCode)) {
						t.Errorf("%v does not say what was wrong before", err)
					}
					if len(seen) != 1 || tokensOf(t, tr) != 500 || a.Response != nil && body.closes.Load() != 1 {
						t.Errorf("%d records, %d tokens, answer closed %d times", len(seen), tokensOf(t, tr), body.closes.Load())
					}
				})
			}
		}
	}
}

// TestCancelWhileReadingAhead: a response that is there whole is returned, one
// whose body ended with the context is not.
func TestCancelWhileReadingAhead(t *testing.T) {
	for _, whole := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			body := track(readFunc(func([]byte) (int, error) {
				select {
				case <-time.After(100 * time.Millisecond):
					cancel(errEnough)
					return 0, io.EOF
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}))
			if !whole {
				time.AfterFunc(100*time.Millisecond, func() { cancel(errEnough) })
			}
			tr := &awsretry.Transport{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				if !whole {
					return respond(req, 503, track(patient(ctx, time.Hour, strings.NewReader("late")))), nil
				}
				return respond(req, 503, body), nil
			})}
			start := time.Now()
			resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
			if d := time.Since(start); d != 100*time.Millisecond || stopOf(resp, err) != awsretry.StopCanceled || tokensOf(t, tr) != 500 {
				t.Fatalf("%v, %v after %v", resp, err, d)
			}
			if whole != (err == nil) || err != nil && (!errors.Is(err, errEnough) || !strings.Contains(err.Error(), "503")) {
				t.Errorf("%v, %v", resp, err)
			}
			if resp != nil {
				resp.Body.Close()
			}
		})
	}
}

// TestCanceledAttemptIsNotJudged: an attempt that the caller's context ended says nothing of the service.
func TestCanceledAttemptIsNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(awsretry.WithoutRetry(t.Context()))
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		var seen []awsretry.Attempt
		tr := &awsretry.Transport{Base: baseFunc(func(req *http.Request) (*http.Response, error) { return hangs(req, nil) }),
			Policy:  func(*awsretry.Attempt) awsretry.Class { t.Error("the policy is asked"); return awsretry.Transient },
			Observe: func(a awsretry.Attempt) { seen = append(seen, a) }}
		_, err := tr.RoundTrip(request(t, ctx, "GET", nil))
		if !errors.Is(err, errEnough) || len(seen) != 1 || seen[0].Stop != awsretry.StopCanceled || seen[0].Class != awsretry.Permanent {
			t.Errorf("%v, %+v", err, seen)
		}
	})
}

// TestDeadlineIsNotSleptInto: a pause that would end behind the deadline is not begun.
func TestDeadlineIsNotSleptInto(t *testing.T) {
	for _, failure := range []answerFunc{says(503), says(429, "Retry-After", "10"), breaks(errReset)} {
		synctest.Test(t, func(t *testing.T) {
			sends := 0
			tr := &awsretry.Transport{Backoff: pauseOf(10 * time.Second), RetryAfterSpread: -1, MaxAttempts: 9, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				sends++
				return failure(req, track(strings.NewReader("busy")))
			})}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			start := time.Now()
			resp, err := tr.RoundTrip(request(t, ctx, "GET", nil))
			if d := time.Since(start); d != 10*time.Second || sends != 2 || stopOf(resp, err) != awsretry.StopDeadline {
				t.Errorf("%v, %v after %v and %d attempts", resp, err, d, sends)
			}
			if resp != nil && whole(t, resp) != "busy" || err != nil && (!errors.Is(err, errReset) || errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestClientTimeout(t *testing.T) {
	for _, c := range []struct {
		name    string
		base    baseFunc
		pause   time.Duration
		elapsed time.Duration
		fails   bool
	}{
		{"in an attempt", func(req *http.Request) (*http.Response, error) { return hangs(req, nil) }, 0, 5 * time.Second, true},
		{"in a pause", answersWith(503), 3 * time.Second, 3 * time.Second, false},
		{"not", answersWith(503, 503, 200), 2 * time.Second, 4 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := http.Client{Timeout: 5 * time.Second, Transport: &awsretry.Transport{Base: c.base, Backoff: pauseOf(c.pause)}}
				start := time.Now()
				resp, err := client.Get("http://service.example/")
				var timeout interface{ Timeout() bool }
				if d := time.Since(start); d != c.elapsed || (err != nil) != c.fails {
					t.Errorf("%v, %v after %v", resp, err, d)
				}
				if err != nil && (!errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("%v is no time-out", err)
				}
				if resp != nil {
					resp.Body.Close()
				}
			})
		})
	}
}

// TestPanicsLeaveNothing: no lock is held and no token is lost when Base or a hook has panicked.
func TestPanicsLeaveNothing(t *testing.T) {
	for _, way := range waysOut {
		if !way.panics {
			continue
		}
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Adaptive} {
			for _, refill := range []float64{0, 1e-9} { // two kinds of bucket
				t.Run(way.name+"/"+string(mode), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						tr := &awsretry.Transport{Mode: mode, Backoff: pauseOf(0), Quota: awsretry.QuotaConfig{RefillPerSecond: refill}}
						if way.change != nil {
							way.change(tr)
						}
						answers := way.answers
						tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
							useUp(req)
							if len(answers) == 0 {
								return respond(req, 200, http.NoBody), nil
							}
							next := answers[0]
							answers = answers[1:]
							return next(req, http.NoBody)
						})
						if _, _, panicked := tryRoundTrip(tr, request(t, t.Context(), "PUT", strings.NewReader("x"))); !panicked {
							t.Fatal("no panic")
						}
						for name, state := range tr.Partitions() {
							if state.Tokens != 500 {
								t.Errorf("%d tokens in %q", state.Tokens, name)
							}
						}
						// Another request, which the hook may end again, but which no lock may hold up.
						resp, err, panicked := tryRoundTrip(tr, request(t, t.Context(), "PUT", strings.NewReader("x")))
						if !panicked && (err != nil || resp.StatusCode != 200) {
							t.Errorf("the next request: %v, %v", resp, err)
						}
					})
				})
			}
		}
	}
}

// TestPanicInBodyRead ends in Base, or is recovered there, and must not keep the source or anybody waiting.
func TestPanicInBodyRead(t *testing.T) {
	for _, recovered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			source := track(readFunc(func([]byte) (int, error) { panic("reader") }))
			sends := 0
			tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (resp *http.Response, err error) {
				sends++
				defer func() {
					if recovered && recover() != nil {
						err = errors.New("something panicked")
					}
				}()
				_, err = useUp(req)
				return nil, err
			})}
			start := time.Now()
			_, err, panicked := tryRoundTrip(tr, request(t, t.Context(), "PUT", source))
			if panicked == recovered || (err == nil) == recovered || sends != 1 || time.Since(start) > time.Minute {
				t.Errorf("%v; panicked: %v; %d attempts in %v", err, panicked, sends, time.Since(start))
			}
			if source.closes.Load() != 1 || tokensOf(t, tr) != 500 {
				t.Errorf("closed %d times, %d tokens", source.closes.Load(), tokensOf(t, tr))
			}
		})
	}
}

// TestCancelInPrepare, which may wait for a signer: what is not wanted any more is not sent.
func TestCancelInPrepare(t *testing.T) {
	for on := 1; on <= 2; on++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		sends := 0
		tr := &awsretry.Transport{Backoff: pauseOf(0), Prepare: func(_ *http.Request, n int) error {
			if n == on {
				cancel(errEnough)
			}
			return nil
		}, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			sends++
			return respond(req, 503, http.NoBody), nil
		})}
		_, err := tr.RoundTrip(request(t, ctx, "GET", nil))
		if sends != on-1 || tokensOf(t, tr) != 500 || !errors.Is(err, errEnough) || stopOf(nil, err) != awsretry.StopCanceled {
			t.Errorf("canceled in Prepare %d: %d sent, %d tokens; %v", on, sends, tokensOf(t, tr), err)
		}
	}
}

func TestContextEndsWhileAReadIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			go useUp(req)
			synctest.Wait()
			return respond(req, 503, http.NoBody), nil
		})}
		resp, err := tr.RoundTrip(request(t, ctx, "POST", pr))
		pw.Close()
		if stop := stopOf(resp, err); stop != awsretry.StopCanceled {
			t.Errorf("%v, %v, %q", resp, err, stop)
		}
	})
}
