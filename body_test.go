package awsretry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

// TestRetriesSendTheSameBytes is about every kind of body, of which the first attempts read some.
func TestRetriesSendTheSameBytes(t *testing.T) {
	data := letters(10_000)
	for kind, newBody := range bodyKinds {
		if kind == "nil" || kind == "NoBody" {
			continue
		}
		for _, first := range []int{0, 1, 3, 4999, len(data), len(data) + 1} {
			for _, known := range []bool{true, false} {
				sent := newBody(t, data)
				var got []string
				tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					defer req.Body.Close()
					if want := int64(len(data)); known && req.ContentLength != want || !known && req.ContentLength > 0 {
						t.Errorf("%s: ContentLength %d at attempt %d", kind, req.ContentLength, len(got)+1)
					}
					if len(got) < 2 {
						b, _ := io.ReadAll(io.LimitReader(req.Body, int64(first>>len(got))))
						got = append(got, string(b))
						return respond(req, 503, http.NoBody), nil
					}
					b, err := io.ReadAll(req.Body)
					if err != nil {
						return nil, err
					}
					got = append(got, string(b))
					return respond(req, 200, http.NoBody), nil
				})}
				req := request(t, t.Context(), "POST", nil)
				req.Body, req.GetBody = sent.reader, sent.getBody
				if known {
					req.ContentLength = int64(len(data))
				}
				if _, err := tr.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				n := min(first, len(data))
				if want := []string{data[:n], data[:first/2], data}; !slices.Equal(got, want) {
					t.Errorf("%s, %d bytes first: %s", kind, first, cmp.Diff(want, got))
				}
			}
		}
	}
}

func TestMaxBodyBuffer(t *testing.T) {
	const mib, oneRead = 1 << 20, -1
	for _, c := range []struct {
		max        int64
		size, read int
		known      bool
		sends      int
	}{
		{0, mib, mib + 1, false, 2},
		{0, mib, mib + 1, true, 2},
		{0, mib + 1, mib + 2, false, 1},
		{0, mib + 1, mib + 2, true, 1},
		{0, 5 * mib, mib, false, 2}, // what was read fits
		{0, 5 * mib, mib, true, 1},  // the rest would not
		{0, 5 * mib, 0, true, 2},
		{100, 99, 100, false, 2},
		{100, 100, 101, false, 2},
		{100, 101, 102, false, 1},
		{100, 101, 100, false, 2},
		{100, 101, 50, true, 1},
		{100, 150, oneRead, false, 2}, // no more than fits is asked for
		{-1, 1, 2, false, 1},
		{-1, 1, 0, false, 2},
		{-1, 0, 1, false, 2},
		{3 * mib, 3 * mib, 3*mib + 1, false, 2},
	} {
		for _, mode := range []awsretry.Mode{awsretry.Standard, awsretry.Legacy} {
			data := letters(c.size)
			sends := 0
			answer := track(strings.NewReader(data))
			tr := &awsretry.Transport{Mode: mode, MaxBodyBuffer: c.max, Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				sends++
				if sends == 1 && c.read == oneRead {
					req.Body.Read(make([]byte, c.max+1))
					return respond(req, 503, answer), nil
				}
				if sends == 1 {
					if got, err := io.ReadAll(io.LimitReader(req.Body, int64(c.read))); err != nil || string(got) != data[:min(c.read, c.size)] {
						t.Errorf("%+v: first attempt: %d bytes, %v", c, len(got), err)
					}
					return respond(req, 503, answer), nil
				}
				if got, err := io.ReadAll(req.Body); err != nil || string(got) != data {
					t.Errorf("%+v: retry: %d bytes, %v", c, len(got), err)
				}
				return respond(req, 200, http.NoBody), nil
			})}
			source := track(io.MultiReader(strings.NewReader(data)))
			req := request(t, t.Context(), "POST", source)
			if c.known {
				req.ContentLength = int64(c.size)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil || sends != c.sends {
				t.Errorf("%+v: %d attempts; %v", c, sends, err)
				continue
			}
			if sends == 1 {
				if stop := stopOf(resp, nil); stop != awsretry.StopBody {
					t.Errorf("%+v: stopped by %q", c, stop)
				}
				if answer.closes.Load() > 0 || whole(t, resp) != data {
					t.Errorf("%+v: the answer is not whole", c)
				}
			}
			if source.closes.Load() != 1 {
				t.Errorf("%+v: closed %d times", c, source.closes.Load())
			}
		}
	}
}

