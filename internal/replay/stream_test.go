package replay

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

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
		{"over, and read on", func(t *testing.T, b *Body, out *http.Request) { b.Release(false); read(t, out.Body, 100) }, 0},
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
		wantNothing(t, out.Body, http.ErrBodyReadAfterClose)
		if _, ok := b.Freeze(t.Context(), time.Second); ok || time.Since(start) != 2*time.Second {
			t.Errorf("frozen: %v after %v", ok, time.Since(start))
		}
		go func() { pw.Write([]byte("two")); pw.Close() }()
		synctest.Wait()
		next := retry(t, b)
		wantRest(t, next.Body, "onetwo")
		out.Body.Close() // late, and again
		next.Body.Close()
		b.Release(false)
		wantCloses(t, source, 1)
	})
}

// GetBody gives an attempt its body again, until a later attempt has it.
func TestGetBodyOfAStream(t *testing.T) {
	b, out, source := streamed(t, strings.NewReader("hello"), 100)
	read(t, out.Body, 2)
	again, err := out.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	wantNothing(t, out.Body, errFrozen)
	out.Body.Close()
	wantRest(t, again, "hello")
	next := retry(t, b)
	if _, err := out.GetBody(); err != errFrozen {
		t.Errorf("an attempt that is over gets the body: %v", err)
	}
	wantRest(t, next.Body, "hello")
	b.Release(false)
	if _, err := next.GetBody(); err != errFrozen {
		t.Errorf("after the call: %v", err)
	}
	next.Body.Close()
	wantCloses(t, source, 1)
}

// A body of which too much was sent is not sent again, also if it ended, nor
// one that failed or is being read.
func TestGetBodyThatCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		for _, tt := range []struct {
			source io.Reader
			read   int64
			want   error
			waits  time.Duration
		}{
			{strings.NewReader(strings.Repeat("x", 100)), 99, ErrNotKept, 0},
			{iotest.DataErrReader(strings.NewReader(strings.Repeat("x", 100))), 101, ErrNotKept, 0},
			{io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(errGone)), 3, errGone, 0},
			{pr, 1, ErrBusy, readWait},
		} {
			_, out, _ := streamed(t, tt.source, 60)
			go io.CopyN(io.Discard, out.Body, tt.read)
			synctest.Wait()
			start := time.Now()
			if body, err := out.GetBody(); body != nil || err != tt.want || time.Since(start) != tt.waits {
				t.Errorf("%v, %v after %v; want %v", body, err, time.Since(start), tt.want)
			}
		}
		pw.Close()
	})
}

// The trailer of each attempt's request is its own, filled in at the end of its
// body.
func TestTrailers(t *testing.T) {
	var req *http.Request
	req = httpfake.Request(t, t.Context(), "PUT", io.MultiReader(strings.NewReader("body"),
		httpfake.ReadFunc(func([]byte) (int, error) { req.Trailer.Set("Sum", "42"); return 0, io.EOF })))
	req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody is called"); return nil, io.EOF }
	req.Trailer = http.Header{"Sum": nil}
	b, out := shared(req, 100, false)
	read(t, out.Body, 2)
	first := out.Trailer
	next := retry(t, b)
	if wantRest(t, next.Body, "body"); next.Trailer.Get("Sum") != "42" {
		t.Errorf("trailer %v", next.Trailer)
	}
	if _, ok := first["Sum"]; !ok || first.Get("Sum") != "" {
		t.Errorf("the first attempt's trailer became %v", first)
	}
}

// A panic of the caller's reader is the copy's, or an error where nobody waits.
func TestPanickingReader(t *testing.T) {
	_, out, _ := streamed(t, httpfake.ReadFunc(func([]byte) (int, error) { panic("reader") }), 100)
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
