package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

func TestDeadLetters(t *testing.T) {
	const text = "the request's body"
	why := errors.New("the user went home")
	type key struct{}
	for kind, newRequest := range bodyKinds {
		for name, test := range map[string]struct {
			base        http.RoundTripper
			cancelAfter time.Duration // negative: before; 0: never
			want        DeadLetter
			status      int
		}{
			"permanent":               {base: answering(404), want: DeadLetter{Attempts: 1, Reason: "permanent"}, status: 404},
			"redirect":                {base: answering(302), want: DeadLetter{Attempts: 1, Reason: "permanent"}, status: 302},
			"permanent at the second": {base: answering(503, 400), want: DeadLetter{Attempts: 2, Reason: "permanent"}, status: 400},
			"exhausted":               {base: answering(503), want: DeadLetter{Attempts: 4, Reason: "max_attempts"}, status: 503},
			"no connection":           {base: answering(0), want: DeadLetter{Attempts: 4, Reason: "max_attempts", Err: errRefused}},
			"nothing was read":        {base: roundTripper(unread), want: DeadLetter{Attempts: 4, Reason: "max_attempts", Err: errRefused}},
			"half was read":           {base: roundTripper(halfRead), want: DeadLetter{Attempts: 4, Reason: "max_attempts"}, status: 503},
			"canceled before":         {base: answering(200), cancelAfter: -1, want: DeadLetter{Attempts: 0, Reason: "canceled", Err: why}},
			"canceled in a pause":     {base: answering(503), cancelAfter: 30 * time.Second, want: DeadLetter{Attempts: 2, Reason: "canceled", Err: why}},
			"canceled in an attempt": {base: roundTripper(func(req *http.Request) (*http.Response, error) {
				io.CopyN(io.Discard, req.Body, 3)
				<-req.Context().Done()
				go func() { // as net/http may
					time.Sleep(time.Second)
					req.Body.Close()
				}()
				return nil, req.Context().Err()
			}), cancelAfter: 5 * time.Second, want: DeadLetter{Attempts: 1, Reason: "canceled", Err: context.Canceled}},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				if end, ok := test.base.(*endpoint); ok {
					test.base = answering(end.statuses...)
				}
				synctest.Test(t, func(t *testing.T) {
					req, closed := newRequest(t, text)
					ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "here"))
					defer cancel(nil)
					switch {
					case test.cancelAfter < 0:
						cancel(why)
					case test.cancelAfter > 0:
						time.AfterFunc(test.cancelAfter, func() { cancel(why) })
					}
					letters := 0
					tr := &Transport{Base: test.base, Jitter: awsretry.NoJitter}
					tr.DeadLetter = func(ctx context.Context, dead DeadLetter) error {
						letters++
						if ctx.Err() != nil || ctx.Value(key{}) != "here" || dead.Request.Context().Err() != nil {
							t.Error("the context has ended or lost its values")
						}
						got, err := receive(dead.Request)
						if err != nil || got.Body != text {
							t.Errorf("the body is %q, %v", got.Body, err)
						}
						if dead.Request.GetBody != nil {
							again, err := dead.Request.GetBody()
							if err != nil {
								t.Fatal(err)
							}
							if b, err := io.ReadAll(again); string(b) != text || err != nil {
								t.Errorf("the body is %q for the second time, %v", b, err)
							}
						}
						if got.URL != "http://a.example/" || got.Method != "POST" || got.Length != req.ContentLength {
							t.Errorf("got %+v", got)
						}
						if dead.Attempts != test.want.Attempts || dead.Reason != test.want.Reason || !errors.Is(dead.Err, test.want.Err) {
							t.Errorf("got %d attempts, %q, %v", dead.Attempts, dead.Reason, dead.Err)
						}
						if (dead.Response == nil) != (test.status == 0) || (dead.Err == nil) != (test.status != 0) {
							t.Errorf("got %v and %v", dead.Response, dead.Err)
						}
						if dead.Response != nil {
							if dead.Response.StatusCode != test.status {
								t.Errorf("got %d", dead.Response.StatusCode)
							}
							if dead.Response.Body != http.NoBody {
								t.Error("the dead letter has the caller's answer")
							}
						}
						return nil
					}
					resp, err := tr.RoundTrip(req.WithContext(ctx))
					if letters != 1 {
						t.Errorf("%d dead letters", letters)
					}
					if !errors.Is(err, test.want.Err) {
						t.Errorf("got %v, want %v", err, test.want.Err)
					}
					if resp != nil {
						if body, err := io.ReadAll(resp.Body); err != nil || len(body) > 0 && string(body) != "the answer" || name == "exhausted" && len(body) == 0 {
							t.Errorf("the answer is %q, %v", body, err)
						}
						resp.Body.Close()
					}
					time.Sleep(time.Minute) // for whoever closes late
					synctest.Wait()
					if closed() != 1 {
						t.Errorf("the caller's body was closed %d times", closed())
					}
				})
			})
		}
	}
}

