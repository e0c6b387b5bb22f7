package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/gregjones/httpcache"
	"github.com/klauspost/compress/gzhttp"
)

// A Transport retries what an HTTP cache sends. The cache stores a response
// when its body has been read to the end, and copies the response then. Nothing
// may read the body while the response changes.
func TestCacheBelow(t *testing.T) {
	const page = `{"message": "from the service"}`
	for _, tt := range []struct {
		path   string
		status int
		sent   int32 // requests for two calls
	}{
		{"/fresh", 200, 1},
		{"/busy", 200, 2},
		{"/missing", 404, 1},
		{"/validated", 200, 2},
	} {
		t.Run(tt.path, func(t *testing.T) {
			var sent atomic.Int32
			srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
				first := sent.Add(1) == 1
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path == "/busy" && first:
					w.WriteHeader(http.StatusServiceUnavailable)
				case r.URL.Path == "/missing":
					w.Header().Set("Cache-Control", "max-age=60")
					w.WriteHeader(http.StatusNotFound)
				case r.Header.Get("If-None-Match") == `"v1"`:
					w.WriteHeader(http.StatusNotModified)
					return
				case r.URL.Path == "/validated":
					w.Header().Set("Cache-Control", "no-cache")
					w.Header().Set("ETag", `"v1"`)
				default:
					w.Header().Set("Cache-Control", "max-age=60")
				}
				io.WriteString(w, page)
			})
			cache := httpcache.NewMemoryCacheTransport()
			cache.Transport = srv.Base
			client := &http.Client{Transport: retrying(cache)}
			for range 2 {
				resp, err := client.Get(srv.URL + tt.path)
				if err != nil {
					t.Fatal(err)
				}
				if body := httpfake.ReadAll(t, resp); body != page || resp.StatusCode != tt.status {
					t.Errorf("status %d with %q", resp.StatusCode, body)
				}
			}
			if sent.Load() != tt.sent {
				t.Errorf("%d requests reached the service, want %d", sent.Load(), tt.sent)
			}
		})
	}
}

// A server stalls in the middle of gzipped error bodies while other requests
// use the same gzhttp.Transport. Its decompressors are in a pool, and Close
// puts one there. A Close during a Read would let two requests share one.
func TestStalledGzip(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		saved  bool // the request succeeds in a retry
	}{
		{"permanent", http.StatusBadRequest, false},
		{"retryable", http.StatusServiceUnavailable, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := &stallingService{status: tt.status}
				srv := httpfake.Serve(t, "HTTP/1.1", service.serve)
				srv.Base.MaxIdleConnsPerHost = 64
				client := &http.Client{
					Transport: retrying(gzhttp.Transport(srv.Base, gzhttp.TransportEnableZstd(false))),
				}
				defer srv.Base.CloseIdleConnections()

				var stalled, others sync.WaitGroup
				for i := range 40 {
					stalled.Go(func() {
						time.Sleep(time.Duration(i) * 10 * time.Millisecond)
						ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
						defer cancel()
						got, err := getText(ctx, client, srv.URL+fmt.Sprint("/stalled/", i))
						if tt.saved && (err != nil || got != gzippedText(i)) {
							t.Errorf("after a stalled %d: %d bytes, %v", tt.status, len(got), err)
						}
					})
				}
				var ended atomic.Bool
				for i := range 8 {
					others.Go(func() {
						for n := i; !ended.Load(); n += 8 {
							got, err := getText(t.Context(), client, srv.URL+fmt.Sprint("/", n))
							if err != nil || got != gzippedText(n) {
								t.Errorf("another request: %d bytes of %d, %v", len(got), len(gzippedText(n)), err)
								return
							}
							time.Sleep(20 * time.Millisecond) // when stalled requests begin and end
						}
					})
				}
				stalled.Wait()
				ended.Store(true)
				others.Wait()
				synctest.Wait()
				if n := service.stalling.Load(); n != 0 {
					t.Errorf("%d connections with a stalled body are open", n)
				}
			})
		})
	}
}

// A stallingService responds with gzipped text. The first request for each path
// under /stalled/ gets a status and the beginning of a body.
type stallingService struct {
	status   int
	begun    sync.Map // of the paths
	stalling atomic.Int64
}

func (s *stallingService) serve(w http.ResponseWriter, r *http.Request) {
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

const gzippedKinds = 16

// gzippedText returns the text of the nth path, 1 to 16 kB.
func gzippedText(n int) string {
	n %= gzippedKinds
	return string(chaosBytes(n, 1000*(n+1)))
}

var gzippedTexts = sync.OnceValue(func() (all [gzippedKinds][]byte) {
	for n := range all {
		all[n] = gzipped(gzippedText(n))
	}
	return all
})
