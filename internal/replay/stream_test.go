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

// What was kept for a retry is discarded when there will be no retry.
func TestStreamForgets(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, b *Body, out *http.Request)
		want int
	}{
		{"while a retry is possible",
			func(t *testing.T, b *Body, out *http.Request) { read(t, out.Body, 50); out.Body.Close() }, 50},
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

// GetBody returns an attempt's body again, until a later attempt has it.
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

// A body is not sent again if too much of it was sent, even if it ended, or if it
// failed or is being read.
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

// A panic of the caller's reader is a panic of the copy's Read, or an error if no
// Read waits.
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

// A signer reads the result of GetBody for a hash, and the body itself is sent. The
// body is the newest copy again if nothing was read of it and the other copy has
// ended.
func TestReclaim(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before int // bytes read of the body before GetBody
		do     func(t *testing.T, b *Body, again io.ReadCloser)
		want   bool
	}{
		{"at its end", 0, func(t *testing.T, _ *Body, again io.ReadCloser) { wantRest(t, again, "hello") }, true},
		{"closed", 0, func(_ *testing.T, _ *Body, again io.ReadCloser) { again.Close() }, true},
		{"begun", 1, func(_ *testing.T, _ *Body, again io.ReadCloser) { again.Close() }, false},
		{"the end is not read", 0, func(t *testing.T, _ *Body, again io.ReadCloser) { read(t, again, 5) }, false},
		{"frozen", 0, func(t *testing.T, b *Body, again io.ReadCloser) {
			again.Close()
			b.Freeze(t.Context(), time.Second)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, out, _ := streamed(t, strings.NewReader("hello"), 100)
			read(t, out.Body, tt.before)
			again, err := out.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if tt.do(t, b, again); tt.want {
				wantRest(t, out.Body, "hello")
			} else {
				wantNothing(t, out.Body, errFrozen)
			}
		})
	}

	r, b, out := rewinding(t, 0)
	again, err := out.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	b.Freeze(t.Context(), time.Second)
	r.log = nil
	wantNothing(t, out.Body, errFrozen)
	r.wantLog(t) // GetBody is not called for it
}

// An error of GetBody is returned by the Read that needs it. A Read of no bytes
// returns what the caller's reader returned.
func TestReadOfNothing(t *testing.T) {
	r, _, out := rewinding(t, 0)
	again, err := out.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	read(t, again, 1)
	again.Close()
	r.fails = errGone
	wantNothing(t, out.Body, errGone)

	none := true
	_, out, _ = streamed(t, httpfake.ReadFunc(func(p []byte) (int, error) {
		if none {
			none = false
			return 0, nil
		}
		return copy(p, "x"), nil
	}), 100)
	if n, err := out.Body.Read(make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("%d, %v; want 0 and no error", n, err)
	}
}
