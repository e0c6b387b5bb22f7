package awsretry_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

// TestConnections: after throttling the retry takes the same connection, after a transient failure another, but in the 2026
// revision.
func TestConnections(t *testing.T) {
	const throttled = `{"__type":"ThrottlingException"}`
	for _, c := range []struct {
		status int
		body   string
		kind   string
		same   bool
	}{
		{429, "", "", true},
		{429, "slow down", "", true},
		{429, letters(100_000), "", true},
		{429, letters(2_000_000), "", false}, // reading it all would cost more than a connection
		{400, throttled, "legacy", true},
		{400, throttled, "time-out", true},
		{503, "", "", false},
		{503, "broken", "", false},
		{500, letters(70_000), "", false},
		{500, letters(2_000_000), "legacy", false},
		{408, "broken", "time-out", false},
		{503, "", "2026", true},
		{503, "broken", "2026", true},
		{500, letters(100_000), "2026", true},
	} {
		for _, protocol := range wires[:2] {
			var mu sync.Mutex
			var from []string
			srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				from = append(from, r.RemoteAddr)
				n := len(from)
				mu.Unlock()
				if n == 1 {
					w.WriteHeader(c.status)
					io.WriteString(w, c.body)
				}
			})
			tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
			switch c.kind {
			case "legacy":
				tr.Mode = awsretry.Legacy
			case "time-out":
				tr.AttemptTimeout = time.Minute
			case "2026":
				tr.Revision = awsretry.Revision2026
			}
			resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			whole(t, resp)
			mu.Lock()
			seen := slices.Clone(from)
			mu.Unlock()
			if len(seen) != 2 || (seen[0] == seen[1]) != c.same {
				t.Errorf("%s, %d with %d bytes: attempts came from %v, want the same: %v", protocol, c.status, len(c.body), seen, c.same)
			}
			if c.same || c.status == 429 {
				continue
			}
			for closed := ""; closed != seen[1]; { // nobody would use the retry's own connection again
				select {
				case closed = <-srv.states:
				case <-time.After(5 * time.Second):
					t.Fatal("the retry's connection stays open")
				}
			}
		}
	}
}

// TestSlowAnswerOverTheWire: an error body that hangs is closed while it is being read ahead, and unpacked.
func TestSlowAnswerOverTheWire(t *testing.T) {
	for _, protocol := range wires[1:] {
		var sends atomic.Int32
		srv := serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
			if sends.Add(1) > 1 {
				return
			}
			w.Header().Set("Content-Encoding", "gzip") // which the client's transport undoes
			w.WriteHeader(503)
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"__type":`)
			z.Flush()
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
		start := time.Now()
		resp, err := tr.RoundTrip(srv.request(t, "GET", nil))
		if d := time.Since(start); err != nil || resp.StatusCode != 200 || d > 5*time.Second {
			t.Fatalf("%v, %v after %v", resp, err, d)
		}
		whole(t, resp)
	}
}

// TestRegisteredScheme: the connection pool has no part in it, and neither has a retry's own connection.
func TestRegisteredScheme(t *testing.T) {
	var sends atomic.Int32
	srv := serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1) == 1 {
			w.WriteHeader(503)
		}
	})
	srv.base.RegisterProtocol("local", baseFunc(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.URL.Scheme = "http"
		return srv.base.RoundTrip(req)
	}))
	tr := &awsretry.Transport{Base: srv.base, Backoff: pauseOf(0)}
	req := srv.request(t, "GET", nil)
	req.URL.Scheme = "local"
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	whole(t, resp)
}
