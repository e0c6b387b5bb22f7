package replay

import (
	"io"
	"net/http"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
)

// A hanging body is read until the channel is closed. It has a size and ReadAt,
// and counts its Closes.
type hanging struct {
	end     chan struct{}
	reading bool
	closes  int
	during  int // Closes during a Read
}

func (h *hanging) Read([]byte) (int, error) {
	h.reading = true
	<-h.end
	h.reading = false
	return 0, io.EOF
}

func (h *hanging) ReadAt(p []byte, _ int64) (int, error) { return h.Read(p) }

func (h *hanging) Close() error {
	h.closes++
	if h.reading {
		h.during++
	}
	return nil
}

// A sizedHanging is read in place.
type sizedHanging struct{ *hanging }

func (sizedHanging) Size() int64 { return 10 }

// Close of the caller's reader comes when its Read has returned, and nothing
// waits for that.
func TestCloseAfterTheRead(t *testing.T) {
	for _, kind := range []string{"stream", "once", "GetBody", "file"} {
		for _, by := range []string{"Base, then the call", "the call", "the call, then Base"} {
			t.Run(kind+", closed by "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := &hanging{end: make(chan struct{})}
					req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", body)
					switch kind {
					case "GetBody":
						req.GetBody = func() (io.ReadCloser, error) { return nil, io.EOF }
					case "file":
						req.Body, req.ContentLength = sizedHanging{body}, 10
					}
					b := new(Body)
					b.Own(req)
					b.Share(100, kind == "once")
					out := req.WithContext(t.Context())
					b.Attach(out)
					go out.Body.Read(make([]byte, 1))
					synctest.Wait()
					if by == "Base, then the call" {
						out.Body.Close()
					}
					b.Release(true)
					if by == "the call, then Base" {
						out.Body.Close()
					}
					if synctest.Wait(); body.closes != 0 {
						t.Error("closed during the Read")
					}
					close(body.end)
					if synctest.Wait(); body.closes != 1 || body.during != 0 {
						t.Errorf("closed %d times, %d during a Read", body.closes, body.during)
					}
				})
			})
		}
	}
}

// A file and a pipe are closed at once, which ends the Read.
func TestCloseThatEndsTheRead(t *testing.T) {
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	pr, pw := io.Pipe()
	defer pw.Close()
	for _, body := range []io.ReadCloser{pipe, pr} {
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://service.example", body)
		b := new(Body)
		b.Own(req)
		b.Share(100, false)
		out := req.WithContext(t.Context())
		b.Attach(out)
		done := make(chan bool)
		go func() {
			out.Body.Read(make([]byte, 1))
			close(done)
		}()
		reading := readingOf(b.stream)
		for reading == nil {
			runtime.Gosched()
			reading = readingOf(b.stream)
		}
		b.Release(true)
		<-done
		<-reading.ended
	}
}

// readingOf returns the Read in progress, nil if there is none.
func readingOf(s *stream) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reading
}
