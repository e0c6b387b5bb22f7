package replay

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func TestDetachedReads(t *testing.T) {
	data := strings.Repeat("0123456789", 20_000)
	d, ok := detach(io.NopCloser(iotest.HalfReader(strings.NewReader(data))))
	if !ok {
		t.Fatal("not detached")
	}
	if got, err := io.ReadAll(d); string(got) != data || err != nil {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
	for _, body := range []io.Reader{bytes.NewReader(nil), bytes.NewBufferString("x"), strings.NewReader("x")} {
		if _, ok := detach(io.NopCloser(body)); ok {
			t.Errorf("%T is detached", body)
		}
		if !InMemory(io.NopCloser(body)) {
			t.Errorf("%T is not taken as in memory", body)
		}
	}
}

// Close ends a Read that hangs, and closes the caller's reader once.
func TestDetachedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		source := &counted{Reader: readFunc(func([]byte) (int, error) { <-end; return 0, io.EOF })}
		d, _ := detach(source)
		done := make(chan error)
		go func() {
			_, err := d.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		d.Close()
		d.Close()
		if err := <-done; err != http.ErrBodyReadAfterClose || source.closes != 1 {
			t.Errorf("%v; closed %d times", err, source.closes)
		}
		close(end)
	})
}
