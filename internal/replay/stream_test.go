package replay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// A counted counts what is done to a request body.
type counted struct {
	io.Reader
	closes int
}

func (c *counted) Close() error {
	c.closes++
	if closer, ok := c.Reader.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// streamed returns a Body of a stream that reads r, and the request of its
// first attempt.
func streamed(t *testing.T, r io.Reader, limit int64) (*Body, *http.Request, *counted) {
	t.Helper()
	source := &counted{Reader: r}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", source)
	if err != nil {
		t.Fatal(err)
	}
	b := new(Body)
	b.Own(req)
	b.Share(limit, false)
	out := req.WithContext(t.Context())
	b.Attach(out)
	return b, out, source
}

func read(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func retry(t *testing.T, b *Body) *http.Request {
	t.Helper()
	if !b.Replayable() {
		t.Fatal("no retry")
	}
	if _, ok := b.Freeze(t.Context(), time.Second); !ok {
		t.Fatal("not frozen")
	}
	out := b.req.WithContext(t.Context())
	b.Attach(out)
	return out
}

// What was kept for a retry is discarded when there will be none.
func TestStreamForgets(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, b *Body, out *http.Request)
		want int
	}{
		{"while a retry is possible",
			func(t *testing.T, b *Body, out *http.Request) { read(t, out.Body, 50); out.Body.Close() }, 50},
		{"over when all that is kept was read",
			func(t *testing.T, b *Body, out *http.Request) { read(t, out.Body, 50); b.Release(false) }, 0},
		{"over, and read on",
			func(t *testing.T, b *Body, out *http.Request) { b.Release(false); read(t, out.Body, 100) }, 0},
		{"the last attempt reads it after the call", func(t *testing.T, b *Body, out *http.Request) {
			read(t, out.Body, 50)
			last := retry(t, b)
			b.Release(false)
			read(t, last.Body, 49)
			if n := len(b.stream.kept); n != 50 {
				t.Errorf("%d bytes are kept for the last attempt, want 50", n)
			}
			read(t, last.Body, 51)
		}, 0},
		{"the last attempt is closed early", func(t *testing.T, b *Body, out *http.Request) {
			read(t, out.Body, 50)
			last := retry(t, b)
			read(t, last.Body, 10)
			b.Release(false)
			last.Body.Close()
		}, 0},
		{"more than the limit", func(t *testing.T, b *Body, out *http.Request) { read(t, out.Body, 70) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, out, _ := streamed(t, iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 100))), 60)
			tt.do(t, b, out)
			if n := len(b.stream.kept); n != tt.want {
				t.Errorf("%d bytes are kept, want %d", n, tt.want)
			}
		})
	}
}

// Close ends a Read that waits for the caller's reader, which net/http relies
// on, and what that brings is the next attempt's.
func TestCloseEndsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b, out, source := streamed(t, pr, 100)
		go pw.Write([]byte("one"))
		read(t, out.Body, 3)
		time.AfterFunc(time.Second, func() { out.Body.Close() })
		start := time.Now()
		if n, err := out.Body.Read(make([]byte, 9)); n != 0 || err != http.ErrBodyReadAfterClose ||
			time.Since(start) != time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(start))
		}
		if _, ok := b.Freeze(t.Context(), time.Second); ok || time.Since(start) != 2*time.Second {
			t.Errorf("frozen: %v after %v", ok, time.Since(start))
		}
		go func() { pw.Write([]byte("two")); pw.Close() }()
		synctest.Wait()
		next := retry(t, b)
		if got, err := io.ReadAll(next.Body); string(got) != "onetwo" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		out.Body.Close() // late, and again
		next.Body.Close()
		if b.Release(false); source.closes != 1 {
			t.Errorf("closed %d times", source.closes)
		}
	})
}

