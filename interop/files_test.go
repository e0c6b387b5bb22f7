package interop

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// A file loses its end between two attempts. A retry sends the same bytes, or
// is not made.
func TestShrunkFile(t *testing.T) {
	file := fileOf(content).open(t).(*os.File)
	var sent atomic.Int32
	srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case sent.Add(1) == 1:
			if err := os.Truncate(file.Name(), 1000); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		case err == nil:
			t.Errorf("the service received %d bytes of %d as the whole body", len(body), len(content))
		}
	})
	resp, err := retrying(srv.Base).RoundTrip(srv.Request(t, http.MethodPut, file))
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the request succeeded")
		}
	}
}

// A file is uploaded from where it stands, over net/http's sendfile path. The
// retry needs no buffer.
func TestFileInPlace(t *testing.T) {
	file := fileOf(append([]byte("skip"), content...)).open(t).(*os.File)
	if _, err := file.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int32
	srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(body, content) {
			t.Errorf("%d bytes arrived of %d, %v", len(body), len(content), err)
		}
		if sent.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	req := srv.Request(t, http.MethodPut, file)
	req.ContentLength = int64(len(content))
	tr := retrying(srv.Base)
	tr.MaxBodyBuffer = -1
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	httpfake.ReadAll(t, resp)
	if resp.StatusCode != 200 || sent.Load() != 2 {
		t.Errorf("status %d after %d attempts", resp.StatusCode, sent.Load())
	}
	if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Error("the file is open")
	}
}