// TestRetryWaitsForARead is about a Base that still reads the body when its
// response is there: the retry waits for the Read that is under way, and for
// nothing else.
func TestRetryWaitsForARead(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		for _, closes := range []time.Duration{0, 4 * time.Second, -1} { // how late Base closes its copy; -1: never
			synctest.Test(t, func(t *testing.T) {
				data := letters(40)
				rest := strings.NewReader(data)
				source := track(readFunc(func(p []byte) (int, error) {
					time.Sleep(time.Second)
					return rest.Read(p[:min(len(p), 7)])
				}))
				start := time.Now()
				var got string
				var retried time.Duration
				// The buffer is full when the answer comes, and the Read that is under way then is kept all the same.
				tr := &awsretry.Transport{Backoff: pauseOf(0), MaxBodyBuffer: 3, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					if got == "" {
						io.ReadFull(req.Body, make([]byte, 3))
						go func() {
							io.Copy(io.Discard, req.Body) // ends with the Read that is under way
							if n, err := req.Body.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
								t.Error("the first attempt could read on")
							}
							if closes >= 0 {
								time.Sleep(closes)
								req.Body.Close() // while the second attempt reads
							}
						}()
						time.Sleep(time.Second / 2)
						got = "-"
						return respond(req, 503, http.NoBody), nil
					}
					retried = time.Since(start)
					var err error
					got, err = useUp(req)
					return respond(req, 200, http.NoBody), err
				})}
				cause := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				if cancelled {
					time.AfterFunc(1700*time.Millisecond, func() { cancel(cause) })
				}
				resp, err := tr.RoundTrip(request(t, ctx, "POST", source))
				cancel(nil)
				switch {
				case !cancelled && (err != nil || resp.StatusCode != 200 || got != data || retried != 2*time.Second):
					t.Errorf("RoundTrip = %v, %v; the retry came after %v with %q", resp, err, retried, got)
				case cancelled && (!errors.Is(err, cause) || time.Since(start) != 1700*time.Millisecond || !strings.Contains(err.Error(), "503")):
					t.Errorf("error %v after %v", err, time.Since(start))
				case cancelled && tokensOf(t, tr) != 500:
					t.Errorf("%d tokens", tokensOf(t, tr))
				}
				time.Sleep(time.Minute)
				if source.overlaps.Load() > 0 || source.readsClosed.Load() > 0 || source.closes.Load() != 1 {
					t.Errorf("%d overlapping reads, %d after Close, %d times closed", source.overlaps.Load(), source.readsClosed.Load(), source.closes.Load())
				}
			})
		}
	}
}

