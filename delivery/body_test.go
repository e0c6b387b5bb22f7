package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

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
		return req, body.Closes
	},
	"stream": func(t *testing.T, text string) (*http.Request, func() int) {
		body := httpfake.NewBody(iotest.HalfReader(strings.NewReader(text)))
		return stream(t, body), body.Closes
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
}

// The dead letter's body from GetBody is closed once, whether or not DeadLetter
// closes it too.
func TestBodyFromGetBodyIsClosed(t *testing.T) {
	for _, closes := range []bool{false, true} {
		var bodies []*httpfake.Body
		req := post(t, "http://a.example/", "")
		text := httpfake.Text(100_000) // more than is kept
		req.Body, req.ContentLength = io.NopCloser(oneWay(text)), int64(len(text))
		req.GetBody = func() (io.ReadCloser, error) {
			bodies = append(bodies, httpfake.NewBody(strings.NewReader(text)))
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
	}
}

// Reading a body that cannot be read again is an error. The body is never cut
// short, and a queue does not take it.
func TestLostBodies(t *testing.T) {
	broken := errors.New("disk error")
	body := func(readers ...io.Reader) func(*http.Request) {
		return func(req *http.Request) { req.Body, req.ContentLength = io.NopCloser(io.MultiReader(readers...)), -1 }
	}
	hangs := func(req *http.Request) {
		req.Body, _ = io.Pipe()
		req.ContentLength = -1
	}
	for _, tt := range []struct {
		name   string
		base   http.RoundTripper
		change func(*http.Request)
		want   error // besides ErrBody
		took   time.Duration
	}{
		{"its reader failed", responding(503), body(oneWay("he"), iotest.ErrReader(broken)), broken, 0},
		{"its reader fails in the rest", httpfake.Base(halfRead), body(oneWay("he"), iotest.ErrReader(broken)), broken, 0},
		{"its GetBody fails", responding(404), func(req *http.Request) {
			text := httpfake.Text(100_000)
			req.Body, req.ContentLength = io.NopCloser(oneWay(text)), int64(len(text))
			req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
		}, broken, 0},
		{"its reader hangs", httpfake.Base(hangingUp), hangs, nil, time.Second + defaultAttemptTimeout},
		{"its reader hangs for the rest", httpfake.Base(unread), hangs, nil, defaultAttemptTimeout},
	} {
		run(t, tt.name, func(t *testing.T) {
			req := post(t, "http://a.example/", "hello")
			req.GetBody = nil
			tt.change(req)
			tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: tt.base, DeadLetter: readAll}
			start := time.Now()
			resp, err := tr.RoundTrip(req)
			if resp != nil || !errors.Is(err, ErrBody) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, %v", resp, err)
			}
			if took := time.Since(start); took != tt.took {
				t.Errorf("it took %v, want %v", took, tt.took)
			}
		})
	}
}

// A stream that no attempt has begun to read is handed over as it is, whatever
// its length. Of another, maxKept bytes are kept, in one buffer for the retries and
// the dead letter.
func TestLongStreams(t *testing.T) {
	sends := func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
		return respond(503, req), nil
	}
	for _, tt := range []struct {
		name         string
		base         httpfake.Base
		size, length int64
		lost         bool
		kept         int64
	}{
		{"unread", unread, 8 * maxKept, -1, false, 0},
		{"unread, of known length", unread, 8 * maxKept, 8 * maxKept, false, 0},
		{"as long as what is kept", sends, maxKept, -1, false, maxKept},
		{"too long", sends, maxKept + 1, -1, true, 0},
		{"half read, too long as its length says", halfRead, maxKept + 1, maxKept + 1, true, 0},
	} {
		run(t, tt.name, func(t *testing.T) {
			body := httpfake.NewBody(io.LimitReader(httpfake.Zeros, tt.size))
			req := stream(t, body)
			req.ContentLength = tt.length
			before, kept := heap(), int64(0)
			tr := &Transport{Base: tt.base}
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				kept = heap() - before
				n, err := io.Copy(io.Discard, dead.Request.Body)
				whole := n == tt.size && err == nil
				if lost := errors.Is(err, ErrBody); lost != tt.lost || whole == tt.lost {
					t.Errorf("the dead letter has %d bytes, %v", n, err)
				}
				return nil
			}
			if resp, err := tr.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			if max(kept-tt.kept, tt.kept-kept) > maxKept/4 || body.Closes() != 1 {
				t.Errorf("%d bytes are kept; the body was closed %d times", kept, body.Closes())
			}
		})
	}
}

