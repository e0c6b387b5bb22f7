package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A program may still use the deprecated CancelRequest on the pool below a
// Transport. It wants no response any more, and could not cancel a retry.
func TestCancelRequest(t *testing.T) {
	begun := make(chan bool, 9)
	srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		hang(w, r)
	})
	req := srv.Request(t, http.MethodGet, nil)
	go func() {
		<-begun
		srv.Base.CancelRequest(req)
	}()
	_, err := retrying(srv.Base).RoundTrip(req)
	var failure *awsretry.Error
	if !errors.As(err, &failure) || failure.Attempts != 1 || !strings.Contains(err.Error(), "request canceled") {
		t.Errorf("the error is %v, want one after 1 attempt", err)
	}
}

// A server stalls in the body of a 429. The rest of the body is read so that
// the connection can be used again. That must not lengthen the delay, nor take
// time from the deadline.
func TestStalledThrottling(t *testing.T) {
	for _, tt := range []struct {
		name     string
		backoff  time.Duration
		deadline time.Duration
		cancel   time.Duration // of Request.Cancel; 0: not used
		within   time.Duration
		saved    bool
	}{
		{name: "short delay", backoff: time.Millisecond, deadline: time.Minute, within: 600 * time.Millisecond, saved: true},
		{name: "long delay", backoff: 2 * time.Second, deadline: time.Minute, within: 2 * time.Second, saved: true},
		{
			name: "deadline", backoff: time.Millisecond, deadline: 700 * time.Millisecond, within: 600 * time.Millisecond,
			saved: true,
		},
		{
			name: "Request.Cancel", backoff: 5 * time.Second, deadline: time.Minute, cancel: 200 * time.Millisecond,
			within: 200 * time.Millisecond,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int32
				srv := httpfake.Serve(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
					if sent.Add(1) > 1 {
						return
					}
					w.Header().Set("X-Amzn-ErrorType", "ThrottlingException") // the body is not searched for the code
					w.WriteHeader(http.StatusTooManyRequests)
					io.WriteString(w, "{")
					http.NewResponseController(w).Flush()
					hang(w, r)
				})
				tr := retrying(srv.Base)
				tr.Backoff = awsretry.Exponential{Initial: tt.backoff, Max: tt.backoff, Jitter: awsretry.NoJitter}
				ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
				defer cancel()
				req := srv.Request(t, http.MethodGet, nil).WithContext(ctx)
				if tt.cancel > 0 {
					canceled := make(chan struct{})
					req.Cancel = canceled
					time.AfterFunc(tt.cancel, func() { close(canceled) })
				}
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); took < tt.backoff && tt.saved || took > tt.within {
					t.Errorf("took %v, want %v to %v", took, tt.backoff, tt.within)
				}
				if saved := err == nil && resp.StatusCode == http.StatusOK; saved != tt.saved {
					t.Errorf("%v, %v", resp, err)
				}
				if err == nil {
					resp.Body.Close()
				}
			})
		})
	}
}

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
