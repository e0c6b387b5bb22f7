package interop

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/handlers"
	"github.com/klauspost/compress/gzhttp"
	echoserver "github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
)

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
	{"gorilla's CompressHandler", func(content string) http.Handler {
		return handlers.CompressHandler(serveObject(content))
	}, perhapsItself},
	{"echo's Gzip", func(content string) http.Handler {
		e := echoserver.New()
		e.Use(echomiddleware.Gzip())
		e.GET("/*", echoserver.WrapHandler(serveObject(content)))
		return e
	}, perhapsItself},
	{"gzhttp, which compresses no ranges", func(content string) http.Handler {
		return gzhttp.GzipHandler(serveObject(content))
	}, "another Content-Encoding"},
	{"a wrapper that keeps the Content-Length", func(content string) http.Handler {
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
	compressed := compressedText(content)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip") // for which ServeContent sets no Content-Length
		if length && r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(compressed)))
		}
		serveObject(compressed).ServeHTTP(w, r)
	})
}

func compressedText(content string) string {
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed)
	io.WriteString(z, content)
	z.Close()
	return compressed.String()
}

// A compressed body that breaks off is all there or ends with an error. The
// ranges of a service that compresses on the fly are never mixed into it.
func TestResumeOfCompressors(t *testing.T) {
	content := fmt.Sprintf("%x", s3Data(50_000)) // half as long when it is compressed
	for _, c := range compressors {
		for _, cut := range []int{1, 10, 1000, 5000} {
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
						resp, err := resuming(srv.Base, nil).RoundTrip(req)
						if err != nil {
							t.Fatal(err)
						}
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
						t.Errorf("%d bytes of %d and the error %v: not those of a response that does not break", len(got), len(want), err)
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