func TestDeliveredIsNoDeadLetter(t *testing.T) {
	for kind, newRequest := range bodyKinds {
		synctest.Test(t, func(t *testing.T) {
			req, closed := newRequest(t, "x")
			tr := &Transport{Base: answering(503, 204), DeadLetter: func(context.Context, DeadLetter) error {
				t.Errorf("%s: a dead letter of what was delivered", kind)
				return nil
			}}
			if status, err := send(t, tr, req); status != 204 || err != nil {
				t.Errorf("%s: got %d, %v", kind, status, err)
			}
			if closed() != 1 {
				t.Errorf("%s: the caller's body was closed %d times", kind, closed())
			}
		})
	}
}

// What was answered with a 2xx is delivered, whatever comes after it: a dead
// letter would be sent again.
func TestWhatComesAfterA2xxIsNoDeadLetter(t *testing.T) {
	for name, tr := range map[string]*Transport{
		"Observe panics": {Base: answering(200), Observe: func(awsretry.Attempt) { panic("boom") }},
		"the caller gives up while the answer is read": {Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answerWith(200, req)
			resp.Body, resp.ContentLength = io.NopCloser(untilDone{req.Context()}), -1
			return resp, nil
		})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
					t.Errorf("a dead letter: %s, %v", dead.Reason, dead.Err)
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				defer cancel()
				defer func() { recover() }()
				// The answer to such a request is read for an error code, as
				// Amazon S3 sends one with a 200.
				resp, err := tr.RoundTrip(post(t, "http://a.example/?uploadId=7", "x").WithContext(ctx))
				if err == nil {
					resp.Body.Close()
				}
			})
		})
	}
}

// A 2xx to another request of Base is not the delivery's.
func TestOtherDeliveriesOfBaseDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal, letters := &Transport{Base: answering(200)}, 0
		tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			send(t, journal, post(t, "http://journal.example/", "x").WithContext(req.Context()))
			return answerWith(404, req), nil
		}), DeadLetter: func(context.Context, DeadLetter) error { letters++; return nil }}
		resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
		if err != nil || resp.StatusCode != 404 || letters != 1 {
			t.Errorf("got %v, %v, and %d dead letters", resp, err, letters)
		}
	})
}

func TestDeadLetterWithoutABody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		synctest.Test(t, func(t *testing.T) {
			req := post(t, "http://a.example/", "")
			req.Body, req.GetBody = body, nil
			called := false
			tr := &Transport{Base: answering(400), DeadLetter: func(_ context.Context, dead DeadLetter) error {
				called = dead.Request.Body == http.NoBody
				return nil
			}}
			send(t, tr, req)
			if !called {
				t.Error("the dead letter has another body")
			}
		})
	}
}

func TestDeadLetterThatFails(t *testing.T) {
	full := errors.New("disk full")
	for _, test := range []struct {
		status int
		is     []error
		text   string
	}{
		{503, []error{full}, "delivery: answered 503 Service Unavailable; and the dead letter was not taken: disk full"},
		{404, []error{full}, "delivery: answered 404 Not Found; and the dead letter was not taken: disk full"},
		{0, []error{full, errRefused}, "connection refused; and the dead letter was not taken: disk full"},
	} {
		synctest.Test(t, func(t *testing.T) {
			end := answering(test.status)
			tr := &Transport{Base: end, DeadLetter: func(context.Context, DeadLetter) error { return full }}
			resp, err := tr.RoundTrip(post(t, "http://a.example/?token=secret", "x"))
			if resp != nil || err == nil || !strings.HasSuffix(err.Error(), test.text) {
				t.Fatalf("got %v, %v", resp, err)
			}
			for _, want := range test.is {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v in it", err, want)
				}
			}
			var e *awsretry.Error
			if test.status == 0 && !errors.As(err, &e) {
				t.Errorf("got %v, want an awsretry.Error in it", err)
			}
			for n, body := range end.bodies {
				if body.closed.Load() != 1 {
					t.Errorf("answer %d was closed %d times", n, body.closed.Load())
				}
			}
		})
	}
}

func TestDeadLetterThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := answering(404)
		req, closed := bodyKinds["stream"](t, "x")
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v", p)
				}
			}()
			(&Transport{Base: end, DeadLetter: func(context.Context, DeadLetter) error { panic("boom") }}).RoundTrip(req)
		}()
		if end.bodies[0].closed.Load() != 1 || closed() != 1 {
			t.Errorf("the answer was closed %d times, the body %d times", end.bodies[0].closed.Load(), closed())
		}
	})
}

// A panic of Base or of a hook leaves a dead letter and goes on.
func TestPanicsLeaveDeadLetters(t *testing.T) {
	const text = "the request's body"
	boom := func() { panic("boom") }
	for kind, newRequest := range bodyKinds {
		for name, test := range map[string]struct {
			tr       *Transport
			attempts int
		}{
			"Base": {&Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { boom(); return nil, nil })}, 1},
			"Base that has read": {&Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				io.CopyN(io.Discard, req.Body, 3)
				boom()
				return nil, nil
			})}, 1},
			"Observe": {&Transport{Base: answering(404), Observe: func(awsretry.Attempt) { boom() }}, 1},
			"Observe of the second attempt": {&Transport{Base: answering(503, 404), Observe: func(a awsretry.Attempt) {
				if a.Number == 2 {
					boom()
				}
			}}, 2},
			"Jitter":                   {&Transport{Base: answering(503), Jitter: func(time.Duration) time.Duration { boom(); return 0 }}, 1},
			"the end of the goroutine": {&Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil })}, 1},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr, end := &Transport{Base: test.tr.Base, Observe: test.tr.Observe, Jitter: test.tr.Jitter}, (*endpoint)(nil)
					if e, ok := tr.Base.(*endpoint); ok {
						end = answering(e.statuses...)
						tr.Base = end
					}
					req, closed := newRequest(t, text)
					letters := 0
					tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
						letters++
						got, err := receive(dead.Request)
						if err != nil || got.Body != text || dead.Reason != "panic" || dead.Attempts != test.attempts || dead.Err == nil || dead.Response != nil {
							t.Errorf("got %q, %v in %+v", got.Body, err, dead)
						}
						return errors.New("disk full")
					}
					recovered := any("nothing")
					var wg sync.WaitGroup
					wg.Go(func() {
						defer func() { recovered = recover() }()
						tr.RoundTrip(req)
					})
					wg.Wait()
					if goexit := name == "the end of the goroutine"; goexit != (recovered == nil) || !goexit && recovered != "boom" {
						t.Errorf("recovered %v", recovered)
					}
					if letters != 1 {
						t.Errorf("%d dead letters", letters)
					}
					// A body with GetBody is Base's own, which a Base that
					// panicked may not have closed.
					if n := closed(); n > 1 || n == 0 && kind != "GetBody" {
						t.Errorf("the body was closed %d times", n)
					}
					if end != nil {
						for n, body := range end.bodies {
							if body.closed.Load() != 1 {
								t.Errorf("answer %d was closed %d times", n, body.closed.Load())
							}
						}
					}
				})
			})
		}
	}
}

// A body whose reader panicked is not whole any more.
func TestPanicOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		body := &countedBody{Reader: io.MultiReader(strings.NewReader("hel"), &panickingOnce{}, strings.NewReader("lo"))}
		req := post(t, "http://a.example/", "")
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		defer func() {
			if p := recover(); p != "boom" || body.closed.Load() != 1 || len(entries(t, dir)) > 0 {
				t.Errorf("recovered %v; the body was closed %d times; %q is left", p, body.closed.Load(), entries(t, dir))
			}
		}()
		(&Transport{Base: answering(200), DeadLetter: DirQueue(dir)}).RoundTrip(req)
	})
}

type panickingOnce struct{ panicked bool }

func (r *panickingOnce) Read([]byte) (int, error) {
	if !r.panicked {
		r.panicked = true
		panic("boom")
	}
	return 0, io.EOF
}

// A body that panics when it is asked for its size is closed all the same.
func TestPanicOfTheBodysSize(t *testing.T) {
	body := &unknowable{countedBody{Reader: strings.NewReader("x")}}
	req := post(t, "http://a.example/", "x")
	req.Body, req.GetBody = body, nil
	defer func() {
		if p := recover(); p != "boom" || body.closed.Load() != 1 {
			t.Errorf("recovered %v; the body was closed %d times", p, body.closed.Load())
		}
	}()
	(&Transport{Base: answering(404), DeadLetter: func(context.Context, DeadLetter) error { return nil }}).RoundTrip(req)
}

