package httpfake_test

import (
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"

	"example.com/awsretry/internal/httpfake"
)

// Tests of other packages rely on these counts, most of which stay 0 there.
func TestBodyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		pr, pw := io.Pipe()
		b := httpfake.NewBody(struct {
			io.Reader
			io.Closer
		}{httpfake.ReadFunc(func([]byte) (int, error) { <-release; return 0, io.EOF }), pr})
		for range 2 {
			go b.Read(nil)
		}
		synctest.Wait()
		if !b.Reading() {
			t.Error("no Read is under way")
		}
		b.Close()
		if _, err := b.Read(nil); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := pw.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("the content is open: %v", err)
		}
		close(release)
		synctest.Wait()
		got := [...]int{b.Reads(), b.Closes(), b.Overlaps(), b.ReadsAfterClose(), b.ClosesDuringRead()}
		if want := [...]int{3, 1, 1, 1, 1}; got != want || b.Reading() {
			t.Errorf("counted %v, want %v; reading: %v", got, want, b.Reading())
		}
	})
}
