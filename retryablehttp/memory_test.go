package retryablehttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// An upload of 1 GiB takes no memory, whether it may be sent again or not.
func TestMemoryOfAnUpload(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	var sent atomic.Int64
	attempts := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempts++; attempts%2 == 1 { // the first attempt fails after a part
			n, _ := io.CopyN(io.Discard, r.Body, 1<<20)
			sent.Add(n)
			panic(http.ErrAbortHandler)
		}
		n, _ := io.Copy(io.Discard, r.Body)
		sent.Add(n)
	}))
	defer s.Close()
	s.Config.ErrorLog = nil
	for name, body := range map[string]any{
		"ReaderFunc": ReaderFunc(func() (io.Reader, error) { return io.LimitReader(neverEnding{}, size), nil }),
		"ReaderAt":   io.NewSectionReader(zeros{}, 0, size),
	} {
		t.Run(name, func(t *testing.T) {
			attempts = 0
			sent.Store(0)
			var peak atomic.Uint64
			done := make(chan struct{})
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					var stats runtime.MemStats
					runtime.ReadMemStats(&stats)
					peak.Store(max(peak.Load(), stats.HeapAlloc))
					select {
					case <-done:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
			c := newClient()
			resp, err := c.Do(request(t, "PUT", s.URL, body))
			close(done)
			<-stopped
			if err != nil {
				t.Fatal(err)
			}
			text(t, resp)
			if sent.Load() != size+1<<20 || attempts != 2 {
				t.Errorf("%d bytes in %d attempts", sent.Load(), attempts)
			}
			if peak.Load() > 32<<20 {
				t.Errorf("the heap had up to %d MiB", peak.Load()>>20)
			}
			t.Logf("the heap had up to %d MiB", peak.Load()>>20)
		})
	}
}

// zeros is an io.ReaderAt.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}
