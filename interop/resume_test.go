package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/handlers"
	"github.com/klauspost/compress/gzhttp"
	echoserver "github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"
)

// cutEvery is a toxic that closes each connection after so many bytes from the
// server.
func cutEvery(bytes int) string {
	return toxic("limit_data", down, 1, fmt.Sprintf(`"bytes": %d`, bytes))
}

// Objects are downloaded from real servers over connections that close every
// 100,000 bytes. They arrive whole. If the object is replaced meanwhile, Read
// returns an error and never a mix.
func TestResumeFromServers(t *testing.T) {
	const size, every, least = 1 << 20, 100_000, 11
	proxies := startToxiproxy(t)
	content, other := s3Data(size), s3Data(size + 1)[1:]
	for _, server := range rangeServers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel() // it waits more than it computes
			service := server.start(t)
			through := proxies.proxy(service.addr, cutEvery(every))
			pool := newPool(t)
			most, protocol := least, 1
			if server.http2 { // the records and frames that are cut are lost
				most, protocol = 2*least, 2
				_, roots := certificate()
				pool.ForceAttemptHTTP2, pool.TLSClientConfig = true, &tls.Config{RootCAs: roots}
			}
			var attempts []awsretry.Attempt
			tr := resuming(pool, func(a awsretry.Attempt) { attempts = append(attempts, a) })

			service.put(content)
			body, err := service.get(t.Context(), through, tr)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			body.Close()
			if err != nil || sha256.Sum256(got) != sha256.Sum256(content) {
				t.Fatalf("%d bytes of %d, %v", len(got), size, err)
			}
			if len(attempts) < least || len(attempts) > most {
				t.Errorf("%d requests, want %d to %d", len(attempts), least, most)
			}
			for _, a := range attempts[1:] {
				if a.Class != awsretry.Success || a.Response.StatusCode != http.StatusPartialContent ||
					a.Response.ProtoMajor != protocol || a.Offset == 0 {
					t.Errorf("the request from %d on: %v, %v, %v", a.Offset, a.Class, a.Response, a.Err)
				}
			}

			attempts = nil
			body, err = service.get(t.Context(), through, tr)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(body, got[:size/2]); err != nil {
				t.Fatal(err)
			}
			service.put(other)
			n, err := io.ReadFull(body, got[size/2:])
			body.Close()
			if n += size / 2; !bytes.Equal(got[:n], content[:n]) {
				t.Error("bytes of two versions")
			}
			failed := new(awsretry.Error)
			if !errors.As(err, &failed) || failed.Stop != awsretry.StopPermanent ||
				!strings.Contains(err.Error(), server.replaced) ||
				!strings.Contains(err.Error(), fmt.Sprintf("broke off after %d bytes", n)) {
				t.Errorf("after %d bytes of the first version: %v, want %q", n, err, server.replaced)
			}
		})
	}
}

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
		http.ServeContent(&abortingWriter{w, every}, r, "", time.Time{}, bytes.NewReader(s3Data(size)))
	})
	tr := resuming(h3, nil)
	tr.MaxAttempts = 20 // a reset may overtake all that was sent before it
	resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, server.url(), nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !bytes.Equal(got, s3Data(size)) {
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
	compressed := string(gzipped(content))
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

// A rangeService has one object.
type rangeService struct {
	addr string // without a proxy
	put  func(content []byte)
	get  func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error)
}

// A rangeServer is a kind of server that knows ranges.
type rangeServer struct {
	name     string
	start    func(*testing.T) rangeService
	http2    bool
	replaced string // in the error after the object was replaced
}

const (
	sentAgain   = "sent the whole object again" // the server obeys If-Range
	anotherETag = "the object has changed: its ETag is"
)

var rangeServers = []rangeServer{
	{name: "nginx", replaced: sentAgain, start: startStaticNginx("", "http")},
	{name: "nginx over HTTP/2", replaced: sentAgain, http2: true, start: startStaticNginx("ssl http2", "https")},
	{name: "s3rver", replaced: anotherETag, start: startRangeS3(startS3rver)},
	{name: "gofakes3", replaced: anotherETag, start: startRangeS3(startGofakes3)},
}

// startRangeS3 starts an S3 server, whose object the AWS SDK reads and writes.
func startRangeS3(start func(testing.TB) string) func(*testing.T) rangeService {
	return func(t *testing.T) rangeService {
		addr := start(t)
		return rangeService{
			addr: addr,
			put: func(content []byte) {
				if err := s3Put(t.Context(), newS3(addr, newPool(t), aws.NopRetryer{}), "object", content); err != nil {
					t.Fatal(err)
				}
			},
			get: func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error) {
				out, err := newS3(through, rt, nil).GetObject(ctx, &s3.GetObjectInput{
					Bucket: aws.String(s3Bucket), Key: aws.String("object"),
				})
				if err != nil {
					return nil, err
				}
				return out.Body, nil
			},
		}
	}
}

// startStaticNginx starts an nginx that serves a file.
func startStaticNginx(protocol, scheme string) func(*testing.T) rangeService {
	return func(t *testing.T) rangeService {
		dir := t.TempDir()
		addr, _ := startNginx(t, dir, fmt.Sprintf("server { listen ADDR %s; root %s; }", protocol, dir))
		versions := 0
		return rangeService{
			addr: addr,
			put: func(content []byte) {
				file := filepath.Join(dir, "new")
				writeFile(t, file, content)
				// nginx makes the ETag of the length and the time, in seconds.
				versions++
				modified := time.Unix(int64(1_000_000_000+versions), 0)
				if err := os.Chtimes(file, modified, modified); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(file, filepath.Join(dir, "object")); err != nil {
					t.Fatal(err)
				}
			},
			get: func(ctx context.Context, through string, rt http.RoundTripper) (io.ReadCloser, error) {
				req := newRequest(t, ctx, http.MethodGet, scheme+"://"+through+"/object", nil)
				resp, err := (&http.Client{Transport: rt}).Do(req)
				if err != nil {
					return nil, err
				}
				if resp.StatusCode != http.StatusOK {
					resp.Body.Close()
					return nil, fmt.Errorf("status %d", resp.StatusCode)
				}
				return resp.Body, nil
			},
		}
	}
}

// resuming returns a Transport that continues bodies without long delays.
func resuming(base http.RoundTripper, observe func(awsretry.Attempt)) *awsretry.Transport {
	return &awsretry.Transport{
		Base: base, Resume: true, Observe: observe,
		Backoff: awsretry.Exponential{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond},
	}
}
