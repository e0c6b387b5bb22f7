package contract_test

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
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/replay"
	"github.com/google/go-cmp/cmp"
)

// Prepare sees a request of its own before each attempt.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tr := &transport{
			Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				body, err := httpfake.Receive(req)
				number := awsretry.AttemptNumber(req.Context())
				got = append(got, fmt.Sprintf("%s %s %s %d", req.URL.Path, req.Header.Get("Date"), body, number))
				return httpfake.Response(req, 503, http.NoBody), err
			}),
			Prepare: func(req *http.Request, attempt int) error {
				req.Header.Set("Date", time.Now().Format(time.TimeOnly))
				req.URL.Path = fmt.Sprint("/", attempt)
				return nil
			},
			Backoff: noJitter,
		}
		req := httpfake.Request(t, t.Context(), "POST", strings.NewReader("data"))
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		want := []string{"/1 00:00:00 data 1", "/2 00:00:01 data 2", "/3 00:00:03 data 3"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if req.Header.Get("Date") != "" || req.URL.Path != "/path" {
			t.Errorf("the caller's request was changed: %v %v", req.Header, req.URL)
		}
	})
}

// The error of a Prepare before a retry names the failure before it, and the
// tokens of that retry come back.
func TestPrepareFailsBeforeARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{Base: httpfake.Statuses(503, 200)}
		prepareFails(2)(tr)
		_, err := get(t, tr)
		var e *awsretry.Error
		if !errors.As(err, &e) || e.Attempts != 1 {
			t.Fatal(err)
		}
		for _, part := range []string{"no key to sign with", "503"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not contain %q", err, part)
			}
		}
		if got := contract.TokensOf(t, tr); got != 500 {
			t.Errorf("%d tokens, want 500", got)
		}
	})
}

// An *Error from Prepare chooses the Stop of the call.
func TestPrepareChoosesTheStop(t *testing.T) {
	cause := errors.New("no turn before the deadline")
	late := &awsretry.Error{Stop: awsretry.StopDeadline, Err: cause}
	for _, tt := range []struct {
		name string
		err  error
		stop awsretry.Stop
	}{
		{"a plain error", cause, awsretry.StopPermanent},
		{"an Error", late, awsretry.StopDeadline},
		{"a wrapped Error", fmt.Errorf("throttled: %w", late), awsretry.StopDeadline},
		{"an Error without a Stop", &awsretry.Error{Err: cause}, awsretry.StopPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := &transport{
				Base: httpfake.Base(
					func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, cause }),
				Prepare: func(*http.Request, int) error { return tt.err },
			}
			_, err := get(t, tr)
			var e *awsretry.Error
			if !errors.As(err, &e) || e.Stop != tt.stop || e.Attempts != 0 || !errors.Is(err, cause) {
				t.Errorf("%v; want Stop %s after 0 attempts, around %v", err, tt.stop, cause)
			}
		})
	}
}

// Prepare must not choose another body.
func TestPrepareMustLeaveTheBody(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"another":        func(req *http.Request) { req.Body = io.NopCloser(strings.NewReader("other")) },
		"none":           func(req *http.Request) { req.Body = nil },
		"another length": func(req *http.Request) { req.ContentLength = 3 },
	} {
		for _, kind := range []string{"GetBody", "stream", "file"} {
			t.Run(name+" for "+kind, func(t *testing.T) {
				tr := &transport{
					Prepare: func(req *http.Request, _ int) error { change(req); return nil },
					Base: httpfake.Base(
						func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, errReset }),
				}
				sent := bodyKinds[kind](t, "the body")
				req := httpfake.Request(t, t.Context(), "PUT", nil)
				sent.attachTo(req)
				resp, err := tr.RoundTrip(req)
				if err == nil || !strings.Contains(err.Error(), "Prepare") ||
					contract.StopOf(resp, err) != awsretry.StopPermanent {
					t.Errorf("%v, %v", resp, err)
				}
				for _, n := range sent.closes {
					if n.Load() != 1 {
						t.Errorf("closed %d times", n.Load())
					}
				}
			})
		}
	}
}

func TestPrepareOfARequestWithoutHeader(t *testing.T) {
	tr := &transport{Base: httpfake.Statuses(200), SDKHeaders: true, Prepare: func(r *http.Request, _ int) error {
		r.Header.Set("Date", "today")
		return nil
	}}
	req := httpfake.Request(t, t.Context(), "GET", nil)
	req.Header = nil
	if _, err := tr.RoundTrip(req); err != nil || req.Header != nil {
		t.Error(err, req.Header)
	}
}