func heap() int64 {
	for range 3 { // what a sync.Pool has is freed by the second collection
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Base and the dead letter never read one stream at the same time. If the
// response was read to its end, or Base has closed the request's body, the rest
// of the stream is the dead letter's. Otherwise it stays with Base, and the
// dead letter's body is lost. After an early 2xx it stays with Base too.
func TestWhoHasTheRestOfAStream(t *testing.T) {
	const text = "the request's body"
	for _, tt := range []struct {
		name     string
		status   int
		response int  // its length
		closes   bool // Base closes the request's body before it responds
		ours     bool
		err      error
	}{
		{"a short response", 404, 10, false, true, nil},
		{"a long response", 404, maxReadAhead + 1, false, false, ErrBody},
		{"a long response to a body that is closed", 404, maxReadAhead + 1, true, true, nil},
		{"delivered", 200, 10, false, false, nil},
	} {
		run(t, tt.name, func(t *testing.T) {
			upload := make(chan string, 1)
			response := httpfake.NewBody(strings.NewReader(strings.Repeat("x", tt.response)))
			tr := &Transport{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				io.CopyN(io.Discard, req.Body, 2)
				if tt.closes {
					req.Body.Close()
				}
				go func() {
					time.Sleep(time.Second)
					rest, _ := io.ReadAll(req.Body)
					req.Body.Close()
					upload <- text[:2] + string(rest)
				}()
				resp := respond(tt.status, req)
				resp.Body = response
				return resp, nil
			})}
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				time.Sleep(2 * time.Second)
				got, err := receive(dead.Request)
				if ours := err == nil && got.Body == text; ours != tt.ours || !errors.Is(err, tt.err) {
					t.Errorf("the dead letter has %q, %v", got.Body, err)
				}
				return err
			}
			req, closed := bodyKinds["stream"](t, text)
			resp, err := tr.RoundTrip(req)
			if uploaded := <-upload; (uploaded == text) == tt.ours {
				t.Errorf("Base sent %q", uploaded)
			}
			if resp != nil {
				resp.Body.Close()
			}
			if synctest.Wait(); !errors.Is(err, tt.err) || response.Closes() != 1 || closed() != 1 {
				t.Errorf("got %v; the response was closed %d times, the body %d times",
					err, response.Closes(), closed())
			}
		})
	}
}

// The body of a dead letter may be slow for as long as something comes. One that
// was given up stays lost, although its source goes on.
func TestSlowBodiesOfDeadLetters(t *testing.T) {
	const patience = defaultAttemptTimeout
	for _, tt := range []struct {
		name  string
		text  io.Reader // comes byte by byte
		delay time.Duration
		took  time.Duration
		why   string // it is lost; "": it is whole
	}{
		{"nearly too slow", strings.NewReader("hello"), patience - 1, 6 * (patience - 1), ""},
		{"too slow", strings.NewReader("hello"), patience + 1, patience, "nothing of it came for 15s"},
		{"endless", httpfake.Zeros, 10 * time.Second, maxReading, "it did not end within 1h0m0s"},
	} {
		run(t, tt.name, func(t *testing.T) {
			body := httpfake.NewBody(httpfake.SlowReader(context.Background(), tt.delay, iotest.OneByteReader(tt.text)))
			tr := &Transport{Policy: testPolicy(t, `"numRetries":0`), Base: httpfake.Base(unread)}
			tr.DeadLetter = func(_ context.Context, dead DeadLetter) error {
				start := time.Now()
				got, err := io.ReadAll(dead.Request.Body)
				if took := time.Since(start); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				if tt.why == "" {
					if string(got) != "hello" || err != nil {
						t.Errorf("got %q, %v", got, err)
					}
					return nil
				}
				if !errors.Is(err, ErrBody) || !strings.Contains(err.Error(), tt.why) {
					t.Errorf("got %v, want %q in it", err, tt.why)
				}
				time.Sleep(time.Hour)
				if n, again := dead.Request.Body.Read(make([]byte, 1)); n != 0 || again != err {
					t.Errorf("%v, then %d, %v", err, n, again)
				}
				return nil
			}
			tr.RoundTrip(stream(t, body))
			time.Sleep(time.Minute) // for a Read that was given up
			if body.Closes() != 1 || body.ClosesDuringRead() > 0 {
				t.Errorf("closed %d times, %d during a Read", body.Closes(), body.ClosesDuringRead())
			}
		})
	}
}

// The attempt's time-out does not cut off a response while DeadLetter runs.
func TestSlowDeadLetterKeepsTheResponseWhole(t *testing.T) {
	for size, took := range map[int]time.Duration{maxReadAhead: time.Hour, maxReadAhead + 1: 0} {
		run(t, strconv.Itoa(size), func(t *testing.T) {
			trailer := http.Header{}
			text := strings.NewReader(strings.Repeat("x", size))
			var response *httpfake.Body
			tr := &Transport{
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					response = httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
						if err := req.Context().Err(); err != nil {
							return 0, err
						}
						n, err := text.Read(p)
						if err == io.EOF {
							trailer.Set("X", "y")
						}
						return n, err
					}))
					resp := respond(404, req)
					resp.Body, resp.Trailer = response, trailer
					return resp, nil
				}),
				DeadLetter: func(context.Context, DeadLetter) error { time.Sleep(took); return nil },
			}
			resp, err := tr.RoundTrip(post(t, "http://a.example/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || len(body) != size || resp.Trailer.Get("X") != "y" {
				t.Errorf("%d bytes of %d, trailer %v, %v", len(body), size, resp.Trailer, err)
			}
			if resp.Body.Close(); response.Closes() != 1 {
				t.Errorf("the response was closed %d times", response.Closes())
			}
		})
	}
}

// A response whose body breaks off is returned as it came. That of a 101, a
// connection that changed hands, is not read.
func TestBrokenResponseAndUpgrade(t *testing.T) {
	broken := errors.New("connection reset")
	for _, status := range []int{404, 101} {
		run(t, strconv.Itoa(status), func(t *testing.T) {
			body := httpfake.NewBody(io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)))
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				resp := respond(status, req)
				resp.Body = body
				if status == 101 {
					resp.Body = struct {
						io.ReadCloser
						io.Writer
					}{resp.Body, &bytes.Buffer{}}
				}
				return resp, nil
			})
			resp, err := (&Transport{DeadLetter: readAll, Base: base}).RoundTrip(post(t, "http://a.example/", "x"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, ok := resp.Body.(io.Writer); status == 101 && (!ok || body.Reads() > 0) {
				t.Errorf("the body is a %T, and was read %d times", resp.Body, body.Reads())
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != broken {
				t.Errorf("read %q, %v", body, err)
			}
		})
	}
}