// TestCloseDuringRead: the retry waits for a Read that is under way when Base closes the body, whatever it brings.
func TestCloseDuringRead(t *testing.T) {
	for _, c := range []struct {
		brings string
		with   error
		sends  int
	}{
		{"def", nil, 2},
		{"def", io.EOF, 2},
		{"", io.EOF, 2},
		{"", nil, 2},
		{"def", errReset, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			reads := 0
			source := track(readFunc(func(p []byte) (int, error) {
				switch reads++; reads {
				case 1:
					return copy(p, "abc"), nil
				case 2:
					time.Sleep(time.Second / 2)
					return copy(p, c.brings), c.with
				}
				return 0, io.EOF
			}))
			sends := 0
			tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				if sends++; sends == 1 {
					req.Body.Read(make([]byte, 3))
					go req.Body.Read(make([]byte, 3))
					synctest.Wait()
					req.Body.Close()
					return respond(req, 503, http.NoBody), nil
				}
				if got, err := useUp(req); got != "abc"+c.brings || err != nil {
					t.Errorf("the retry sends %q, %v", got, err)
				}
				return respond(req, 200, http.NoBody), nil
			})}
			start := time.Now()
			resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", source))
			if d := time.Since(start); err != nil || sends != c.sends || d != time.Second/2 {
				t.Errorf("%q, %v: %v, %v after %v and %d attempts", c.brings, c.with, resp, err, d, sends)
			}
			if source.overlaps.Load() > 0 || source.closes.Load() != 1 {
				t.Errorf("%d overlaps, closed %d times", source.overlaps.Load(), source.closes.Load())
			}
		})
	}
}

func TestFileIsReadInPlace(t *testing.T) {
	data := letters(3 << 20)
	for _, wrap := range []func(*os.File) io.Reader{
		func(f *os.File) io.Reader { return f },
		func(f *os.File) io.Reader { return io.NopCloser(f) },
	} {
		file := fileAt(t, data, 1000)
		sends := 0
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			sends++
			if at, err := file.Seek(0, io.SeekCurrent); err != nil || at != 1000 {
				t.Errorf("attempt %d: the file is at %d, %v", sends, at, err)
			}
			again, err := req.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(again); err != nil || string(b) != data[1000:] {
				t.Errorf("GetBody: %d bytes, %v", len(b), err)
			}
			again.Close()
			if got, err := useUp(req); err != nil || got != data[1000:] {
				t.Errorf("attempt %d: %d bytes, %v", sends, len(got), err)
			}
			return respond(req, 500, http.NoBody), nil
		})}
		body := wrap(file)
		if resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", body)); err != nil || resp.StatusCode != 500 || sends != 3 {
			t.Errorf("%v, %v, %d attempts", resp, err, sends)
		}
		if _, nop := body.(*os.File); nop && !errors.Is(file.Close(), os.ErrClosed) {
			t.Error("the file is open")
		}
	}
}

// TestUnsizedFilesAreRecorded is about files whose size says nothing of what can be read.
func TestUnsizedFilesAreRecorded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { io.WriteString(w, "from a pipe"); w.Close() }()
	var got []string
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		b, err := useUp(req)
		got = append(got, b)
		return respond(req, 503, http.NoBody), err
	})}
	if _, err := tr.RoundTrip(request(t, t.Context(), "PUT", r)); err != nil || !slices.Equal(got, []string{"from a pipe", "from a pipe", "from a pipe"}) {
		t.Errorf("sent %q; %v", got, err)
	}
	if !errors.Is(r.Close(), os.ErrClosed) {
		t.Error("the pipe is open")
	}
}

// TestProcFile is about a regular file whose size says 0 and that has content.
func TestProcFile(t *testing.T) {
	const name = "/proc/self/cmdline"
	want, err := os.ReadFile(name)
	if err != nil || len(want) == 0 {
		t.Skip("no such file: ", err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	sends := 0
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		sends++
		if got, err := useUp(req); err != nil || got != string(want) {
			t.Errorf("attempt %d sent %q, %v", sends, got, err)
		}
		return respond(req, 503, http.NoBody), nil
	})}
	if _, err := tr.RoundTrip(request(t, t.Context(), "PUT", f)); err != nil || sends != 3 {
		t.Errorf("%v after %d attempts", err, sends)
	}
}

