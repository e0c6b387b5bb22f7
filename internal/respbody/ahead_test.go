package respbody

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A body counts what is done to it.
type body struct {
	io.Reader
	reading, overlaps, closes, beside atomic.Int32
}

func (b *body) Read(p []byte) (int, error) {
	if b.reading.Add(1) > 1 {
		b.overlaps.Add(1)
	}
	defer b.reading.Add(-1)
	return b.Reader.Read(p)
}

func (b *body) Close() error {
	b.closes.Add(1)
	if b.reading.Load() > 0 {
		b.beside.Add(1)
	}
	return nil
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// until returns a reader that hangs until the channel is closed.
func until(end <-chan struct{}) io.Reader {
	return readFunc(func([]byte) (int, error) { <-end; return 0, io.ErrUnexpectedEOF })
}

func TestAheadGivesBack(t *testing.T) {
	for _, limit := range []int{1, 5, 100} {
		src := &body{Reader: strings.NewReader("hello, world")}
		resp, ahead := Read(&http.Response{Body: src, ContentLength: -1}, limit, nil)
		if !ahead.Settle(t.Context()) {
			t.Fatal("not settled")
		}
		if ahead.AtEnd() != (limit > 12) {
			t.Errorf("limit %d: at its end: %v", limit, ahead.AtEnd())
		}
		if got := string(ahead.Stop()); got != "hello, world"[:min(limit, 12)] {
			t.Errorf("limit %d: read ahead %q", limit, got)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != "hello, world" || err != nil {
			t.Errorf("limit %d: read %q, %v", limit, got, err)
		}
		if resp.Body.Close(); src.closes.Load() != 1 || src.overlaps.Load() > 0 {
			t.Errorf("closed %d times, %d overlaps", src.closes.Load(), src.overlaps.Load())
		}
	}
}

// The trailers come with the caller's own Read of the end, as net/http has it.
func TestTrailersComeAtTheEnd(t *testing.T) {
	for _, announced := range []http.Header{nil, {"Sum": nil}} {
		var resp *http.Response
		src := &body{Reader: io.MultiReader(strings.NewReader("body"), readFunc(func([]byte) (int, error) {
			if resp.Trailer == nil {
				resp.Trailer = make(http.Header)
			}
			resp.Trailer["Sum"] = []string{"42"}
			return 0, io.EOF
		}))}
		resp = &http.Response{Body: src, ContentLength: -1, Trailer: maps.Clone(announced)}
		shown, ahead := Read(resp, 100, nil)
		if !ahead.Settle(t.Context()) || len(shown.Trailer) != len(announced) || shown.Trailer.Get("Sum") != "" {
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

func TestWaitAndSettleEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		_, ahead := Read(&http.Response{Body: &body{Reader: until(end)}, ContentLength: -1}, 100, nil)
		start := time.Now()
		if ahead.Wait(t.Context(), time.Second) || time.Since(start) != time.Second {
			t.Errorf("waited %v", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ahead.Settle(ctx) || time.Since(start) != 2*time.Second {
			t.Errorf("settled after %v", time.Since(start))
		}
		close(end)
		if !ahead.Settle(t.Context()) || !ahead.Broken() {
			t.Error("not settled, or not broken")
		}
	})
}

// A body is not closed while it is read, unless its Close is known to end that.
func TestDiscardBesideARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		src := &body{Reader: until(end)}
		resp, _ := Read(&http.Response{Body: src, ContentLength: -1}, 100, nil)
		canceled := false
		d := Discard(resp, true, func() { canceled = true })
		d.Finish(t.Context(), time.Second)
		if src.closes.Load() != 0 || !canceled {
			t.Errorf("closed %d times; canceled: %v", src.closes.Load(), canceled)
		}
		close(end)
		synctest.Wait()
		if src.closes.Load() != 1 || src.beside.Load() != 0 {
			t.Errorf("closed %d times, %d times while it was read", src.closes.Load(), src.beside.Load())
		}

		pr, pw := io.Pipe()
		resp, _ = Read(&http.Response{Body: wrapped{pr}, ContentLength: -1}, 100, nil)
		Close(resp, nil)
		if _, err := pw.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("the pipe's writer got %v", err)
		}
	})
}

type wrapped struct{ io.ReadCloser }

func (w wrapped) Bookkeeping() io.ReadCloser { return w.ReadCloser }

// The rest is read while the caller does something else, up to a limit and a
// time.
func TestDiscardReadsTheRest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rest   io.Reader
		reuse  bool
		finish time.Duration
		want   int // bytes left in rest, where it is a bytes.Reader
	}{
		{"short", bytes.NewReader(make([]byte, 1000)), true, time.Second, 0},
		{"long", bytes.NewReader(make([]byte, 1<<20)), true, time.Second, 1<<20 - drainLimit},
		{"no reuse", bytes.NewReader(make([]byte, 1000)), false, time.Second, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &body{Reader: tt.rest}
				d := Discard(&http.Response{Body: src}, tt.reuse, nil)
				d.Finish(t.Context(), tt.finish)
				if left := tt.rest.(*bytes.Reader).Len(); left != tt.want || src.closes.Load() != 1 {
					t.Errorf("%d bytes are left, want %d; closed %d times", left, tt.want, src.closes.Load())
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		for name, read := range map[string]func([]byte) (int, error){
			"dripping": func(p []byte) (int, error) { time.Sleep(time.Second); return copy(p, "x"), nil },
			"empty":    func(p []byte) (int, error) { return 0, nil },
		} {
			src := &body{Reader: readFunc(read)}
			start := time.Now()
			Discard(&http.Response{Body: src}, true, nil).Finish(t.Context(), 10*time.Second)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%s: took %v", name, took)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if src.closes.Load() != 1 || src.beside.Load() > 0 {
				t.Errorf("%s: closed %d times, %d times while it was read", name, src.closes.Load(), src.beside.Load())
			}
		}
	})
}

// Base may look at its response while its body is read, as an HTTP cache does
// at the end, and write to it: it is Base's alone.
func TestBaseKeepsItsResponse(t *testing.T) {
	var resp *http.Response
	src := &body{Reader: readFunc(func([]byte) (int, error) {
		if Of(resp.Body) != nil {
			t.Error("Base's response is changed")
		}
		return 0, io.EOF
	})}
	resp = &http.Response{Body: src, ContentLength: -1}
	if _, ahead := Read(resp, 100, nil); !ahead.Settle(t.Context()) {
		t.Error("not settled")
	}
}
