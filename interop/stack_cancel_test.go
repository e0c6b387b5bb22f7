package interop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCancelUnderWay has the caller go away in the middle of a request body and in the middle of a response body, through every
// stack. Afterwards the body is closed, the service has been told, and no connection's goroutines are left.
func TestCancelUnderWay(t *testing.T) {
	before := connGoroutines()
	for name, through := range stacks() {
		for _, c := range []struct {
			name   string
			body   func(testing.TB) io.Reader
			failed int64                                                     // attempts that the service answers with 503
			serve  func(w http.ResponseWriter, r *http.Request, half func()) // until the client has gone
		}{
			{"request body", openEndlessPipe, 0, func(_ http.ResponseWriter, r *http.Request, half func()) {
				io.ReadFull(r.Body, make([]byte, 1000))
				half()
				io.Copy(io.Discard, r.Body)
			}},
			{"response body after a retry", openStream, 1, func(w http.ResponseWriter, r *http.Request, half func()) {
				io.Copy(io.Discard, r.Body)
				w.Write(content[:1000])
				http.NewResponseController(w).Flush()
				half()
				<-r.Context().Done()
			}},
		} {
			if through.early && c.failed == 0 {
				continue // the first attempt never reaches the service
			}
			t.Run(name+", "+c.name, func(t *testing.T) {
				var sent atomic.Int64
				half, told := make(chan bool, 9), make(chan bool, 9)
				client, url := through.start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if sent.Add(1) <= c.failed {
						http.Error(w, "busy", http.StatusServiceUnavailable)
						return
					}
					c.serve(w, r, func() { half <- true })
					told <- true
				}))
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				gone := errors.New("the caller has gone")
				req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, c.body(t))
				if err != nil {
					t.Fatal(err)
				}
				var closes atomic.Int32
				bodyKind{}.finish(req, &closes)

				began := time.Now()
				go func() {
					<-half
					if c.failed == 0 { // else when the response is here
						cancel(gone)
					}
				}()
				resp, err := client.Do(req)
				if err == nil && c.failed > 0 {
					if _, err = io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
						t.Errorf("the first half of the response: %v", err)
					}
					cancel(gone)
					_, err = io.Copy(io.Discard, resp.Body)
				}
				if resp != nil {
					resp.Body.Close()
				}
				// The error of a response body is the base's.
				if err == nil || c.failed == 0 && !(errors.Is(err, gone) && (errors.Is(err, context.Canceled) || through.elsewhere)) || time.Since(began) > 5*time.Second {
					t.Errorf("the error is %v after %v", err, time.Since(began))
				}
				if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
					t.Errorf("the caller's body was closed %d times", closes.Load())
				}
				if !eventually(func() bool { return len(told) > 0 }) {
					t.Error("the service was not told")
				}
			})
		}
	}
	if left := goroutinesOf("example.com/awsretry."); left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
	if !eventually(func() bool { return connGoroutines() <= before }) {
		t.Errorf("%d goroutines of client connections are left, %d were there before", connGoroutines(), before)
	}
}

// openEndlessPipe returns a body that goes on until it is closed. (net/http's HTTP/1 waits for a Read that is under way, whatever
// becomes of the context.)
func openEndlessPipe(t testing.TB) io.Reader {
	body, caller := io.Pipe()
	go func() {
		for {
			if _, err := caller.Write(content[:1000]); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return body
}

// connGoroutines counts the goroutines of net/http's and golang.org/x/net's client connections.
func connGoroutines() int {
	var all strings.Builder
	pprof.Lookup("goroutine").WriteTo(&all, 2)
	return strings.Count(all.String(), "(*persistConn).readLoop(") + strings.Count(all.String(), "onnReadLoop).run(")
}
