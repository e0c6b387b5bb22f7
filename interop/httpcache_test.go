package interop

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gregjones/httpcache"
)

// TestCacheBelow has a Transport retry what an HTTP cache sends. The cache keeps a response when its body has been read to
// the end, and copies the response then: nothing may read the body while the response is changed.
func TestCacheBelow(t *testing.T) {
	const page = `{"message": "from the service"}`
	var sent atomic.Int64
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	for _, c := range []struct {
		path   string
		status int
		sent   int64 // requests for two calls
	}{
		{"/fresh", 200, 1},
		{"/busy", 200, 2},
		{"/missing", 404, 1},
		{"/validated", 200, 2},
	} {
		t.Run(c.path, func(t *testing.T) {
			sent.Store(0)
			cache := httpcache.NewMemoryCacheTransport()
			cache.Transport = newPool(t)
			client := &http.Client{Transport: retrying(cache)}
			server := start(t, service, nil)
			for range 2 {
				resp, err := client.Get(server.URL + c.path)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != page || resp.StatusCode != c.status {
					t.Errorf("status %d with %q, %v", resp.StatusCode, body, err)
				}
			}
			if sent.Load() != c.sent {
				t.Errorf("%d requests reached the service, want %d", sent.Load(), c.sent)
			}
		})
	}
}

// TestCacheAbove has an HTTP cache send through a Transport, which it sees as one request.
func TestCacheAbove(t *testing.T) {
	const page = "a page"
	busy, down := answer(503, "busy"), hangUp
	current := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, stale-if-error=60")
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, page)
	}
	for _, c := range []struct {
		name    string
		service []http.HandlerFunc
	}{
		{"retried, then validated after a retry", []http.HandlerFunc{busy, current, busy, current}},
		{"retried, then stale because of errors", []http.HandlerFunc{busy, current, down, busy, busy}},
		{"retried, then stale because nothing answers", []http.HandlerFunc{current, down, down, down}},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := newThrottler(t, c.service...)
			cache := httpcache.NewMemoryCacheTransport()
			pool := newPool(t)
			pool.DisableKeepAlives = true // net/http repeats a GET by itself where an idle connection ends
			cache.Transport = retrying(pool)
			for call := range 2 {
				resp, err := cache.Client().Get(service.URL)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != page || resp.StatusCode != 200 || (resp.Header.Get(httpcache.XFromCache) != "") != (call == 1) {
					t.Errorf("call %d: status %d with %q, %v, headers %v", call+1, resp.StatusCode, body, err, resp.Header)
				}
			}
			if n := len(service.requests()); n != len(c.service) {
				t.Errorf("%d requests reached the service, want %d", n, len(c.service))
			}
		})
	}
}

// TestCacheAroundMany has many requests at once share an HTTP cache below a Transport and one above it.
func TestCacheAroundMany(t *testing.T) {
	service := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=60")
		if strings.HasSuffix(r.URL.Path, "5") {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"path": %q}`, r.URL.Path)
	}), nil)
	below, above := httpcache.NewMemoryCacheTransport(), httpcache.NewMemoryCacheTransport()
	below.Transport = newPool(t)
	above.Transport = retrying(below)
	client := above.Client()
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 50 {
				path := fmt.Sprintf("/%d", (i+n)%20)
				resp, err := client.Get(service.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := fmt.Sprintf(`{"path": %q}`, path); err != nil || string(body) != want {
					t.Errorf("%s: %q, %v", path, body, err)
				}
			}
		})
	}
	callers.Wait()
}
