package interop

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/klauspost/compress/gzhttp"
)

// cutEvery is a toxic that closes each connection after so many bytes from the
// server.
func cutEvery(bytes int) string {
	return fmt.Sprintf(`{"type": "limit_data", "stream": "downstream", "attributes": {"bytes": %d}}`, bytes)
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
				pool.ForceAttemptHTTP2, pool.TLSClientConfig = true, &tls.Config{RootCAs: service.root}
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
			t.Logf("%v", err)
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
	t.Logf("requests for %q", asked)
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

// gzhttp compresses whole objects but no ranges, and does not change the ETag.
// The rest does not fit to what was read, and is refused.
func TestResumeOfGzhttp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := httpfake.Text(200_000)
		compress, err := gzhttp.NewWrapper()
		if err != nil {
			t.Fatal(err)
		}
		requests := 0
		compressed := compress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(w, r, "object.txt", time.Time{}, strings.NewReader(content))
		}))
		srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests == 1 {
				w = &abortingWriter{w, 1000}
			}
			compressed.ServeHTTP(w, r)
		})
		req := srv.Request(t, http.MethodGet, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := resuming(srv.Base, nil).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("ETag") != `"v1"` {
			t.Fatalf("the header is %v, so nothing is tested", resp.Header)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil || !strings.Contains(err.Error(), "another Content-Encoding") || len(got) != 1000 || requests != 2 {
			t.Errorf("%d bytes, %v, after %d requests", len(got), err, requests)
		}
		srv.Base.CloseIdleConnections()
	})
}

// putRandom returns the hash of what it has put.
func putRandom(service rangeService, size int) [sha256.Size]byte {
	content := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(content)
	service.put(content)
	return sha256.Sum256(content)
}

// A large object is downloaded over connections that close every 64 MiB. It
// takes no more memory than a small one.
func TestResumeLargeObject(t *testing.T) {
	if *resumeMiB == 0 {
		t.Skip("-resume is 0")
	}
	size, every := *resumeMiB<<20, 64<<20
	service := startStaticNginx(t, "", "http")
	want := putRandom(service, size)
	runtime.GC() // of what it has put

	requests := 0
	tr := resuming(newPool(t), func(awsretry.Attempt) { requests++ })
	start := time.Now()
	body, err := service.get(t.Context(), startToxiproxy(t).proxy(service.addr, cutEvery(every)), tr)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	hash, peak, read := sha256.New(), uint64(0), int64(0)
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for err == nil {
		var n int64
		n, err = io.CopyN(hash, body, 1<<20)
		read += n
		metrics.Read(heap)
		peak = max(peak, heap[0].Value.Uint64())
	}
	if got := hash.Sum(nil); err != io.EOF || !bytes.Equal(got, want[:]) {
		t.Errorf("%d bytes of %d with the hash %s, %v", read, size, hex.EncodeToString(got), err)
	}
	if least := (size + every - 1) / every; requests < least || requests > least+1 {
		t.Errorf("%d requests, want %d", requests, least)
	}
	if peak > 32<<20 {
		t.Errorf("the heap had %d MiB", peak>>20)
	}
	t.Logf("%d MiB in %v with %d requests; the heap had %.1f MiB at most; sha256 %x",
		read>>20, time.Since(start).Round(time.Millisecond), requests, float64(peak)/(1<<20), want)
}
