package contract_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// A thousand uploads at once hold the beginnings of their bodies, not all of them.
func TestUploadsHoldLittle(t *testing.T) {
	const uploads, size, most = 1000, 1 << 20, 100 << 20
	data := strings.Repeat("x", size)
	body := func() (io.ReadCloser, error) {
		return io.NopCloser(struct{ io.Reader }{strings.NewReader(data)}), nil // of a wrapper
	}
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	var read, done sync.WaitGroup
	read.Add(uploads)
	end := make(chan struct{})
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, req.Body, make([]byte, 4<<10)); err != nil {
			t.Error(err)
		}
		read.Done()
		<-end
		return httpfake.Empty(200, req), nil
	})
	before := heap()
	for range uploads {
		req := httpfake.Request(t, t.Context(), "PUT", nil)
		req.Body, _ = body()
		req.GetBody, req.ContentLength = body, size
		done.Go(func() {
			if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 {
				t.Error(err)
			}
		})
	}
	read.Wait()
	if held := heap() - before; held > most {
		t.Errorf("%d uploads hold %d MiB, want %d at most", uploads, held>>20, most>>20)
	} else {
		t.Logf("%d uploads hold %d MiB", uploads, held>>20)
	}
	close(end)
	done.Wait()
}
