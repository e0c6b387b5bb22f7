package replay

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

// lent returns a Body that owns a stream of r and the request that it lends.
func lent(t *testing.T, r io.Reader, limit int64) (lender *Body, out *http.Request, source *counted) {
	t.Helper()
	source = &counted{Reader: r}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", source)
	if err != nil {
		t.Fatal(err)
	}
	lender = new(Body)
	lender.Own(req)
	lender.Share(limit, false)
	out = req.WithContext(t.Context())
	lender.Lend(out)
	return lender, out, source
}

// borrow returns a Body that owns the lent request, and its first attempt's.
func borrow(t *testing.T, out *http.Request, once bool) (*Body, *http.Request) {
	t.Helper()
	b := new(Body)
	b.Own(out)
	b.Share(3, once) // the lender's limit applies
	first := out.WithContext(t.Context())
	b.Attach(first)
	return b, first
}

func TestLentStream(t *testing.T) {
	for _, failed := range []bool{false, true} {
		lender, out, source := lent(t, iotest.OneByteReader(strings.NewReader("hello, world")), 100)
		b, first := borrow(t, out, false)
		read(t, first.Body, 5)
		first.Body.Close()
		second := retry(t, b)
		if got := read(t, second.Body, 7); got != "hello, " {
			t.Errorf("the second attempt reads %q", got)
		}
		second.Body.Close()
		if b.stream != lender.stream {
			t.Error("two streams")
		}
		b.Release(failed)
		if source.closes != 0 {
			t.Error("the borrower closed the caller's reader")
		}
		again := retry(t, lender)
		if got, err := io.ReadAll(again.Body); string(got) != "hello, world" || err != nil {
			t.Errorf("the lender reads %q, %v", got, err)
		}
		if lender.Release(true); source.closes != 1 {
			t.Errorf("closed %d times", source.closes)
		}
		if len(lender.stream.kept) > 0 {
			t.Errorf("%d bytes are kept", len(lender.stream.kept))
		}
	}
}

// A call of one attempt keeps the stream for the lender, but offers no GetBody
// to Base.
func TestLentStreamOfOneAttempt(t *testing.T) {
	lender, out, _ := lent(t, strings.NewReader("hello"), 100)
	b, first := borrow(t, out, true)
	if first.GetBody != nil {
		t.Error("there is a GetBody")
	}
	read(t, first.Body, 3)
	b.Release(false)
	if got, err := io.ReadAll(retry(t, lender).Body); string(got) != "hello" || err != nil {
		t.Errorf("the lender reads %q, %v", got, err)
	}
}

func TestLentFile(t *testing.T) {
	lender, out, f := onDisk(t, "hello")
	lender.Lend(out)
	b, first := borrow(t, out, false)
	read(t, first.Body, 3)
	if b.file != lender.file {
		t.Error("two files")
	}
	if b.Release(true); isClosed(f) {
		t.Error("the borrower closed the file")
	}
	if got, err := io.ReadAll(retry(t, lender).Body); string(got) != "hello" || err != nil {
		t.Errorf("the lender reads %q, %v", got, err)
	}
	if lender.Release(true); !isClosed(f) {
		t.Error("not closed")
	}
}

// A call that fails before it shares the body closes what it was lent, which
// closes nothing.
func TestLoanThatIsNotUsed(t *testing.T) {
	lender, out, source := lent(t, strings.NewReader("hello"), 100)
	b := new(Body)
	b.Own(out)
	b.Release(true)
	if source.closes != 0 {
		t.Error("the borrower closed the caller's reader")
	}
	if got, err := io.ReadAll(retry(t, lender).Body); string(got) != "hello" || err != nil {
		t.Errorf("the lender reads %q, %v", got, err)
	}
	if lender.Release(true); source.closes != 1 {
		t.Errorf("closed %d times", source.closes)
	}
}

// A RoundTripper that does not know loans reads the body as any other.
func TestLoanIsABody(t *testing.T) {
	lender, out, source := lent(t, strings.NewReader("hello"), 100)
	if got, err := io.ReadAll(out.Body); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	out.Body.Close()
	if lender.Release(false); source.closes != 1 {
		t.Errorf("closed %d times", source.closes)
	}
}

func TestWhole(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		r    io.Reader
		read int64
		want bool
	}{
		{"read to its end", strings.NewReader("hello"), 6, true},
		{"as long as the limit", strings.NewReader(strings.Repeat("x", 60)), 61, true},
		{"unread", strings.NewReader("hello"), 0, false},
		{"read, but not to its end", strings.NewReader("hello"), 5, false},
		{"longer than the limit", iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 61))), 62, false},
		{"broken", io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(broken)), 9, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, out, _ := streamed(t, tt.r, 60)
			io.CopyN(io.Discard, out.Body, tt.read)
			open := b.Whole()
			if (open != nil) != tt.want {
				t.Fatalf("whole: %v", open != nil)
			}
			for range 2 {
				if !tt.want {
					break
				}
				if got, err := io.ReadAll(open()); len(got) != int(tt.read-1) || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
			}
			if b.Release(false); b.Whole() != nil {
				t.Error("whole after the call")
			}
		})
	}
	t.Run("a file", func(t *testing.T) {
		b, out, f := onDisk(t, "hello, world")
		read(t, out.Body, 7)
		if got, err := io.ReadAll(b.Whole()()); string(got) != "hello, world" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if got, err := io.ReadAll(out.Body); string(got) != "world" || err != nil {
			t.Errorf("the attempt reads on: %q, %v", got, err)
		}
		if err := f.Truncate(5); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(b.Whole()()); string(got) != "hello" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("of a file that was cut: %q, %v", got, err)
		}
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pr, pw := io.Pipe()
		b, out, _ := streamed(t, pr, 100)
		if b.Idle() {
			t.Error("idle while the attempt has its copy")
		}
		go out.Body.Read(make([]byte, 1))
		synctest.Wait()
		out.Body.Close()
		if b.Idle() {
			t.Error("idle while the caller's reader is read")
		}
		pw.Write([]byte("x"))
		synctest.Wait()
		if !b.Idle() {
			t.Error("not idle when the copy is closed")
		}
	})
	if b, _, _ := onDisk(t, "hello"); !b.Idle() {
		t.Error("a file is not idle")
	}
}