type unknowable struct{ countedBody }

func (*unknowable) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
func (*unknowable) Size() int64                       { panic("boom") }

// The attempt's time-out does not cut off an answer while its dead letter is on
// its way.
func TestSlowDeadLetterKeepsTheAnswerWhole(t *testing.T) {
	for _, size := range []int{0, 10, maxReadAhead, maxReadAhead + 1} {
		synctest.Test(t, func(t *testing.T) {
			trailer := http.Header{}
			closed := &countedBody{Reader: &timedReader{strings.NewReader(strings.Repeat("x", size)), func() { trailer.Set("X", "y") }, t.Context()}}
			tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				closed.Reader.(*timedReader).ctx = req.Context()
				resp := answerWith(404, req)
				resp.Body, resp.Trailer = closed, trailer
				return resp, nil
			}), DeadLetter: func(context.Context, DeadLetter) error {
				if size <= maxReadAhead {
					time.Sleep(time.Hour)
				}
				return nil
			}}
			resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || len(body) != size || resp.Trailer.Get("X") != "y" {
				t.Errorf("%d bytes of %d, trailer %v, %v", len(body), size, resp.Trailer, err)
			}
			resp.Body.Close()
			if closed.closed.Load() == 0 {
				t.Error("the answer was not closed")
			}
		})
	}
}

// A timedReader ends with its context, and calls end at its end.
type timedReader struct {
	io.Reader
	end func()
	ctx context.Context
}

func (r *timedReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		r.end()
	}
	return n, err
}

// An answer whose body breaks off comes back as it came.
func TestBrokenAnswerComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("connection reset")
		tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answerWith(404, req)
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("the beginning"), failing{broken}))
			return resp, nil
		}), DeadLetter: func(context.Context, DeadLetter) error { return nil }}
		resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); string(body) != "the beginning" || !errors.Is(err, broken) {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

// A connection that changes hands stays one.
func TestUpgradeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			resp := answerWith(101, req)
			resp.Body = struct {
				io.ReadCloser
				io.Writer
			}{io.NopCloser(failing{errors.New("read")}), &bytes.Buffer{}}
			return resp, nil
		}), DeadLetter: func(context.Context, DeadLetter) error { return nil }}
		resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := resp.Body.(io.Writer); !ok {
			t.Errorf("the body is a %T", resp.Body)
		}
		resp.Body.Close()
	})
}

// Over a real connection: the server answers before it has read the stream, the
// stream is longer than what fits into the connection's buffers, and every byte
// of it arrives in the end.
func TestFromStreamToDiskToServer(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", maxKept/16)
	for name, kind := range bodyKinds {
		t.Run(name, func(t *testing.T) {
			healthy := false
			var got []sent
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if !healthy {
					http.Error(w, "not now", http.StatusServiceUnavailable)
					return
				}
				s, err := receive(req)
				if err != nil {
					t.Error(err)
				}
				got = append(got, s)
			}))
			defer server.Close()
			dir := t.TempDir()
			policy := parse(t, `{"healthyRetryPolicy":{"numRetries":2,"numNoDelayRetries":2},"requestPolicy":{"headerContentType":"application/json"}}`)
			tr := &Transport{Policy: policy, DeadLetter: DirQueue(dir), Base: server.Client().Transport}
			req, _ := kind(t, text)
			req.URL.Host, req.URL.RawQuery, req.Host = strings.TrimPrefix(server.URL, "http://"), "a=b", ""
			req.Header.Set("X-Custom", "value")
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != 503 || string(body) != "not now\n" || err != nil {
				t.Errorf("got %d %q, %v", resp.StatusCode, body, err)
			}
			resp.Body.Close()

			healthy = true
			done, err := Redrive(t.Context(), dir, server.Client().Transport)
			if err != nil || done != (Redriven{Delivered: 1}) {
				t.Fatalf("got %+v, %v", done, err)
			}
			if len(got) != 1 || got[0].Body != text || got[0].URL != "/?a=b" || got[0].Header.Get("X-Custom") != "value" ||
				got[0].Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d requests arrived", len(got))
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("%s is left", left)
			}
		})
	}
}
