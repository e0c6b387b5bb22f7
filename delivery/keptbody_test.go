package delivery

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
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

// The kinds of request bodies. closed says how often the caller's reader was
// closed.
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

// What GetBody gave for the dead letter is closed once, whether or not
// DeadLetter closes it too.
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

// closeWait is how long a Close is waited for that may wait for a Read.
const closeWait = 100 * time.Millisecond

// A body that cannot be had again says so; it is never cut short, and a queue
// does not take it.
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
		"its reader hangs for the rest": {roundTripper(unread), func(r *http.Request) { r.Body = &hanging{make(chan struct{})} }, nil},
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

// hangingUp reads the body for as long as it is let, and does not wait for
// that.
var hangingUp = roundTripper(func(req *http.Request) (*http.Response, error) {
	go func() {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}()
	time.Sleep(time.Second)
	return answerWith(404, req), nil
})

// A waitingBody hangs after its first bytes, and its Close waits for the Read,
// as that of a server's request does whose client stalls.
type waitingBody struct {
	begin   io.Reader
	reading chan struct{} // a mutex that synctest can wait for
	freed   chan struct{} // ends the Read
}

func newWaitingBody() *waitingBody {
	return &waitingBody{strings.NewReader("begin"), make(chan struct{}, 1), make(chan struct{})}
}

func (b *waitingBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if n, err := b.begin.Read(p); err == nil {
		return n, nil
	}
	<-b.freed
	return 0, io.ErrUnexpectedEOF
}

func (b *waitingBody) Close() error {
	b.reading <- struct{}{}
	<-b.reading
	return nil
}

// RoundTrip returns although the body's Close waits for a Read that hangs.
func TestCloseThatWaitsForARead(t *testing.T) {
	fromGetBody := func(r *http.Request) {
		body := r.Body
		r.Body, r.GetBody = io.NopCloser(oneWay("x")), func() (io.ReadCloser, error) { return body, nil }
	}
	for name, test := range map[string]struct {
		base   roundTripper
		change func(*http.Request)
		want   time.Duration
	}{
		"Base reads it":                 {hangingUp, nil, time.Second + defaultAttemptTimeout + closeWait},
		"DeadLetter reads it":           {unread, nil, defaultAttemptTimeout + closeWait},
		"DeadLetter reads it once more": {unread, fromGetBody, defaultAttemptTimeout + closeWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := newWaitingBody()
				free := sync.OnceFunc(func() { close(body.freed) })
				time.AfterFunc(time.Hour, free) // so that a RoundTrip that waits comes back
				defer free()
				req := post(t, "http://a.example/", "")
				req.Body, req.GetBody, req.ContentLength = body, nil, -1
				if test.change != nil {
					test.change(req)
				}
				tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: test.base, DeadLetter: func(_ context.Context, dead DeadLetter) error {
					_, err := receive(dead.Request)
					return err
				}}
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); resp != nil || !errors.Is(err, ErrBody) || took != test.want {
					t.Errorf("got %v, %v in %v, want ErrBody in %v", resp, err, took, test.want)
				}
			})
		})
	}
}

// As above, with net/http's own body of a server's request.
func TestForwardedRequestThatStalls(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer refusing.Close()
	tr := &Transport{AttemptTimeout: 50 * time.Millisecond, DeadLetter: func(_ context.Context, dead DeadLetter) error {
		_, err := receive(dead.Request)
		return err
	}}
	returned := make(chan error, 1)
	forwarding := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		req := post(t, refusing.URL, "")
		req.Body, req.GetBody, req.ContentLength = r.Body, nil, r.ContentLength
		_, err := tr.RoundTrip(req)
		returned <- err
	}))
	defer forwarding.Close()
	conn, err := net.Dial("tcp", forwarding.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nbegin")
	select {
	case err := <-returned:
		if !errors.Is(err, ErrBody) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("RoundTrip has not returned after 10 s")
	}
}

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

// Two never read one stream: when the answer is there to its end, the rest of
// the body is the dead letter's; when it is not, the body stays with the
// attempt, and the dead letter says that it has none.
func TestLateReadersOfTheStream(t *testing.T) {
	const text = "the request's body"
	for _, size := range []int{10, maxReadAhead + 1} {
		synctest.Test(t, func(t *testing.T) {
			endless := size > maxReadAhead
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
