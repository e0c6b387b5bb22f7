package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry/delivery/letters"
	"example.com/awsretry/internal/httpfake"
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
		body := httpfake.NewBody(req.Body)
		req.Body = body
		return req, func() int { return int(body.Closes()) }
	},
	"stream": func(t *testing.T, text string) (*http.Request, func() int) {
		body := httpfake.NewBody(iotest.HalfReader(strings.NewReader(text)))
		req := stream(t, body)
		return req, func() int { return int(body.Closes()) }
	},
	"stream with a length": func(t *testing.T, text string) (*http.Request, func() int) {
		req := post(t, "http://a.example/", text)
		body := httpfake.NewBody(iotest.DataErrReader(strings.NewReader(text)))
		req.Body, req.GetBody = body, nil
		return req, func() int { return int(body.Closes()) }
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
		req := stream(t, io.NopCloser(strings.NewReader(text)))
		return req, func() int { return 1 }
	},
}

// The dead letter's body from GetBody is closed once, whether or not DeadLetter
// closes it too.
func TestBodyFromGetBodyIsClosed(t *testing.T) {
	for name, closes := range map[string]bool{"left open": false, "closed": true} {
		run(t, name, func(t *testing.T) {
			var bodies []*httpfake.Body
			req := post(t, "http://a.example/", "")
			req.Body, req.ContentLength = io.NopCloser(oneWay("x")), 1
			req.GetBody = func() (io.ReadCloser, error) {
				bodies = append(bodies, httpfake.NewBody(strings.NewReader("x")))
				return bodies[len(bodies)-1], nil
			}
			send(t, &Transport{Base: responding(404), DeadLetter: func(_ context.Context, dead DeadLetter) error {
				if closes {
					dead.Request.Body.Close()
				}
				return nil
			}}, req)
			if len(bodies) != 1 || bodies[0].Closes() != 1 {
				t.Errorf("%d bodies, the first closed %d times", len(bodies), bodies[0].Closes())
			}
		})
	}
}

// A file is read in place, so that its length does not matter.
func TestLongFilesAreDeadLettersWhole(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 3*maxKept/16)
	for _, kind := range []string{"file", "reader without Close"} {
		run(t, kind, func(t *testing.T) {
			req, _ := bodyKinds[kind](t, text)
			whole := false
			send(t, &Transport{Base: responding(503), DeadLetter: func(_ context.Context, dead DeadLetter) error {
				got, err := receive(dead.Request)
				whole = got.Body == text && err == nil
				return err
			}}, req)
			if !whole {
				t.Error("the dead letter has another body")
			}
		})
	}
}

// Reading a body that cannot be read again is an error. The body is never cut
// short, and a queue does not take it.
func TestLostBodies(t *testing.T) {
	broken := errors.New("disk error")
	huge := oneWay(strings.Repeat("x", maxKept+1))
	body := func(readers ...io.Reader) func(*http.Request) {
		return func(req *http.Request) { req.Body, req.ContentLength = io.NopCloser(io.MultiReader(readers...)), -1 }
	}
	getBody := func(body io.ReadCloser, err error) func(*http.Request) {
		return func(req *http.Request) {
			req.Body, req.ContentLength = io.NopCloser(oneWay("hello")), 5
			req.GetBody = func() (io.ReadCloser, error) { return body, err }
		}
	}
	hangs := func(req *http.Request) {
		req.Body, _ = io.Pipe()
		req.ContentLength = -1
	}
	failsWithBody := func(req *http.Request) (*http.Response, error) {
		_, err := receive(req)
		return nil, err
	}
	for _, tt := range []struct {
		name   string
		base   func() http.RoundTripper
		change func(*http.Request)
		want   error // besides ErrBody
	}{
		{"too long", always(503), body(huge), nil},
		{"too long, as its length says", fixed(halfRead), func(req *http.Request) {
			req.Body, req.ContentLength = io.NopCloser(oneWay(strings.Repeat("x", maxKept+1))), maxKept+1
		}, nil},
		{"its reader failed", always(503), body(oneWay("he"), iotest.ErrReader(broken)), broken},
		{"its reader failed once", fixed(failsWithBody),
			body(oneWay("he"), &failingOnce{err: broken}, oneWay("llo")), broken},
		{"its reader fails in the rest", fixed(halfRead), body(oneWay("he"), iotest.ErrReader(broken)), broken},
		{"its GetBody fails", always(404), getBody(nil, broken), broken},
		{"its GetBody returns nothing", always(404), getBody(nil, nil), nil},
		{"its reader hangs", fixed(hangingUp), hangs, nil},
		{"its reader hangs for the rest", fixed(unread), hangs, nil},
	} {
		run(t, tt.name, func(t *testing.T) {
			dir := t.TempDir()
			req := post(t, "http://a.example/", "hello")
			req.GetBody = nil
			tt.change(req)
			resp, err := (&Transport{Base: tt.base(), DeadLetter: (&letters.Dir{Path: dir}).Put}).RoundTrip(req)
			if resp != nil || !errors.Is(err, ErrBody) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, %v", resp, err)
			}
			if left := entries(t, dir); len(left) > 0 {
				t.Errorf("%s was left", left)
			}
		})
	}
}

