package interop

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
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
		http.ServeContent(httpfake.CutAfter(w, every), r, "", time.Time{}, bytes.NewReader(kit.Random(size, size)))
	})
	tr := kit.Retrying(h3)
	tr.Resume = true
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