// TestBodyThatWaitsForTheAnswer: the caller writes it when RoundTrip has returned, so RoundTrip must not wait for it.
func TestBodyThatWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		source, answer := track(pr), track(strings.NewReader("busy"))
		var sent string
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			go func() { sent, _ = useUp(req) }()
			synctest.Wait() // it reads
			return respond(req, 503, answer), nil
		})}
		start := time.Now()
		resp, err := tr.RoundTrip(request(t, t.Context(), "POST", source))
		if d := time.Since(start); err != nil || d > 2*time.Second || stopOf(resp, nil) != awsretry.StopBody || tokensOf(t, tr) != 500 {
			t.Fatalf("%v, %v after %v; %d tokens", resp, err, d, tokensOf(t, tr))
		}
		io.WriteString(pw, "at last")
		pw.Close()
		synctest.Wait()
		if sent != "at last" || whole(t, resp) != "busy" || source.closes.Load() != 1 {
			t.Errorf("sent %q; closed %d times", sent, source.closes.Load())
		}
	})
}

// TestFailingReader: the reader's own failure is terminal where it is known to be that, and else an error like any other.
func TestFailingReader(t *testing.T) {
	broken := errors.New("disk broken")
	reader := func() io.Reader {
		return io.MultiReader(strings.NewReader("half"), readFunc(func([]byte) (int, error) { return 0, broken }))
	}
	for _, recorded := range []bool{true, false} {
		sends := 0
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			sends++
			got, err := useUp(req)
			if got != "half" {
				t.Errorf("attempt %d sent %q", sends, got)
			}
			return nil, err
		})}
		req := request(t, t.Context(), "PUT", reader())
		want, stop := 1, awsretry.StopPermanent
		if !recorded {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(reader()), nil }
			want, stop = 3, awsretry.StopMaxAttempts
		}
		_, err := tr.RoundTrip(req)
		if sends != want || !errors.Is(err, broken) || stopOf(nil, err) != stop {
			t.Errorf("recorded %v: %d attempts, %v", recorded, sends, err)
		}
	}
}

// TestFailingReaderBehindAnAnswer: there is nothing that a retry could send.
func TestFailingReaderBehindAnAnswer(t *testing.T) {
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		useUp(req)
		return respond(req, 503, http.NoBody), nil
	})}
	resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", readFunc(func([]byte) (int, error) { return 0, errReset })))
	if err != nil || resp.StatusCode != 503 || stopOf(resp, nil) != awsretry.StopBody || tokensOf(t, tr) != 500 {
		t.Errorf("%v, %v; stopped by %q", resp, err, stopOf(resp, nil))
	}
}

func TestFailingGetBody(t *testing.T) {
	for name, getBody := range map[string]func() (io.ReadCloser, error){
		"error": func() (io.ReadCloser, error) { return nil, errors.New("gone") },
		"nil":   func() (io.ReadCloser, error) { return nil, nil },
	} {
		source := track(strings.NewReader("x"))
		req := request(t, t.Context(), "PUT", source)
		req.GetBody = getBody
		answer := track(strings.NewReader("busy"))
		tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			useUp(req)
			return respond(req, 503, answer), nil
		})}
		resp, err := tr.RoundTrip(req)
		if err != nil || stopOf(resp, nil) != awsretry.StopBody || whole(t, resp) != "busy" || source.closes.Load() != 1 || tokensOf(t, tr) != 500 {
			t.Errorf("%s: %v, %v; closed %d times, %d tokens", name, resp, err, source.closes.Load(), tokensOf(t, tr))
		}
	}
}

