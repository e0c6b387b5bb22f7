package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A countedFile is a file that counts how often it is closed.
type countedFile struct {
	*os.File
	closed int
}

func (f *countedFile) Close() error {
	f.closed++
	return f.File.Close()
}

// The kinds of request bodies. closed says how often the caller's reader was closed.
var bodyKinds = map[string]func(t *testing.T, text string) (req *http.Request, closed func() int){
	"GetBody": func(t *testing.T, text string) (*http.Request, func() int) {
		req := post(t, "http://a.example/", text)
		body := &countedBody{Reader: req.Body}
		req.Body = body
		return req, func() int { return int(body.closed.Load()) }
	},
	"stream": func(t *testing.T, text string) (*http.Request, func() int) {
		req := post(t, "http://a.example/", "")
		body := &countedBody{Reader: iotest.HalfReader(strings.NewReader(text))}
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		return req, func() int { return int(body.closed.Load()) }
	},
	"stream with a length": func(t *testing.T, text string) (*http.Request, func() int) {
		req := post(t, "http://a.example/", text)
		body := &countedBody{Reader: iotest.DataErrReader(strings.NewReader(text))}
		req.Body, req.GetBody = body, nil
		return req, func() int { return int(body.closed.Load()) }
	},
	"file": func(t *testing.T, text string) (*http.Request, func() int) {
		name := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(name, []byte("skipped "+text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		io.CopyN(io.Discard, f, int64(len("skipped ")))
		file := &countedFile{File: f}
		req := post(t, "http://a.example/", text)
		req.Body, req.GetBody = file, nil
		return req, func() int { return file.closed }
	},
	"reader without Close": func(t *testing.T, text string) (*http.Request, func() int) {
		req := post(t, "http://a.example/", "")
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(strings.NewReader(text)), nil, -1
		return req, func() int { return 1 }
	},
}

// unread is a Base that fails before it looks at the body.
func unread(req *http.Request) (*http.Response, error) {
	req.Body.Close()
	return nil, errRefused
}

func halfRead(req *http.Request) (*http.Response, error) {
	io.CopyN(io.Discard, req.Body, 2)
	req.Body.Close()
	return answerWith(503, req), nil
}

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

// What GetBody gave for the dead letter is closed once, whether or not DeadLetter closes it too.
func TestBodyFromGetBodyIsClosed(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var bodies []*countedBody
			req := post(t, "http://a.example/", "x")
			req.GetBody = func() (io.ReadCloser, error) {
				bodies = append(bodies, &countedBody{Reader: strings.NewReader("x")})
				return bodies[len(bodies)-1], nil
			}
			send(t, &Transport{Base: answering(404), DeadLetter: func(_ context.Context, dead DeadLetter) error {
				if closes {
					dead.Request.Body.Close()
				}
				return nil
			}}, req)
			if len(bodies) != 1 || bodies[0].closed.Load() != 1 {
				t.Errorf("%d bodies, the first closed %d times", len(bodies), bodies[0].closed.Load())
			}
		})
	}
}

// A file is read in place, so that its length does not matter.
func TestLongFilesAreDeadLettersWhole(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 3*maxKept/16)
	for _, kind := range []string{"file", "reader without Close"} {
		synctest.Test(t, func(t *testing.T) {
			req, _ := bodyKinds[kind](t, text)
			whole := false
			send(t, &Transport{Base: answering(503), DeadLetter: func(_ context.Context, dead DeadLetter) error {
				got, err := receive(dead.Request)
				whole = got.Body == text && err == nil
				return err
			}}, req)
			if !whole {
				t.Errorf("%s: the dead letter has another body", kind)
			}
		})
	}
}

// What was kept of a stream is let go when the delivery is over, although the response keeps the request alive.
func TestKeptStreamIsReleased(t *testing.T) {
	req, closed := bodyKinds["stream"](t, "text")
	k := keepBody(req)
	lent := k.lend()
	if text, err := io.ReadAll(lent.Body); string(text) != "text" || err != nil || string(k.stream.kept) != "text" {
		t.Errorf("got %q, %v, and %q is kept", text, err, k.stream.kept)
	}
	k.release()
	if k.stream.kept != nil || closed() != 0 {
		t.Errorf("%q is kept; the body was closed %d times", k.stream.kept, closed())
	}
	lent.Body.Close()
	lent.Body.Close()
	if closed() != 1 {
		t.Errorf("the body was closed %d times", closed())
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

func TestDeadLetterWithoutABody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		synctest.Test(t, func(t *testing.T) {
			req := post(t, "http://a.example/", "")
			req.Body, req.GetBody = body, nil
			called := false
			tr := &Transport{Base: answering(400), DeadLetter: func(_ context.Context, dead DeadLetter) error {
				called = dead.Request.Body == body
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

// A body that cannot be had again says so; it is never cut short, and a queue does not take it.
func TestLostBodies(t *testing.T) {
	broken := errors.New("disk error")
	huge := strings.Repeat("x", maxKept+1)
	for name, test := range map[string]struct {
		base   http.RoundTripper
		change func(*http.Request)
		want   error // besides ErrBody
	}{
		"too long":                     {answering(503), func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(oneWay(huge)), -1 }, nil},
		"too long, as its length says": {roundTripper(halfRead), func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(oneWay(huge)), maxKept+1 }, nil},
		"its reader failed":            {answering(503), func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(oneWay("he"), failing{broken})) }, broken},
		"its reader failed once": {roundTripper(func(req *http.Request) (*http.Response, error) {
			_, err := receive(req)
			return nil, err
		}), func(r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(oneWay("he"), &failingOnce{err: broken}, oneWay("llo")))
		}, broken},
		"its reader fails in the rest":  {roundTripper(halfRead), func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(oneWay("he"), failing{broken})) }, broken},
		"its GetBody fails":             {answering(404), func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, broken } }, broken},
		"its GetBody has nothing":       {answering(404), func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, nil } }, nil},
		"its reader hangs":              {hangingUp, func(r *http.Request) { r.Body = &hanging{make(chan struct{})} }, nil},
		"its reader hangs for the rest": {roundTripper(unread), func(r *http.Request) { r.Body = &hanging{make(chan struct{})} }, errHung},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if end, ok := test.base.(*endpoint); ok {
				test.base = answering(end.statuses...)
			}
			synctest.Test(t, func(t *testing.T) {
				req := post(t, "http://a.example/", "hello")
				req.GetBody = nil
				test.change(req)
				resp, err := (&Transport{Base: test.base, DeadLetter: DirQueue(dir)}).RoundTrip(req)
				if resp != nil || !errors.Is(err, ErrBody) || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("got %v, %v", resp, err)
				}
				if left := entries(t, dir); len(left) > 0 {
					t.Errorf("%s was left", left)
				}
			})
		})
	}
}