// Prepare sees the caller's deadline: the time-out of the attempt has not
// begun.
func TestPrepareSeesTheCallersDeadline(t *testing.T) {
	deadline, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, ctx := range map[string]context.Context{"none": t.Context(), "an hour": deadline} {
		t.Run(name, func(t *testing.T) {
			tr := &transport{AttemptTimeout: time.Minute, Base: httpfake.Statuses(200)}
			tr.Prepare = func(req *http.Request, _ int) error {
				got, ok := req.Context().Deadline()
				if want, has := ctx.Deadline(); got != want || ok != has {
					t.Errorf("the deadline is %v, %v; want %v, %v", got, ok, want, has)
				}
				return nil
			}
			resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		})
	}
}

// A request goes where Prepare sends it, whatever connection its retry would
// have taken.
func TestPrepareChangesTheScheme(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
		sends := 0
		srv.Base.RegisterProtocol("local", httpfake.Base(func(req *http.Request) (*http.Response, error) {
			sends++
			return httpfake.Response(req, 503, http.NoBody), nil
		}))
		tr := &transport{Base: srv.Base, Backoff: contract.Delay(0), Prepare: func(req *http.Request, n int) error {
			if n > 1 {
				req.URL.Scheme = "local"
			}
			return nil
		}}
		resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
		if err != nil || sends != 2 {
			t.Fatalf("%v, %v; %d attempts went to the scheme of Prepare, want 2", resp, err, sends)
		}
		httpfake.ReadAll(t, resp)
	})
}

// If the caller cancels while Prepare waits for a signer, nothing is sent.
func TestCancelInPrepare(t *testing.T) {
	for on := 1; on <= 2; on++ {
		t.Run(fmt.Sprintf("attempt %d", on), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				sends++
				return httpfake.Response(req, 503, http.NoBody), nil
			})
			tr.Prepare = func(_ *http.Request, n int) error {
				if n == on {
					cancel(errGone)
				}
				return nil
			}
			_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
			if !errors.Is(err, errGone) || contract.StopOf(nil, err) != awsretry.StopCanceled {
				t.Error(err)
			}
			if sends != on-1 || contract.TokensOf(t, tr) != 500 {
				t.Errorf("%d attempts, %d tokens", sends, contract.TokensOf(t, tr))
			}
		})
	}
}

// A Prepare that adds a value to the request's context, such as an
// httptrace.ClientTrace, adds it for Base too. Base's context does not end with
// Prepare.
func TestPrepareChangesTheContext(t *testing.T) {
	type key struct{}
	for _, by := range []string{"context", "Request.Cancel"} {
		for _, timeout := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("%s, AttemptTimeout %v", by, timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var seen []string
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						ctx := req.Context()
						_, limited := ctx.Deadline()
						seen = append(seen, fmt.Sprintf("%v, attempt %d, limited %v, %v",
							ctx.Value(key{}), awsretry.AttemptNumber(ctx), limited, context.Cause(ctx)))
						return httpfake.Response(req, 503, http.NoBody), nil
					})
					tr.AttemptTimeout, tr.MaxAttempts = timeout, 2
					tr.Prepare = func(req *http.Request, n int) error {
						*req = *req.WithContext(context.WithValue(req.Context(), key{}, fmt.Sprint("value ", n)))
						return nil
					}
					req := httpfake.Request(t, t.Context(), "GET", nil)
					if by == "Request.Cancel" {
						req.Cancel = make(chan struct{})
					}
					if _, err := tr.RoundTrip(req); err != nil {
						t.Fatal(err)
					}
					var want []string
					for n := 1; n <= 2; n++ {
						want = append(want, fmt.Sprintf("value %d, attempt %d, limited %v, <nil>", n, n, timeout > 0))
					}
					if diff := cmp.Diff(want, seen); diff != "" {
						t.Errorf("Base sees another context (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// A cancel ends a Prepare that waits. Its error is that of the context then,
// with its cause, and not one of Prepare.
func TestCancelWhilePrepareWaits(t *testing.T) {
	for _, cause := range []error{errGone, context.Canceled} {
		for on := 1; on <= 2; on++ {
			t.Run(fmt.Sprintf("%v, attempt %d", cause, on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sends := 0
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						sends++
						return httpfake.Response(req, 503, http.NoBody), nil
					})
					tr.Prepare = func(req *http.Request, n int) error {
						if n < on {
							return nil
						}
						<-req.Context().Done()
						return req.Context().Err()
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					req := httpfake.Request(t, ctx, "GET", nil)
					time.AfterFunc(time.Second, func() { cancel(cause) })
					start := time.Now()
					resp, err := tr.RoundTrip(req)
					took := time.Since(start)
					if took != time.Second || contract.StopOf(resp, err) != awsretry.StopCanceled {
						t.Errorf("%v, stopped by %q, after %v", err, contract.StopOf(resp, err), took)
					}
					if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) {
						t.Errorf("%v does not match the cause, %v", err, cause)
					}
					if sends != on-1 || contract.TokensOf(t, tr) != 500 {
						t.Errorf("%d attempts, %d tokens", sends, contract.TokensOf(t, tr))
					}
				})
			})
		}
	}
}