// TestBaseThatNeverCloses: a Base that leaves the body of a request open, as
// circuit breakers do that refuse it, holds nothing up.
func TestBaseThatNeverCloses(t *testing.T) {
	for _, read := range []int64{0, 3, 100} {
		for name, outcome := range map[string]answerFunc{"error": breaks(errReset), "503": says(503), "success": says(200)} {
			synctest.Test(t, func(t *testing.T) {
				source := track(strings.NewReader("a body"))
				sends := 0
				tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					if sends++; sends == 3 && name == "success" {
						if got, err := useUp(req); got != "a body" || err != nil {
							t.Errorf("the last attempt sent %q, %v", got, err)
						}
						return outcome(req, http.NoBody)
					}
					io.CopyN(io.Discard, req.Body, read)
					if name == "success" {
						return nil, errReset
					}
					return outcome(req, http.NoBody)
				})}
				start := time.Now()
				resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", source))
				if took := time.Since(start); took != 0 || sends != 3 {
					t.Errorf("%s, %d bytes read: %v, %v after %v and %d attempts", name, read, resp, err, took, sends)
				}
				if name != "503" && source.closes.Load() != 1 { // a Base that responds may still send the body
					t.Errorf("%s, %d bytes read: closed %d times", name, read, source.closes.Load())
				}
			})
		}
	}
}

// TestBaseThatSendsAgain: net/http's HTTP/2 closes a body of which it read
// nothing and sends the request over another connection.
func TestBaseThatSendsAgain(t *testing.T) {
	for _, attempts := range []int{1, 3} {
		srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		var made int
		tr := &awsretry.Transport{MaxAttempts: attempts, Observe: func(awsretry.Attempt) { made++ }}
		tr.Base = baseFunc(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			return srv.base.RoundTrip(req)
		})
		resp, err := tr.RoundTrip(srv.request(t, "PUT", struct{ io.Reader }{strings.NewReader("a stream")}))
		if err != nil {
			t.Fatal(err)
		}
		if got := whole(t, resp); got != "a stream" || made != 1 {
			t.Errorf("%d attempts in all: echoed %q after %d", attempts, got, made)
		}
	}
}

// TestCallerWaitsForTheResponse: a caller who writes one message and waits for
// the response to it gets the error of a connection that breaks. Over HTTP/1
// net/http itself waits for the caller's next message.
func TestCallerWaitsForTheResponse(t *testing.T) {
	for _, protocol := range []string{"HTTP/2", "h2c"} {
		arrived := make(chan bool)
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 7))
			close(arrived)
			<-r.Context().Done()
		})
		relay := relayTo(t, srv)
		pr, pw := io.Pipe()
		defer pw.Close()
		go io.WriteString(pw, "message")
		go func() {
			<-arrived
			relay.cut()
		}()
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
		start := time.Now()
		resp, err := tr.RoundTrip(srv.request(t, "POST", pr))
		if took := time.Since(start); err == nil || stopOf(resp, err) != awsretry.StopBody || took > 5*time.Second {
			t.Errorf("%s: %v, %v after %v", protocol, resp, err, took)
		}
		tr.CloseIdleConnections()
	}
}

// TestFileThatShrinks: what would be sent short is an error.
func TestFileThatShrinks(t *testing.T) {
	f := fileAt(t, "hello, world", 0)
	var sent []string
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		got, err := useUp(req)
		if sent = append(sent, got); err != nil {
			return nil, err
		}
		if err := os.Truncate(f.Name(), 5); err != nil {
			t.Error(err)
		}
		return respond(req, 503, http.NoBody), nil
	})}
	resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", f))
	if err != nil || stopOf(resp, err) != awsretry.StopBody || len(sent) != 1 {
		t.Errorf("%v, %v; sent %q", resp, err, sent)
	}
}

// TestGetBodyWhoseReadHangs: the body of the attempt before, which is the
// caller's own reader and may not heed its Close, does not hold the retry up.
func TestGetBodyWhoseReadHangs(t *testing.T) {
	for _, protocol := range wires {
		var sends atomic.Int32
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) == 1 {
				if r.ProtoMajor == 1 {
					w.Header().Set("Connection", "close") // or the server would read the body first
				}
				w.WriteHeader(503)
				io.WriteString(w, "busy")
				return
			}
			io.Copy(w, r.Body)
		})
		hang := make(chan struct{})
		req := srv.request(t, "PUT", nil)
		req.ContentLength = -1
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("bo"), readFunc(func([]byte) (int, error) { <-hang; return 0, io.EOF })))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(protocol, err)
		}
		if got, took := whole(t, resp), time.Since(start); got != "body" || took > 5*time.Second {
			t.Errorf("%s: %q after %v", protocol, got, took)
		}
		close(hang)
		tr.CloseIdleConnections()
	}
}