// A copy that is closed before anything was read of it loses nothing.
func TestReadAfterUnreadClose(t *testing.T) {
	for _, once := range []bool{false, true} {
		source := &counted{Reader: strings.NewReader("body")}
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", source)
		b := new(Body)
		b.Own(req)
		b.Share(100, once)
		out := req.WithContext(t.Context())
		b.Attach(out)
		out.Body.Close()
		if got, err := io.ReadAll(out.Body); string(got) != "body" || err != nil || source.closes != 0 {
			t.Errorf("once %v: read %q, %v; closed %d times", once, got, err, source.closes)
		}
		out.Body.Close()
		if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err != http.ErrBodyReadAfterClose {
			t.Errorf("once %v: read again: %d, %v", once, n, err)
		}
		if b.Release(false); source.closes != 1 {
			t.Errorf("once %v: closed %d times", once, source.closes)
		}
	}
}

// GetBody gives an attempt its body again, until a later attempt has it.
func TestGetBodyOfAStream(t *testing.T) {
	b, out, source := streamed(t, strings.NewReader("hello"), 100)
	read(t, out.Body, 2)
	again, err := out.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err != errFrozen {
		t.Errorf("the copy before reads on: %d, %v", n, err)
	}
	out.Body.Close()
	if got, err := io.ReadAll(again); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	next := retry(t, b)
	if _, err := out.GetBody(); err != errFrozen {
		t.Errorf("an attempt that is over gets the body: %v", err)
	}
	if got, err := io.ReadAll(next.Body); string(got) != "hello" || err != nil {
		t.Errorf("the next attempt read %q, %v", got, err)
	}
	b.Release(false)
	if _, err := next.GetBody(); err != errFrozen {
		t.Errorf("after the call: %v", err)
	}
	if next.Body.Close(); source.closes != 1 {
		t.Errorf("closed %d times", source.closes)
	}
}

// After the call the caller's body is closed by the last copy's Close, or at
// its end where Base never closes it.
func TestCloseAfterTheCall(t *testing.T) {
	for _, limit := range []int64{100, 0} {
		for _, before := range []int{0, 2, 5, 6} { // bytes read during the call; 6: and the end
			for _, closes := range []bool{true, false} {
				b, out, source := streamed(t, strings.NewReader("hello"), limit)
				io.CopyN(io.Discard, out.Body, int64(before))
				b.Release(false)
				if want := before / 6; source.closes != want {
					t.Errorf("limit %d, %d bytes read: closed %d times by the call, want %d",
						limit, before, source.closes, want)
				}
				if closes {
					out.Body.Close()
				} else if _, err := io.Copy(io.Discard, out.Body); err != nil {
					t.Error(err)
				}
				if source.closes != 1 {
					t.Errorf("limit %d, %d bytes read, then closed %v: closed %d times",
						limit, before, closes, source.closes)
				}
			}
		}
	}
}

func TestGetBodyThatCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		for name, c := range map[string]struct {
			source io.Reader
			read   int
			want   error
		}{
			"more than is kept": {strings.NewReader(strings.Repeat("x", 100)), 99, ErrNotKept},
			"failed":            {io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), 3, broken},
		} {
			_, out, _ := streamed(t, c.source, 60)
			io.CopyN(io.Discard, out.Body, int64(c.read))
			if body, err := out.GetBody(); body != nil || err != c.want {
				t.Errorf("%s: %v, %v", name, body, err)
			}
		}
		pr, pw := io.Pipe()
		_, out, _ := streamed(t, pr, 60)
		go out.Body.Read(make([]byte, 1))
		synctest.Wait()
		start := time.Now()
		if body, err := out.GetBody(); body != nil || err != ErrBusy || time.Since(start) != readWait {
			t.Errorf("%v, %v after %v", body, err, time.Since(start))
		}
		pw.Close()
	})
}

// A call that has failed ends the Reads of its copies, and closes the caller's
// body when nothing reads it, whatever Base does.
func TestReleaseOfAFailedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b, out, source := streamed(t, pr, 100)
		done := make(chan error)
		go func() {
			_, err := out.Body.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		b.Release(true)
		if err := <-done; err == nil || err == io.EOF || source.closes != 0 {
			t.Errorf("the Read under way ended with %v; closed %d times", err, source.closes)
		}
		if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d, %v", n, err)
		}
		out.Body.Close()
		pw.Close()
		if synctest.Wait(); source.closes != 1 {
			t.Errorf("closed %d times", source.closes)
		}
	})
}

