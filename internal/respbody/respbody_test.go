package respbody

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// until returns a reader that hangs until the channel is closed.
func until(end <-chan struct{}) io.Reader {
	return httpfake.ReadFunc(func([]byte) (int, error) { <-end; return 0, io.ErrUnexpectedEOF })
}

// ahead starts to read src ahead.
func ahead(src io.ReadCloser, limit int, end func()) (*http.Response, *Ahead) {
	return Read(&http.Response{Body: src, ContentLength: -1}, limit, nil, end)
}

func wantClosed(t *testing.T, b *httpfake.Body) {
	t.Helper()
	if b.Closes() != 1 || b.ClosesDuringRead() > 0 || b.Overlaps() > 0 {
		t.Errorf("closed %d times, %d times during a Read; %d Reads overlap",
			b.Closes(), b.ClosesDuringRead(), b.Overlaps())
	}
}

func TestAheadGivesBack(t *testing.T) {
	for _, limit := range []int{1, 5, 100} {
		src := httpfake.NewBody(strings.NewReader("hello, world"))
		resp, ahead := ahead(src, limit, nil)
		ahead.WaitDone(t.Context())
		if ahead.AtEnd() != (limit > 12) {
			t.Errorf("limit %d: at its end: %v", limit, ahead.AtEnd())
		}
		if got := string(ahead.Stop()); got != "hello, world"[:min(limit, 12)] {
			t.Errorf("limit %d: read ahead %q", limit, got)
		}
		if got := httpfake.ReadAll(t, resp); got != "hello, world" {
			t.Errorf("limit %d: read %q", limit, got)
		}
		wantClosed(t, src)
	}
}

// The trailers are set by the caller's own Read of the end, as in net/http. Base
// may read and write its response while the body is read, as an HTTP cache does at
// the end: it belongs to Base alone.
func TestTrailersComeAtTheEnd(t *testing.T) {
	for _, announced := range []http.Header{nil, {"Sum": nil}} {
		var resp *http.Response
		src := httpfake.NewBody(io.MultiReader(strings.NewReader("body"), httpfake.ReadFunc(func([]byte) (int, error) {
			if Of(resp.Body) != nil {
				t.Error("Base's response is changed")
			}
			if resp.Trailer == nil {
				resp.Trailer = make(http.Header)
			}
			resp.Trailer["Sum"] = []string{"42"}
			return 0, io.EOF
		})))
		resp = &http.Response{Body: src, ContentLength: -1, Trailer: maps.Clone(announced)}
		shown, ahead := Read(resp, 100, nil, nil)
		ahead.WaitDone(t.Context())
		if len(shown.Trailer) != len(announced) || shown.Trailer.Get("Sum") != "" {
			t.Errorf("the trailer is %v before the body is read", shown.Trailer)
		}
		mine := shown.Trailer
		if got, err := io.ReadAll(shown.Body); string(got) != "body" || err != nil || shown.Trailer.Get("Sum") != "42" {
			t.Errorf("read %q, %v, trailer %v", got, err, shown.Trailer)
		}
		if mine != nil && mine.Get("Sum") != "42" {
			t.Error("the trailer became another map")
		}
	}
}

// Close ends a Read in progress: by the body's own Close, by the end of the
// attempt's context, or not at all, and then the body is closed after the Read.
func TestCloseDuringARead(t *testing.T) {
	for _, way := range []string{"Close of the body", "end of the attempt's context", "neither"} {
		synctest.Test(t, func(t *testing.T) {
			hanging := make(chan struct{})
			body := httpfake.NewBody(until(hanging))
			var src io.ReadCloser = body
			var end func()
			switch way {
			case "Close of the body":
				src, _ = io.Pipe()
			case "end of the attempt's context":
				end = func() { close(hanging) }
			}
			resp, ahead := ahead(src, 100, end)
			ahead.Wait(t.Context(), time.Second)
			ahead.Stop()
			blocked := make(chan error, 1)
			go func() { _, err := resp.Body.Read(make([]byte, 1)); blocked <- err }()
			synctest.Wait()
			start := time.Now()
			resp.Body.Close()
			resp.Body.Close()
			if time.Since(start) > 0 {
				t.Errorf("%s: Close takes %v", way, time.Since(start))
			}
			if way == "neither" {
				if body.Closes() > 0 {
					t.Error("closed during a Read")
				}
				close(hanging)
			}
			if err := <-blocked; err == nil || err == io.EOF {
				t.Errorf("%s: the Read in progress returns %v", way, err)
			}
			synctest.Wait()
			if way != "Close of the body" {
				wantClosed(t, body)
			}
		})
	}
}

// A body is not closed during a Read, unless its Close ends the Read.
func TestDiscardBesideARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		src := httpfake.NewBody(until(end))
		canceled := false
		resp, _ := ahead(src, 100, func() { canceled = true })
		Discard(resp, true, nil).Finish(t.Context(), time.Second)
		if src.Closes() != 0 || !canceled {
			t.Errorf("closed %d times; canceled: %v", src.Closes(), canceled)
		}
		close(end)
		synctest.Wait()
		wantClosed(t, src)

		pr, pw := io.Pipe()
		resp, _ = ahead(pr, 100, nil)
		Close(resp, nil)
		if _, err := pw.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("the pipe's writer got %v", err)
		}
	})
}

// The rest is read in the background, up to a limit and a timeout.
func TestDiscardReadsTheRest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		size  int
		reuse bool
		left  int // bytes
	}{
		{"short", 1000, true, 0},
		{"long", 1 << 20, true, 1<<20 - drainLimit},
		{"no reuse", 1000, false, 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			rest := bytes.NewReader(make([]byte, tt.size))
			src := httpfake.NewBody(rest)
			Discard(&http.Response{Body: src}, tt.reuse, nil).Finish(t.Context(), time.Second)
			if wantClosed(t, src); rest.Len() != tt.left {
				t.Errorf("%s: %d bytes are left, want %d", tt.name, rest.Len(), tt.left)
			}
		})
	}
	for name, read := range map[string]httpfake.ReadFunc{
		"dripping": func(p []byte) (int, error) { time.Sleep(time.Second); return copy(p, "x"), nil },
		"empty":    func(p []byte) (int, error) { return 0, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			src := httpfake.NewBody(read)
			start := time.Now()
			Discard(&http.Response{Body: src}, true, nil).Finish(t.Context(), 10*time.Second)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%s: took %v", name, took)
			}
			time.Sleep(2 * time.Second)
			wantClosed(t, src)
		})
	}
}

// A body that is read ahead may end while its timeout is resumed.
func TestEndDuringResume(t *testing.T) {
	for range 20_000 {
		c := NewContext(t.Context(), time.Hour, 0, false)
		c.Start()
		resume := c.Hold()
		var ending sync.WaitGroup
		ending.Go(c.End)
		resume()
		ending.Wait()
		if c.timer.Load().Stop() {
			t.Fatal("the timer runs on")
		}
	}
}

// The race detector finds what Discard reads beside a Read in progress.
func TestDiscardUncompressedDuringRead(t *testing.T) {
	for range 200 {
		arrives := make(chan struct{})
		src := httpfake.NewBody(httpfake.ReadFunc(func(p []byte) (int, error) {
			<-arrives
			return copy(p, "late"), io.EOF
		}))
		resp, _ := Read(&http.Response{Body: src, ContentLength: -1, Uncompressed: true}, 100, nil, func() {})
		go close(arrives)
		Discard(resp, true, nil).Finish(t.Context(), time.Minute)
		wantClosed(t, src)
	}
}
