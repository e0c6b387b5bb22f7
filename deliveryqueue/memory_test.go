package deliveryqueue

import (
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// What waits is in the store: Run holds the bodies of its workers' attempts, and
// List none. This test does not run beside others, whose memory it would count.
func TestMemory(t *testing.T) {
	const body, n, workers = 256 << 10, 16, 2
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			var begun atomic.Int64
			release := make(chan struct{})
			q := open(t, store(t), Config{MaxBody: body, Workers: workers, PerEndpoint: workers,
				Base: roundTripper(func(req *http.Request) (*http.Response, error) {
					begun.Add(1)
					select {
					case <-release:
					case <-req.Context().Done():
					}
					return noContent(req)
				})})
			hasResponded(t, q, "http://endpoint.test")
			text := strings.Repeat("x", body)
			for range n {
				enqueue(t, q, post(t, "http://endpoint.test", text), Options{})
			}

			before := memory()
			if all := list(t, q, Filter{}); len(all) != n {
				t.Errorf("%d are listed", len(all))
			}
			stats(t, q)
			allocated := memory().TotalAlloc - before.TotalAlloc
			if allocated > body {
				t.Errorf("List and Stats allocated %d bytes", allocated)
			}

			stop := start(t, q)
			eventually(t, "the attempts are made", func() bool { return begun.Load() == workers })
			// A body is there as the row's JSON in base64, as a letter and as a request.
			held := int64(memory().HeapAlloc) - int64(before.HeapAlloc)
			if held > workers*6*body {
				t.Errorf("Run holds %d bytes", held)
			}
			t.Logf("List and Stats allocated %d bytes, Run holds %d", allocated, held)
			close(release)
			stop()
		})
	}
}

func memory() runtime.MemStats {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats
}
