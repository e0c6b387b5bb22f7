package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// TestStalledGzip has a server stall in the middle of gzipped error bodies while other requests use the same
// gzhttp.Transport. Its decompressors come from a pool, and Close puts one back: a Close during a Read would leave
// two requests with one decompressor.
func TestStalledGzip(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		saved  bool // the request is retried, and succeeds
	}{
		{"permanent", http.StatusBadRequest, false},
		{"retryable", http.StatusServiceUnavailable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := &stallingService{status: c.status}
			server := start(t, service, nil)
			pool := newPool(t)
			pool.MaxIdleConnsPerHost = 64
			client := &http.Client{Transport: retrying(gzhttp.Transport(pool, gzhttp.TransportEnableZstd(false)))}

			var stalled, others sync.WaitGroup
			for i := range 40 {
				stalled.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond)
					ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
					defer cancel()
					got, err := getText(ctx, client, server.URL+fmt.Sprint("/stalled/", i))
					if c.saved && (err != nil || got != gzippedText(i)) {
						t.Errorf("after a stalled %d: %d bytes, %v", c.status, len(got), err)
					}
				})
			}
			var ended atomic.Bool
			var answers atomic.Int64
			for i := range 8 {
				others.Go(func() {
					for n := i; !ended.Load(); n += 8 {
						got, err := getText(context.Background(), client, server.URL+fmt.Sprint("/", n))
						if err != nil || got != gzippedText(n) {
							t.Errorf("another request: %d bytes of %d, %v", len(got), len(gzippedText(n)), err)
							return
						}
						answers.Add(1)
					}
				})
			}
			stalled.Wait()
			ended.Store(true)
			others.Wait()
			t.Logf("%d other requests", answers.Load())
			if !eventually(func() bool { return service.stalling.Load() == 0 }) {
				t.Errorf("%d connections with a stalled body are left", service.stalling.Load())
			}
		})
	}
}

// A stallingService answers with gzipped text. The first request for each path under /stalled/ gets a status and the
// beginning of a body.
type stallingService struct {
	status   int
	begun    sync.Map // of the paths
	stalling atomic.Int64
}

func (s *stallingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var n int
	stall := false
	if _, err := fmt.Sscanf(r.URL.Path, "/stalled/%d", &n); err == nil {
		_, begun := s.begun.LoadOrStore(r.URL.Path, true)
		stall = !begun
	} else if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil {
		http.NotFound(w, r)
		return
	}
	compressed := gzippedTexts()[n%gzippedKinds]
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	if !stall {
		w.Write(compressed)
		return
	}
	s.stalling.Add(1)
	defer s.stalling.Add(-1)
	w.WriteHeader(s.status)
	w.Write(compressed[:len(compressed)/2])
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

const gzippedKinds = 64

// gzippedText is what the nth path holds, 1 to 64 kB.
func gzippedText(n int) string {
	n %= gzippedKinds
	return string(chaosBytes(n, 1000*(n+1)))
}

var gzippedTexts = sync.OnceValue(func() (all [gzippedKinds][]byte) {
	for n := range all {
		var compressed bytes.Buffer
		z := gzip.NewWriter(&compressed)
		io.WriteString(z, gzippedText(n))
		z.Close()
		all[n] = compressed.Bytes()
	}
	return all
})

// getText returns the body of a response whose status is 200. Any other response is closed unread.
func getText(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
