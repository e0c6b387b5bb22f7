package replay

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// lent returns a Body that owns a stream of r and the request that it lends.
func lent(t *testing.T, r io.Reader) (lender *Body, out *http.Request, source *httpfake.Body) {
	t.Helper()
	lender, source = new(Body), httpfake.NewBody(r)
	req := httpfake.Request(t, t.Context(), "PUT", source)
	lender.Own(req)
	lender.Plan(100, false)
	out = req.WithContext(t.Context())
	lender.Lend(out)
	return lender, out, source
}

func TestLentStream(t *testing.T) {
	for _, failed := range []bool{false, true} {
		lender, out, source := lent(t, iotest.OneByteReader(strings.NewReader("hello, world")))
		b, first := shared(out, 3, false) // the lender's limit applies
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
		wantCloses(t, source, 0)
		wantRest(t, retry(t, lender).Body, "hello, world")
		lender.Release(true)
		if wantCloses(t, source, 1); len(lender.stream.kept) > 0 {
			t.Errorf("%d bytes are kept", len(lender.stream.kept))
		}
	}
}

// A call of one attempt keeps the stream for the lender, but offers no GetBody
// to Base.
func TestLentStreamOfOneAttempt(t *testing.T) {
	lender, out, _ := lent(t, strings.NewReader("hello"))
	b, first := shared(out, 3, true)
	if first.GetBody != nil {
		t.Error("there is a GetBody")
	}
	read(t, first.Body, 3)
	b.Release(false)
	wantRest(t, retry(t, lender).Body, "hello")
}

func TestLentFile(t *testing.T) {
	lender, out, f := sharedFile(t, "hello")
	lender.Lend(out)
	b, first := shared(out, 3, false)
	read(t, first.Body, 3)
	if b.file != lender.file {
		t.Error("two files")
	}
	if b.Release(true); isClosed(f) {
		t.Error("the borrower closed the file")
	}
	wantRest(t, retry(t, lender).Body, "hello")
	if lender.Release(true); !isClosed(f) {
		t.Error("not closed")
	}
}

// A call that fails before it shares the body closes the loan, which closes
// nothing. A RoundTripper that does not recognize loans reads the body like any
// other.
func TestLoanThatIsNotBorrowed(t *testing.T) {
	lender, out, source := lent(t, strings.NewReader("hello"))
	b := new(Body)
	b.Own(out)
	b.Release(true)
	wantCloses(t, source, 0)
	wantRest(t, retry(t, lender).Body, "hello")
	lender.Release(true)
	wantCloses(t, source, 1)

	lender, out, source = lent(t, strings.NewReader("hello"))
	wantRest(t, out.Body, "hello")
	out.Body.Close()
	lender.Release(false)
	wantCloses(t, source, 1)
}

func TestWhole(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    io.Reader
		read int64
		want bool
	}{
		{"read to its end", strings.NewReader("hello"), 6, true},
		{"read, but not to its end", strings.NewReader("hello"), 5, false},
		{"longer than the limit", iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 61))), 62, false},
		{"broken", io.MultiReader(strings.NewReader("hello"), iotest.ErrReader(errGone)), 9, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, out, _ := streamed(t, tt.r, 60)
			io.CopyN(io.Discard, out.Body, tt.read)
			open := b.Whole()
			if (open != nil) != tt.want {
				t.Fatalf("whole: %v", open != nil)
			}
			for i := 0; i < 2 && tt.want; i++ {
				if got, err := io.ReadAll(open()); len(got) != int(tt.read-1) || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
			}
			if b.Release(false); b.Whole() != nil {
				t.Error("whole after the call")
			}
		})
	}
	b, out, f := sharedFile(t, "hello, world")
	read(t, out.Body, 7)
	wantRest(t, b.Whole()(), "hello, world")
	wantRest(t, out.Body, "world")
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b.Whole()()); string(got) != "hello" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of a file that was cut: %q, %v", got, err)
	}
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
		if b.Idle() || b.Quiet(t.Context(), time.Second) {
			t.Error("idle, or quiet, while the caller's reader is read")
		}
		pw.Write([]byte("x"))
		synctest.Wait()
		if !b.Idle() || !b.Quiet(t.Context(), 0) {
			t.Error("not idle when the copy is closed")
		}
	})
	if b, _, _ := sharedFile(t, "hello"); !b.Idle() {
		t.Error("a file is not idle")
	}
}