// The trailer of each attempt's request is its own, filled in at the end of its
// body.
func TestTrailers(t *testing.T) {
	var req *http.Request
	source := &counted{Reader: io.MultiReader(strings.NewReader("body"), readFunc(func([]byte) (int, error) {
		req.Trailer.Set("Sum", "42")
		return 0, io.EOF
	}))}
	req, _ = http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", source)
	req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody is called"); return nil, io.EOF }
	req.Trailer = http.Header{"Sum": nil}
	b := new(Body)
	b.Own(req)
	b.Share(100, false)
	out := req.WithContext(t.Context())
	b.Attach(out)
	read(t, out.Body, 2)
	first := out.Trailer
	next := retry(t, b)
	if got, err := io.ReadAll(next.Body); string(got) != "body" || err != nil || next.Trailer.Get("Sum") != "42" {
		t.Errorf("read %q, %v, trailer %v", got, err, next.Trailer)
	}
	if _, ok := first["Sum"]; !ok || first.Get("Sum") != "" {
		t.Errorf("the first attempt's trailer became %v", first)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// A panic of the caller's reader is the copy's, or an error where nobody waits.
func TestPanickingReader(t *testing.T) {
	_, out, _ := streamed(t, readFunc(func([]byte) (int, error) { panic("reader") }), 100)
	func() {
		defer func() {
			if p := recover(); p != "reader" {
				t.Errorf("panicked with %v", p)
			}
		}()
		out.Body.Read(make([]byte, 1))
	}()
	if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%d, %v", n, err)
	}
}

// A wait for a Read ends with the context.
func TestFreezeEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b, out, _ := streamed(t, pr, 100)
		go io.Copy(io.Discard, out.Body)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if waited, ok := b.Freeze(ctx, time.Hour); waited != time.Second || ok {
			t.Errorf("%v, %v", waited, ok)
		}
		pw.Close()
	})
}

// A Read that is under way when the call ends closes the caller's body where it
// meets the end.
func TestEndAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b, out, source := streamed(t, pr, 100)
		go io.Copy(io.Discard, out.Body)
		synctest.Wait()
		if b.Release(false); source.closes != 0 {
			t.Errorf("closed %d times by the call", source.closes)
		}
		pw.Close()
		synctest.Wait()
		if source.closes != 1 {
			t.Errorf("closed %d times", source.closes)
		}
	})
}

// lockedBody is like the body of a request that a net/http server received: its
// Close waits for its Read.
type lockedBody struct {
	mu  sync.Mutex
	end chan struct{}
}

func (b *lockedBody) Read([]byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	<-b.end
	return 0, io.ErrUnexpectedEOF
}

func (b *lockedBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return nil
}

// A Close that waits for a Read holds nobody up.
func TestCloseThatWaitsForTheRead(t *testing.T) {
	for _, kind := range []string{"recorded", "once", "GetBody"} {
		for _, by := range []string{"Base", "the call"} {
			body := &lockedBody{end: make(chan struct{})}
			req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", body)
			if kind == "GetBody" {
				req.GetBody = func() (io.ReadCloser, error) { return nil, io.EOF }
			}
			b := new(Body)
			b.Own(req)
			b.Share(100, kind == "once")
			out := req.WithContext(t.Context())
			b.Attach(out)
			begun := make(chan bool)
			go func() {
				close(begun)
				io.Copy(io.Discard, out.Body)
			}()
			<-begun
			for body.mu.TryLock() { // until it is being read
				body.mu.Unlock()
				runtime.Gosched()
			}
			done := make(chan bool)
			go func() {
				if by == "Base" {
					out.Body.Close()
				}
				b.Release(true)
				close(done)
			}()
			select {
			case <-done:
			case <-time.After(5 * time.Second):
				t.Errorf("%s, closed by %s: still waiting", kind, by)
			}
			close(body.end)
		}
	}
}