// A failingOnce reader fails, and then is at its end.
type failingOnce struct{ err error }

func (f *failingOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

// hangingUp is a Base that responds while it still reads the body.
func hangingUp(req *http.Request) (*http.Response, error) {
	go func() {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}()
	time.Sleep(time.Second)
	return respond(404, req), nil
}

// A stream that no attempt has begun to read is handed over as it is, whatever
// its length.
func TestUnreadStreamsAreHandedOverWhole(t *testing.T) {
	const size = 8 * maxKept
	for name, length := range map[string]int64{"of unknown length": -1, "of known length": size} {
		run(t, name, func(t *testing.T) {
			req := post(t, "http://a.example/", "")
			body := httpfake.NewBody(io.LimitReader(httpfake.Zeros, size))
			req.Body, req.GetBody, req.ContentLength = body, nil, length
			var got int64
			tr := &Transport{
				Base: httpfake.Base(unread),
				DeadLetter: func(_ context.Context, dead DeadLetter) (err error) {
					got, err = io.Copy(io.Discard, dead.Request.Body)
					return err
				},
			}
			if _, err := tr.RoundTrip(req); !errors.Is(err, errRefused) || got != size || body.Closes() != 1 {
				t.Errorf("%d bytes, %v, closed %d times", got, err, body.Closes())
			}
		})
	}
}

// Base and the dead letter never read one stream at the same time. If the
// response was read to its end, or Base has closed the request's body, the rest
// of the stream is the dead letter's. Otherwise it stays with Base, and the
// dead letter's body is lost.
func TestWhoHasTheRestOfAStream(t *testing.T) {
	const text = "the request's body"
	for _, tt := range []struct {
		name     string
		response int  // its length
		closes   bool // Base closes the request's body before it responds
		ours     bool
	}{
		{"a short response", 10, false, true},
		{"a long response", maxReadAhead + 1, false, false},
		{"a long response to a body that is closed", maxReadAhead + 1, true, true},
	} {
		run(t, tt.name, func(t *testing.T) {
			upload := make(chan error, 1)
			response := httpfake.NewBody(strings.NewReader(strings.Repeat("x", tt.response)))
			tr := &Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				io.CopyN(io.Discard, req.Body, 2)
				if tt.closes {
					req.Body.Close()
				}
				go func() {
					time.Sleep(time.Second)
					_, err := io.ReadAll(req.Body)
					req.Body.Close()
					upload <- err
				}()
				resp := respond(404, req)
				resp.Body = response
				return resp, nil
			})}
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				time.Sleep(2 * time.Second)
				got, err := receive(dead.Request)
				if ours := err == nil && got.Body == text; ours != tt.ours || !ours && !errors.Is(err, ErrBody) {
					t.Errorf("the dead letter has %q, %v", got.Body, err)
				}
				return err
			}
			req, closed := bodyKinds["stream"](t, text)
			resp, err := tr.RoundTrip(req)
			if uploaded := <-upload; (uploaded != nil) != tt.ours {
				t.Errorf("Base got %v", uploaded)
			}
			if resp != nil {
				resp.Body.Close()
			}
			if (err == nil) != tt.ours || response.Closes() != 1 || closed() != 1 {
				t.Errorf("got %v; the response was closed %d times, the body %d times",
					err, response.Closes(), closed())
			}
		})
	}
}

