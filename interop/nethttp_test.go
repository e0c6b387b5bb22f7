package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"golang.org/x/net/http2"
)

// TestSchemeMismatch sends https to a server that speaks http, which net/http's Client tells by an error of its own.
func TestSchemeMismatch(t *testing.T) {
	server := start(t, http.NotFoundHandler(), nil)
	attempts := 0
	transport := retrying(newPool(t))
	transport.Observe = func(awsretry.Attempt) { attempts++ }
	_, err := (&http.Client{Transport: transport}).Get(strings.Replace(server.URL, "http:", "https:", 1))
	var failure *awsretry.Error
	if !errors.Is(err, http.ErrSchemeMismatch) || !errors.As(err, &failure) || failure.Stop != awsretry.StopPermanent || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}

// TestCancelRequest uses the deprecated http.Transport.CancelRequest on the pool below a Transport. The caller wants no response
// any more, and could not cancel a retry.
func TestCancelRequest(t *testing.T) {
	begun := make(chan bool, 9)
	server := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
	}), nil)
	pool := newPool(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		pool.CancelRequest(req) //lint:ignore SA1019 programs still use it
	}()
	_, err = retrying(pool).RoundTrip(req)
	var failure *awsretry.Error
	if !errors.As(err, &failure) || failure.Attempts != 1 || ctx.Err() != nil || !strings.Contains(err.Error(), "request canceled") {
		t.Errorf("the error is %v, want one after 1 attempt", err)
	}
}

// TestStalledThrottling has a server stall in the body of a 429. Reading the rest of it, so that the connection can be used again, is
// a favor: it takes no time beside the pause, and nothing from the deadline.
func TestStalledThrottling(t *testing.T) {
	for _, c := range []struct {
		name     string
		backoff  time.Duration
		deadline time.Duration
		cancel   time.Duration // 0: Request.Cancel is not used
		within   time.Duration
		saved    bool
	}{
		{name: "short pause", backoff: time.Millisecond, deadline: 10 * time.Second, within: 800 * time.Millisecond, saved: true},
		{name: "the pause has room for it", backoff: 600 * time.Millisecond, deadline: 10 * time.Second, within: 1200 * time.Millisecond, saved: true},
		{name: "deadline", backoff: time.Millisecond, deadline: 700 * time.Millisecond, within: 700 * time.Millisecond, saved: true},
		{name: "Request.Cancel", backoff: 5 * time.Second, deadline: 10 * time.Second, cancel: 200 * time.Millisecond, within: 700 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int64
			server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if sent.Add(1) > 1 {
					return
				}
				w.Header().Set("X-Amzn-ErrorType", "ThrottlingException") // so that the body need not be searched for it
				w.WriteHeader(http.StatusTooManyRequests)
				io.WriteString(w, "{")
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}), nil)
			transport := retrying(newPool(t))
			transport.Backoff = awsretry.Exponential{Initial: c.backoff, Max: c.backoff, Jitter: awsretry.NoJitter}
			ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.cancel > 0 {
				canceled := make(chan struct{})
				req.Cancel = canceled //lint:ignore SA1019 programs still use it
				time.AfterFunc(c.cancel, func() { close(canceled) })
			}
			began := time.Now()
			resp, err := transport.RoundTrip(req)
			if took := time.Since(began); took < c.backoff && c.saved || took > c.within {
				t.Errorf("took %v, want %v to %v", took, c.backoff, c.within)
			}
			if saved := err == nil && resp.StatusCode == http.StatusOK; saved != c.saved {
				t.Errorf("%v, %v", resp, err)
			}
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}

// TestRefusedUntilDeadline has an HTTP/2 server refuse all streams until the deadline comes, while net/http pauses with the
// next copy of the body in its hands, which it then forgets.
func TestRefusedUntilDeadline(t *testing.T) {
	short := content[:1000]
	for name, open := range map[string]func(*testing.T) io.Reader{
		"stream": func(*testing.T) io.Reader { return struct{ io.Reader }{bytes.NewReader(short)} },
		"file": func(t *testing.T) io.Reader {
			path := filepath.Join(t.TempDir(), "body")
			if err := os.WriteFile(path, short, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			return file
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := startFrames(t, false, []func(*h2Stream){func(s *h2Stream) { s.reset(http2.ErrCodeRefusedStream) }})
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.url(), open(t))
			if err != nil {
				t.Fatal(err)
			}
			var closes atomic.Int32
			bodyKind{content: short, length: true}.finish(req, &closes)
			if _, err := retrying(unencryptedHTTP2Pool(t)).RoundTrip(req); err == nil {
				t.Error("there was a response")
			}
			if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
				t.Errorf("the caller's body was closed %d times", closes.Load())
			}
			if bodies, _ := server.seen(); len(bodies) < 2 {
				t.Errorf("the server refused %d streams, want 2 or more", len(bodies))
			}
		})
	}
}

// TestBlockedBody has an HTTP/2 server answer while a Read of the body hangs that no Close ends. GetBody has another body for
// the retry, so that nothing has to be waited for.
func TestBlockedBody(t *testing.T) {
	server := start(t, failOnce(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	}), unencryptedHTTP2)
	blocked, caller := io.Pipe()
	defer caller.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, io.NopCloser(blocked))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("sent again")), nil }
	resp, err := retrying(unencryptedHTTP2Pool(t)).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "sent again" {
		t.Errorf("%q came back, %v", body, err)
	}
}

// TestShrunkFile has a file lose its end between two attempts. A retry sends the same bytes, or is not made.
func TestShrunkFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	server := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case sent.Add(1) == 1:
			if err := os.Truncate(path, 1000); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		case err == nil:
			t.Errorf("the service received %d bytes of %d as the whole body", len(body), len(content))
		}
	}), nil)
	req, err := http.NewRequest(http.MethodPut, server.URL, file)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := retrying(newPool(t)).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the request succeeded")
		}
	}
}
