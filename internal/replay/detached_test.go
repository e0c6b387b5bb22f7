package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func TestDetachedReads(t *testing.T) {
	data := strings.Repeat("0123456789", 20_000)
	body := io.NopCloser(iotest.HalfReader(strings.NewReader(data)))
	if !needsDetaching(body) {
		t.Error("not detached")
	}
	d := detach(t.Context(), body)
	if got, err := io.ReadAll(d); string(got) != data || err != nil {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
	for _, body := range []io.Reader{bytes.NewReader(nil), bytes.NewBufferString("x"), strings.NewReader("x")} {
		if needsDetaching(io.NopCloser(body)) {
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
		d := detach(t.Context(), source)
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

// The end of the attempt's context ends a Read that hangs, as it would not with
// net/http's HTTP/1 alone, which waits for it.
func TestContextEndsReads(t *testing.T) {
	gone := errors.New("gone")
	for _, getBody := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			source := &counted{Reader: readFunc(func([]byte) (int, error) { <-end; return 0, io.EOF })}
			ctx, cancel := context.WithCancelCause(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "PUT", "http://service.example", source)
			if getBody {
				req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
			}
			b := new(Body)
			b.Own(req)
			b.Share(100, false)
			out := req.WithContext(ctx)
			b.Attach(out)
			done := make(chan error)
			go func() {
				_, err := out.Body.Read(make([]byte, 1))
				done <- err
			}()
			synctest.Wait()
			cancel(gone)
			if err := <-done; err != gone {
				t.Error(err)
			}
			if _, err := out.Body.Read(make([]byte, 1)); err != gone {
				t.Error(err)
			}
			b.Release(true)
			if source.closes != 1 {
				t.Errorf("closed %d times", source.closes)
			}
			close(end)
		})
	}
}