// TestTrailersOfTwoAttempts: attempts do not share the map that the caller's
// reader fills in.
func TestTrailersOfTwoAttempts(t *testing.T) {
	var trailers []http.Header
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		if _, ok := req.Trailer["Sum"]; !ok {
			t.Error("the trailer is not announced")
		}
		got, err := useUp(req)
		if got != "body" || err != nil || req.Trailer.Get("Sum") != "42" {
			t.Errorf("sent %q, %v, trailer %v", got, err, req.Trailer)
		}
		trailers = append(trailers, req.Trailer)
		return respond(req, 503, http.NoBody), nil
	})}
	var req *http.Request
	rest := strings.NewReader("body")
	req = request(t, t.Context(), "PUT", struct{ io.Reader }{readFunc(func(p []byte) (int, error) {
		n, err := rest.Read(p)
		if err == io.EOF {
			req.Trailer.Set("Sum", "42")
		}
		return n, err
	})})
	req.Trailer = http.Header{"Sum": nil}
	if _, err := tr.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	if len(trailers) != 3 {
		t.Fatalf("%d attempts", len(trailers))
	}
	trailers[0].Set("Sum", "0")
	if trailers[1].Get("Sum") != "42" || req.Trailer.Get("Sum") != "42" {
		t.Error("the trailers are one map")
	}

	trailers = nil // the Transport is warm now, and GetBody alone would do
	req = request(t, t.Context(), "PUT", strings.NewReader("body"))
	req.Trailer = http.Header{"Sum": {"42"}}
	if _, err := tr.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	trailers[0].Set("Sum", "0")
	if len(trailers) != 3 || trailers[1].Get("Sum") != "42" || req.Trailer.Get("Sum") != "42" {
		t.Error("with GetBody the trailers are one map")
	}
}

// TestPrepareMustLeaveTheBody: what the retry would send is not Prepare's to
// choose.
func TestPrepareMustLeaveTheBody(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"body":   func(req *http.Request) { req.Body = io.NopCloser(strings.NewReader("other")) },
		"none":   func(req *http.Request) { req.Body = nil },
		"length": func(req *http.Request) { req.ContentLength = 3 },
	} {
		for _, kind := range []string{"GetBody", "stream", "file"} {
			sent := bodyKinds[kind](t, "the body")
			tr := &awsretry.Transport{
				Prepare: func(req *http.Request, _ int) error { change(req); return nil },
				Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					t.Error("sent")
					return respond(req, 200, http.NoBody), nil
				}),
			}
			req := request(t, t.Context(), "PUT", nil)
			req.Body, req.GetBody = sent.reader, sent.getBody
			resp, err := tr.RoundTrip(req)
			if err == nil || !strings.Contains(err.Error(), "Prepare") || stopOf(resp, err) != awsretry.StopPermanent {
				t.Errorf("%s of a %s: %v, %v", name, kind, resp, err)
			}
			for _, n := range sent.closes {
				if n.Load() != 1 {
					t.Errorf("%s of a %s: closed %d times", name, kind, n.Load())
				}
			}
		}
	}
}

