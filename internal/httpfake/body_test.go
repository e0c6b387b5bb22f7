package httpfake_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

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

func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httpfake.SlowReader(ctx, 2*time.Second, strings.NewReader("slow"))
		start := time.Now()
		if b, err := io.ReadAll(r); string(b) != "slow" || err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("%q, %v after %v", b, err, time.Since(start))
		}
		if _, err := r.Read(make([]byte, 1)); err != context.DeadlineExceeded || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestText(t *testing.T) {
	const blocks = 8 << 10
	text := httpfake.Text(3 * blocks)
	if len(text) != 3*blocks || text[:blocks] == text[blocks:2*blocks] {
		t.Errorf("%d bytes, or two blocks that are alike", len(text))
	}
	if n := len(httpfake.Text(0)); n != 0 {
		t.Errorf("%d bytes", n)
	}
}
