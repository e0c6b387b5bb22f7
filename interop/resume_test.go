package interop

import (
	"bytes"
	"compress/gzip"
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
	"github.com/klauspost/compress/gzhttp"
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

// A compressor serves an object, compressed.
type compressor struct {
	name   string
	handle func(content string) http.Handler
	err    string // of a body that breaks off after its first bytes; "": it is continued
}

const (
	perhapsItself = "the service may compress each response by itself"
	otherBytes    = "the service sent other bytes than before under the same ETag"
)

// serveObject serves a text with ranges.
func serveObject(content string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "object.txt", time.Time{}, strings.NewReader(content))
	})
}

// compressors are what compresses on the fly, over a handler that serves ranges
// of the plain bytes: each range is compressed by itself, under the ETag of the
// whole. The last ones have a file that was compressed before.
var compressors = []compressor{
	{"chi's Compress", func(content string) http.Handler {
		return middleware.Compress(5)(serveObject(content))
	}, perhapsItself},
	{"gzhttp, which compresses no ranges", func(content string) http.Handler {
		return gzhttp.GzipHandler(serveObject(content))
	}, "another Content-Encoding"},
	{"a peers.Wrap that keeps the Content-Length", func(content string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			serveObject(content).ServeHTTP(writerTo{w, z}, r)
			z.Close()
		})
	}, otherBytes},
	{"a compressed file", func(content string) http.Handler { return serveCompressed(content, false) }, ""},
	{"a compressed file with a length", func(content string) http.Handler { return serveCompressed(content, true) }, ""},
}

// A writerTo writes the body elsewhere.
type writerTo struct {
	http.ResponseWriter
	io.Writer
}

func (w writerTo) Write(p []byte) (int, error) { return w.Writer.Write(p) }

func serveCompressed(content string, length bool) http.Handler {
	compressed := string(kit.Gzipped(content))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip") // for which ServeContent sets no Content-Length
		if length && r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(compressed)))
		}
		serveObject(compressed).ServeHTTP(w, r)
	})
}

// A compressed body that breaks off is all there or ends with an error. The
// ranges of a service that compresses on the fly are never mixed into it.
func TestResumeOfCompressors(t *testing.T) {
	content := fmt.Sprintf("%x", kit.Random(50_000, 50_000)) // half as long when it is compressed
	for _, c := range compressors {
		for _, cut := range []int{1, 1000} {
			t.Run(fmt.Sprint(c.name, " after ", cut), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					handler := c.handle(content)
					requests := 0
					srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
						if requests++; requests == 1 {
							w = &abortingWriter{w, cut}
						}
						handler.ServeHTTP(w, r)
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
					want, wantErr := get()
					if wantErr != nil {
						t.Fatal(wantErr)
					}
					if !strings.HasPrefix(want, got) || err == nil && got != want {
						t.Errorf("%d bytes of %d, %v: not those of a response that does not break", len(got), len(want), err)
					}
					if cut > 16 && c.err == "" && err != nil || // else too little is there to compare
						c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) && cut > 16 {
						t.Errorf("%d bytes, %v, want %q", len(got), err, c.err)
					}
					srv.Base.CloseIdleConnections()
				})
			})
		}
	}
}

// resuming returns a Transport that continues bodies.
func resuming(base http.RoundTripper) *awsretry.Transport {
	tr := kit.Retrying(base)
	tr.Resume = true
	return tr
}
