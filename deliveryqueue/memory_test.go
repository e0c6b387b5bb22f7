package deliveryqueue

import (
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// Waiting deliveries are only in the store: Run has the bodies of its workers'
// attempts in memory, and List has none. This test does not run in parallel with
// others, because it would count their memory.
func TestMemory(t *testing.T) {
	const body, n, workers = 256 << 10, 16, 3
	var begun atomic.Int64
	release := make(chan struct{})
	q := open(t, newSQLite(t), Config{
		MaxBody: body, PerEndpoint: workers,
		Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			req.Body.Close()
			if begun.Add(1) > 1 { // the first shows that the endpoint responds
				select {
				case <-release:
				case <-req.Context().Done():
				}
			}
			return httpfake.Response(req, http.StatusNoContent, http.NoBody), nil
		}),
	})
	enqueue(t, q, post(t, "http://endpoint.test", "first"), Options{})
	stop := start(t, q)
	waitFor(t, q, Stats{Delivered: 1})
	stop()
	text := strings.Repeat("x", body)
	for range n {
		enqueue(t, q, post(t, "http://endpoint.test", text), Options{})
	}

	before := memory()
	if all := list(t, q, Filter{}); len(all) != n+1 {
		t.Errorf("%d are listed", len(all))
	}
	stats(t, q)
	if allocated := memory().TotalAlloc - before.TotalAlloc; allocated > body {
		t.Errorf("List and Stats allocated %d bytes", allocated)
	}

	start(t, q)
	eventually(t, "the attempts are made", func() bool { return begun.Load() == 1+workers })
	// A body is in memory as base64 in the row's JSON, decoded, and in a
	// request.
	if held := int64(memory().HeapAlloc) - int64(before.HeapAlloc); held > workers*6*body {
		t.Errorf("Run holds %d bytes", held)
	}
	close(release)
	waitFor(t, q, Stats{Delivered: n + 1})
}

func memory() runtime.MemStats {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats
}