// A body that the attempt has when Prepare ends the call is closed, although
// nothing is sent.
func TestBodyOfAnAttemptThatPrepareEnds(t *testing.T) {
	for on := 1; on <= 2; on++ {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprintf("attempt %d, panics %v", on, panics), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opened := 0
					var closed atomic.Int32
					open := func() (io.ReadCloser, error) { // a pipe is sent as it is
						opened++
						r, w := io.Pipe()
						t.Cleanup(func() { r.Close() })
						go func() {
							if _, err := w.Write([]byte("never read")); err == io.ErrClosedPipe {
								closed.Add(1)
							}
						}()
						return r, nil
					}
					tr := retrying(func(req *http.Request) (*http.Response, error) {
						req.Body.Close()
						return httpfake.Response(req, 503, http.NoBody), nil
					})
					tr.Prepare = func(_ *http.Request, n int) error {
						switch {
						case n < on:
							return nil
						case panics:
							panic("prepare")
						}
						return errReset
					}
					req := httpfake.Request(t, t.Context(), "PUT", nil)
					req.Body, _ = open()
					req.GetBody, req.ContentLength = open, -1
					if resp, err, panicked := tryRoundTrip(tr, req); panicked != panics || resp != nil {
						t.Errorf("%v, %v, panicked: %v", resp, err, panicked)
					}
					synctest.Wait()
					if opened != on || closed.Load() != int32(on) {
						t.Errorf("opened %d bodies and closed %d, want %d", opened, closed.Load(), on)
					}
				})
			})
		}
	}
}

// The context of an attempt ends with the call that does not send it, so that
// the caller's, which may live for long, does not keep it.
func TestContextOfAnAttemptThatIsNotSent(t *testing.T) {
	for name, hook := range map[string]func(*http.Request) error{
		"error":  func(*http.Request) error { return errGone },
		"body":   func(req *http.Request) error { req.Body = io.NopCloser(strings.NewReader("other")); return nil },
		"length": func(req *http.Request) error { req.ContentLength = 7; return nil },
		"panic":  func(*http.Request) error { panic(errGone) },
	} {
		for failing := 1; failing <= 2; failing++ {
			t.Run(fmt.Sprintf("%s, attempt %d", name, failing), func(t *testing.T) {
				var last context.Context
				tr := &transport{
					Base: httpfake.Statuses(503, 200), Backoff: contract.Delay(0), AttemptTimeout: time.Minute,
					Prepare: func(req *http.Request, number int) error {
						last = req.Context()
						if number < failing {
							return nil
						}
						return hook(req)
					},
				}
				func() {
					defer func() { _ = recover() }()
					if resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "PUT", strings.NewReader("x"))); err == nil {
						t.Error(resp.Status)
					}
				}()
				if last == nil || last.Err() == nil {
					t.Error("the attempt's context has not ended")
				}
			})
		}
	}
}

// The same holds for the body of a call that makes attempts of its own, such as
// a delivery, which takes its body back after that.
func TestLentBodyIsClosedWherePrepareEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lender replay.Body
		req := httpfake.Request(t, t.Context(), "PUT", struct{ io.Reader }{strings.NewReader("hello")})
		lender.Own(req)
		lender.Share(10, false)
		out := req.WithContext(t.Context())
		lender.Lend(out)
		tr := retrying(httpfake.Statuses(200))
		prepareFails(1)(tr)
		if _, err := tr.RoundTrip(out); err == nil || !lender.Idle() {
			t.Errorf("%v, idle: %v", err, lender.Idle())
		}
		lender.Release(true)
	})
}

// What Prepare starts may go on asking for the deadline of the attempt's
// context, which the time-out brings forward when the attempt is sent.
func TestDeadlineDuringTheSend(t *testing.T) {
	var asking sync.WaitGroup
	done := make(chan struct{})
	tr := retrying(httpfake.Statuses(503, 200))
	tr.AttemptTimeout = time.Minute
	tr.Prepare = func(req *http.Request, _ int) error {
		ctx := req.Context()
		started := make(chan struct{})
		asking.Go(func() {
			close(started)
			for {
				ctx.Deadline()
				select {
				case <-done:
					return
				default:
				}
			}
		})
		<-started
		return nil
	}
	if _, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)); err != nil {
		t.Error(err)
	}
	close(done)
	asking.Wait()
}