// TestBrokenConnectionWhileGetBodyHangs: a Read of the first body that hangs
// keeps nobody from sending the second one.
func TestBrokenConnectionWhileGetBodyHangs(t *testing.T) {
	for _, protocol := range wires {
		var sends atomic.Int32
		arrived := make(chan bool)
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) == 1 {
				io.ReadFull(r.Body, make([]byte, 2))
				close(arrived)
				io.Copy(io.Discard, r.Body)
				return
			}
			io.Copy(w, r.Body)
		})
		relay := relayTo(t, srv)
		go func() {
			<-arrived
			relay.cut()
		}()
		hang := make(chan struct{})
		req := srv.request(t, "PUT", struct{ io.Reader }{io.MultiReader(strings.NewReader("bo"), readFunc(func([]byte) (int, error) {
			<-hang
			return 0, io.EOF
		}))})
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0), AttemptTimeout: time.Second} // for HTTP/1, where nothing but that ends it
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(protocol, err)
		}
		if got := whole(t, resp); got != "body" {
			t.Errorf("%s: echoed %q", protocol, got)
		}
		close(hang)
		tr.CloseIdleConnections()
	}
}

// TestReadThatCloseCuts: what the caller's reader says because Base closed it is
// not its failure.
func TestReadThatCloseCuts(t *testing.T) {
	for attempts, want := range map[int]awsretry.Stop{1: awsretry.StopMaxAttempts, 3: awsretry.StopBody} {
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			defer pw.Close()
			go io.WriteString(pw, "a message")
			tr := &awsretry.Transport{Backoff: pauseOf(0), MaxBodyBuffer: 2, MaxAttempts: attempts, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				done := make(chan bool)
				go func() { io.Copy(io.Discard, req.Body); close(done) }()
				time.Sleep(time.Second)
				req.Body.Close() // as net/http does when the connection breaks
				<-done
				return nil, errReset
			})}
			resp, err := tr.RoundTrip(request(t, t.Context(), "PUT", pr))
			if !errors.Is(err, errReset) || stopOf(resp, err) != want {
				t.Errorf("%v, %v, want %q", resp, err, want)
			}
		})
	}
}

// TestHangingReadOverABrokenConnection: net/http's HTTP/2 waits for a Read of
// the body of the attempt that failed. io.NopCloser hides what it is.
func TestHangingReadOverABrokenConnection(t *testing.T) {
	arrived := make(chan bool)
	var sends atomic.Int32
	srv := serve(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
		switch sends.Add(1) {
		case 1: // the Transport has an engine from here on
		case 2:
			io.ReadFull(r.Body, make([]byte, 2))
			close(arrived)
			<-r.Context().Done()
		default:
			io.Copy(w, r.Body)
		}
	})
	relay := relayTo(t, srv)
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
	defer tr.CloseIdleConnections()
	if resp, err := tr.RoundTrip(srv.request(t, "GET", nil)); err != nil {
		t.Fatal(err)
	} else {
		whole(t, resp)
	}
	hang := make(chan struct{})
	end := sync.OnceFunc(func() { close(hang) })
	time.AfterFunc(5*time.Second, end)
	defer end()
	req := srv.request(t, "PUT", io.MultiReader(strings.NewReader("bo"), readFunc(func([]byte) (int, error) { <-hang; return 0, io.EOF })))
	req.ContentLength = -1
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
	go func() { <-arrived; relay.cut() }()
	start := time.Now()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if got, took := whole(t, resp), time.Since(start); got != "body" || took > 3*time.Second {
		t.Errorf("%q after %v", got, took)
	}
}

// TestGetBodyWhoseFirstReaderStaysOpen: a Base that fails may leave the caller's
// reader open; the retry has another one.
func TestGetBodyWhoseFirstReaderStaysOpen(t *testing.T) {
	source := track(strings.NewReader("body"))
	req := request(t, t.Context(), "PUT", source)
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
	sends := 0
	tr := &awsretry.Transport{Backoff: pauseOf(0), Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		if sends++; sends == 1 {
			return nil, errReset
		}
		useUp(req)
		return respond(req, 200, http.NoBody), nil
	})}
	if _, err := tr.RoundTrip(req); err != nil || source.closes.Load() != 1 {
		t.Errorf("%v; closed %d times", err, source.closes.Load())
	}
}
