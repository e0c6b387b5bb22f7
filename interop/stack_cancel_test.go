package interop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

var errGone = errors.New("the caller has gone")

// The caller cancels in the middle of a request body, through every stack. The
// body is closed, and the service notices. The end of the servers finds
// goroutines that are left.
func TestCancelInRequestBody(t *testing.T) {
	for name, s := range stacks() {
		if s.early {
			continue // the body does not reach the service
		}
		t.Run(name, func(t *testing.T) {
			half, noticed := make(chan struct{}, 9), make(chan struct{}, 9)
			client, url := s.start(t, func(w http.ResponseWriter, r *http.Request) {
				defer func() { noticed <- struct{}{} }()
				io.ReadFull(r.Body, make([]byte, 1000))
				half <- struct{}{}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					panic(http.ErrAbortHandler) // a response could come before the client notices its own cancel
				}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			req, body := bodyKind{open: openEndlessPipe}.request(t, ctx, url)
			go func() { <-half; cancel(errGone) }()
			_, err := client.Do(req)
			if !errors.Is(err, errGone) || !errors.Is(err, context.Canceled) && !s.elsewhere {
				t.Errorf("the error is %v", err)
			}
			wantClosedOnce(t, body)
			if !eventually(func() bool { return len(noticed) > 0 }) {
				t.Error("the service does not notice")
			}
		})
	}
}

// The caller cancels in the middle of a response body, after a retry.
func TestCancelInResponseBody(t *testing.T) {
	for name, s := range stacks() {
		t.Run(name, func(t *testing.T) {
			noticed := make(chan struct{}, 9)
			client, url := s.start(t, failOnce(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Write(content[:1000])
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
				noticed <- struct{}{}
				panic(http.ErrAbortHandler) // the client may still read while it says that it closes a TLS connection
			}))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			req, body := bodyKind{open: openStream}.request(t, ctx, url)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
				t.Errorf("the first half of the response: %v", err)
			}
			cancel(errGone)
			if _, err = io.Copy(io.Discard, resp.Body); err == nil { // the Base chooses the error
				t.Error("the response is whole")
			}
			resp.Body.Close()
			wantClosedOnce(t, body)
			if !eventually(func() bool { return len(noticed) > 0 }) {
				t.Error("the service does not notice")
			}
		})
	}
}

// openEndlessPipe returns a body that goes on until it is closed. It never
// hangs: the HTTP/1 of net/http waits for a Read that is under way, even if the
// context ends.
func openEndlessPipe(testing.TB) io.Reader {
	body, caller := io.Pipe()
	go func() {
		for {
			if _, err := caller.Write(content[:1000]); err != nil {
				return
			}
			pause(context.Background(), 10*time.Millisecond)
		}
	}()
	return body
}

// The caller cancels in a delay, also above and below oauth2 and otelhttp. The
// call ends at once, with the cause.
func TestCancelInDelay(t *testing.T) {
	for name, s := range stacks() {
		if s.elsewhere {
			continue // its delays are not the caller's
		}
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int32
			client, url := s.start(t, func(w http.ResponseWriter, r *http.Request) {
				sent.Add(1)
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ctx = awsretry.WithObserver(ctx, func(awsretry.Attempt) { cancel(errGone) })
			start := time.Now()
			_, err := client.Do(newRequest(t, ctx, http.MethodGet, url, nil))
			if !errors.Is(err, errGone) || !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			if took := time.Since(start); took > 30*time.Second || sent.Load() != 1 {
				t.Errorf("%d attempts in %v", sent.Load(), took)
			}
		})
	}
}
