package interop

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/go-chi/chi/v5/middleware"
)

// The server resets the HTTP/3 stream in the middle of each response.
func TestResumeOverHTTP3(t *testing.T) {
	const size, every = 200_000, 64_000
	var mu sync.Mutex // packets of UDP order nothing for the race detector
	var asked []string
	server, h3 := serveHTTP3(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header.Get("Range"))
		mu.Unlock()
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(&abortingWriter{w, every}, r, "", time.Time{}, bytes.NewReader(kit.Random(size, size)))
	})
	tr := resuming(h3)
	tr.MaxAttempts = 20 // a reset may overtake all that was sent before it
	resp := kit.Must[*http.Response](t)(tr.RoundTrip(kit.NewRequest(t, t.Context(), http.MethodGet, server.url(), nil)))
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(got, kit.Random(size, size)) {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) < (size+every-1)/every {
		t.Errorf("requests for %q", asked)
	}
}

// An abortingWriter ends the response after some bytes of its body.
type abortingWriter struct {
	http.ResponseWriter
	left int
}

func (w *abortingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	if w.left -= n; w.left == 0 && err == nil {
		http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// A middleware compresses each range of an object by itself, under the ETag of
// the whole. A compressed body that breaks off ends with an error then, and has
// nothing of another range.
func TestResumeOfACompressor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := fmt.Sprintf("%x", kit.Random(1, 50_000)) // half as long when it is compressed
		compress := middleware.Compress(5)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(w, r, "object.txt", time.Time{}, strings.NewReader(object))
		}))
		requests := 0
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests == 1 {
				w = &abortingWriter{w, 1000}
			}
			compress.ServeHTTP(w, r)
		})
		get := func() (string, error) {
			req := srv.Request(t, http.MethodGet, nil)
			req.Header.Set("Accept-Encoding", "gzip")
			resp := kit.Must[*http.Response](t)(resuming(srv.Base).RoundTrip(req))
			defer resp.Body.Close()
			if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("ETag") != `"v1"` {
				t.Fatalf("the header is %v, so nothing is tested", resp.Header)
			}
			got, err := io.ReadAll(resp.Body)
			return string(got), err
		}
		got, err := get()
		if whole, _ := get(); !strings.HasPrefix(whole, got) || err == nil ||
			!strings.Contains(err.Error(), "the service may compress each response by itself") {
			t.Errorf("%d bytes of %d, %v", len(got), len(whole), err)
		}
	})
}

// resuming returns a Transport that continues bodies.
func resuming(base http.RoundTripper) *awsretry.Transport {
	tr := kit.Retrying(base)
	tr.Resume = true
	return tr
}