// After an early 2xx Base goes on sending the body.
func TestDeliveredStreamIsSentToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "the request's body"
		upload := make(chan string, 1)
		tr := &Transport{DeadLetter: readIt, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			go func() {
				time.Sleep(time.Second)
				got, _ := receive(req)
				upload <- got.Body
			}()
			return respond(200, req), nil
		})}
		req, closed := bodyKinds["stream"](t, text)
		if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 {
			t.Fatalf("got %v, %v", resp, err)
		}
		if got := <-upload; got != text {
			t.Errorf("Base sent %q", got)
		}
		if synctest.Wait(); closed() != 1 {
			t.Errorf("the body was closed %d times", closed())
		}
	})
}

// One buffer serves the retries and the dead letter.
func TestStreamIsKeptOnce(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	for _, tt := range []struct {
		name string
		size int64
		lost bool
	}{
		{"as much as is kept", maxKept, false},
		{"more than is kept", 4 * maxKept, true},
	} {
		run(t, tt.name, func(t *testing.T) {
			req := stream(t, io.NopCloser(io.LimitReader(httpfake.Zeros, tt.size)))
			before, kept := heap(), int64(0)
			measure := func() { kept = max(kept, heap()-before) }
			tr := &Transport{
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					io.CopyN(io.Discard, req.Body, maxKept)
					measure()
					io.Copy(io.Discard, req.Body)
					req.Body.Close()
					return respond(503, req), nil
				}),
				DeadLetter: func(_ context.Context, dead DeadLetter) error {
					measure()
					n, err := io.Copy(io.Discard, dead.Request.Body)
					if tt.lost != errors.Is(err, ErrBody) || !tt.lost && n != tt.size {
						t.Errorf("the dead letter has %d bytes, %v", n, err)
					}
					return nil
				},
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if kept < maxKept/2 || kept > maxKept+maxKept/4 {
				t.Errorf("%d bytes are kept", kept)
			}
		})
	}
}

// A rewound body takes a second for each Read. Its GetBody rewinds it, and must
// not be called during a Read.
type rewound struct {
	*strings.Reader
	reading atomic.Bool
	during  atomic.Bool // GetBody or Close was called during a Read
}

func (r *rewound) Read(p []byte) (int, error) {
	r.reading.Store(true)
	defer r.reading.Store(false)
	time.Sleep(time.Second)
	return r.Reader.Read(p[:min(len(p), 2)])
}

func (r *rewound) Close() error {
	r.during.Store(r.during.Load() || r.reading.Load())
	return nil
}

func (r *rewound) getBody() (io.ReadCloser, error) {
	r.during.Store(r.during.Load() || r.reading.Load())
	_, err := r.Seek(0, io.SeekStart)
	return r, err
}

// A dead letter has the whole body although Base still reads it when its last
// response comes, and so does each retry.
func TestDeadLetterOfABodyThatRewinds(t *testing.T) {
	const text = "hello, world"
	for _, closes := range []bool{false, true} {
		run(t, fmt.Sprintf("Base closes it: %v", closes), func(t *testing.T) {
			body := &rewound{Reader: strings.NewReader(text)}
			req := post(t, "http://a.example/", "")
			req.Body, req.GetBody, req.ContentLength = body, body.getBody, int64(len(text))
			tr := &Transport{
				Policy: testPolicy(t, `"numRetries":1,"minDelayTarget":1,"maxDelayTarget":1`),
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					go receive(req)
					time.Sleep(2500 * time.Millisecond)
					if closes {
						req.Body.Close()
					}
					return respond(503, req), nil
				}),
				DeadLetter: func(_ context.Context, dead DeadLetter) error {
					if got, err := receive(dead.Request); got.Body != text || err != nil || dead.Attempts != 2 {
						t.Errorf("%q, %v after %d attempts", got.Body, err, dead.Attempts)
					}
					again, err := dead.Request.GetBody()
					if err != nil {
						t.Fatal(err)
					}
					if got, err := io.ReadAll(again); string(got) != text || err != nil {
						t.Errorf("again: %q, %v", got, err)
					}
					return again.Close()
				},
			}
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != 503 || body.during.Load() {
				t.Errorf("%v, %v; during a Read: %v", resp, err, body.during.Load())
			}
			time.Sleep(time.Minute)
		})
	}
}