// oneWay is a reader that can do nothing else.
func oneWay(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// A failingOnce goes on after its failure as if nothing had been.
type failingOnce struct{ err error }

func (f *failingOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

var errHung = errors.New("closed while it was read")

// A hanging body hangs until it is closed.
type hanging struct{ closed chan struct{} }

func (h *hanging) Read([]byte) (int, error) {
	<-h.closed
	return 0, errHung
}

func (h *hanging) Close() error {
	close(h.closed)
	return nil
}

// hangingUp reads the body for as long as it is let, and does not wait for that.
var hangingUp = roundTripper(func(req *http.Request) (*http.Response, error) {
	go func() {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}()
	time.Sleep(time.Second)
	return answerWith(404, req), nil
})

// A stream of any length that nobody has begun to read is handed over as it is.
func TestUnreadStreamsAreHandedOverWhole(t *testing.T) {
	const size = 8 * maxKept
	for _, length := range []int64{-1, size} {
		synctest.Test(t, func(t *testing.T) {
			req := post(t, "http://a.example/", "")
			body := &countedBody{Reader: io.LimitReader(zeros{}, size)}
			req.Body, req.GetBody, req.ContentLength = body, nil, length
			var got int64
			tr := &Transport{Base: roundTripper(unread), DeadLetter: func(_ context.Context, dead DeadLetter) (err error) {
				got, err = io.Copy(io.Discard, dead.Request.Body)
				return err
			}}
			if _, err := tr.RoundTrip(req); !errors.Is(err, errRefused) || got != size || body.closed.Load() != 1 {
				t.Errorf("%d bytes, %v, closed %d times", got, err, body.closed.Load())
			}
		})
	}
}

// Two never read one stream: when the answer is there to its end, the rest of the body is the dead letter's; when it is not, the
// body stays with the attempt, and the dead letter says that it has none.
func TestLateReadersOfTheStream(t *testing.T) {
	const text = "the request's body"
	for _, size := range []int{10, maxAnswer + 1} {
		synctest.Test(t, func(t *testing.T) {
			endless := size > maxAnswer
			upload := make(chan error, 1)
			answerBody := &countedBody{Reader: strings.NewReader(strings.Repeat("x", size))}
			tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				io.CopyN(io.Discard, req.Body, 2)
				go func() {
					time.Sleep(time.Second)
					_, err := io.ReadAll(req.Body)
					req.Body.Close()
					upload <- err
				}()
				resp := answerWith(404, req)
				resp.Body = answerBody
				return resp, nil
			})}
			req, _ := bodyKinds["stream"](t, text)
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				time.Sleep(2 * time.Second)
				got, err := receive(dead.Request)
				if endless && !errors.Is(err, ErrBody) || !endless && (err != nil || got.Body != text) {
					t.Errorf("an answer of %d bytes: the dead letter has %q, %v", size, got.Body, err)
				}
				return err
			}
			resp, err := tr.RoundTrip(req)
			if uploaded := <-upload; (uploaded == nil) != endless {
				t.Errorf("an answer of %d bytes: the late reader got %v", size, uploaded)
			}
			if resp != nil {
				resp.Body.Close()
			}
			if (err != nil) != endless || answerBody.closed.Load() != 1 {
				t.Errorf("an answer of %d bytes: got %v, closed %d times", size, err, answerBody.closed.Load())
			}
		})
	}
}

// The attempt's time-out does not cut off an answer while its dead letter is on its way.
func TestSlowDeadLetterKeepsTheAnswerWhole(t *testing.T) {
	for _, size := range []int{0, 10, maxAnswer, maxAnswer + 1} {
		synctest.Test(t, func(t *testing.T) {
			trailer := http.Header{}
			closed := &countedBody{Reader: &timedReader{strings.NewReader(strings.Repeat("x", size)), func() { trailer.Set("X", "y") }, t.Context()}}
			tr := &Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
				closed.Reader.(*timedReader).ctx = req.Context()
				resp := answerWith(404, req)
				resp.Body, resp.Trailer = closed, trailer
				return resp, nil
			}), DeadLetter: func(context.Context, DeadLetter) error {
				if size <= maxAnswer {
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

// Over a real connection: the server answers before it has read the stream, the stream is longer than what fits into the
// connection's buffers, and every byte of it arrives in the end.
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
