package contract_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// These tests are about the response that a retry replaces.

// firstThen returns a Base whose first attempt gets a response from first, and
// whose others succeed.
func firstThen(first func(req *http.Request) *http.Response) httpfake.Base {
	sends := 0
	return func(req *http.Request) (*http.Response, error) {
		if sends++; sends > 1 {
			return httpfake.Response(req, 200, http.NoBody), nil
		}
		return first(req), nil
	}
}

// wantClosed fails unless body was closed once, and not during a Read.
func wantClosed(t *testing.T, body *httpfake.Body) {
	t.Helper()
	if body.Closes() != 1 || body.ClosesDuringRead() > 0 {
		t.Errorf("closed %d times, %d times during a read", body.Closes(), body.ClosesDuringRead())
	}
}

// The body of a retryable response that hangs is given up after a second. It is
// closed after its Read, which ends with the context of the attempt, or if the
// caller has a deadline and there is no time-out, with the caller's.
func TestHangingErrorBody(t *testing.T) {
	for _, status := range []int{503, 429} {
		for _, revision := range []awsretry.Revision{awsretry.Classic, awsretry.Revision2026} {
			for _, limit := range []string{"none", "time-out", "deadline"} {
				t.Run(fmt.Sprintf("%d, %v, %s", status, revision, limit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { // which finds goroutines that are left
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if limit == "deadline" {
							ctx, cancel = context.WithTimeout(ctx, time.Hour)
							defer cancel()
						}
						var body *httpfake.Body
						tr := retrying(firstThen(func(req *http.Request) *http.Response {
							body = hangingResponse(req.Context())
							return httpfake.Response(req, status, body)
						}))
						tr.Revision = revision
						if limit == "time-out" {
							tr.AttemptTimeout = time.Minute
						}
						start := time.Now()
						resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
						if took := time.Since(start); err != nil || resp.StatusCode != 200 ||
							took > 1100*time.Millisecond {
							t.Fatalf("%v, %v after %v", resp, err, took)
						}
						synctest.Wait()
						if closed := body.Closes() > 0; closed != (limit != "deadline") {
							t.Errorf("closed before the caller's context ends: %v", closed)
						}
						cancel()
						synctest.Wait()
						wantClosed(t, body)
					})
				})
			}
		}
	}
}

// A body that may be closed during a Read is closed at once.
func TestHangingPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan error, 1)
		tr := retrying(firstThen(func(req *http.Request) *http.Response {
			pr, pw := io.Pipe()
			go func() {
				time.Sleep(3 * time.Second)
				_, err := pw.Write([]byte("late"))
				written <- err
			}()
			return httpfake.Response(req, 503, pr)
		}))
		if resp, err := get(t, tr); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		time.Sleep(5 * time.Second)
		if err := <-written; err != io.ErrClosedPipe {
			t.Errorf("the pipe's writer got %v", err)
		}
	})
}

// Over a connection, a body that hangs is closed at once, also while net/http
// unpacks it.
func TestHangingBodyOverAConnection(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1 over TLS", "HTTP/2"} {
		for _, unpacks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unpacks %v", protocol, unpacks), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var sends atomic.Int32
					left := make(chan time.Time, 1)
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						if sends.Add(1) > 1 {
							return
						}
						begin := `{"__type":`
						if unpacks {
							w.Header().Set("Content-Encoding", "gzip")
							var packed strings.Builder
							z := gzip.NewWriter(&packed)
							io.WriteString(z, begin)
							z.Flush()
							begin = packed.String()
						}
						w.WriteHeader(503)
						io.WriteString(w, begin)
						http.NewResponseController(w).Flush()
						<-r.Context().Done()
						left <- time.Now()
					})
					tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
					start := time.Now()
					resp, err := tr.RoundTrip(srv.Request(t, "GET", nil))
					if took := time.Since(start); err != nil || resp.StatusCode != 200 || took != time.Second {
						t.Fatalf("%v, %v after %v", resp, err, took)
					}
					httpfake.ReadAll(t, resp)
					if after := (<-left).Sub(start); after != time.Second {
						t.Errorf("closed after %v", after)
					}
				})
			})
		}
	}
}

// While net/http waits for the header of a gzip stream, Close of the body waits
// too. RoundTrip does not. This is in real time: a wait for a mutex would stop
// the clock of a bubble.
func TestHangingGzipHeader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var sends atomic.Int32
	srv := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		if sends.Add(1) > 1 {
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(503)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	defer cancel()
	tr := &transport{Base: srv.Base, Backoff: contract.Delay(0)}
	start := time.Now()
	resp, err := tr.RoundTrip(srv.Request(t, "GET", nil).WithContext(ctx))
	if took := time.Since(start); err != nil || resp.StatusCode != 200 || took > 10*time.Second {
		t.Fatalf("%v, %v after %v", resp, err, took)
	}
	httpfake.ReadAll(t, resp)
}

// A foreignBody has a method like those of this module's own bodies.
type foreignBody struct {
	*httpfake.Body
	below io.ReadCloser
}

func (b foreignBody) Unwrap() io.ReadCloser { return b.below }

// Whether a body of net/http wraps a foreign one or is wrapped in it, the body
// does not count as one of net/http's own: it is closed after its Read.
func TestForeignBodyIsClosedAfterTheRead(t *testing.T) {
	for _, wrapper := range []string{"http.Client", "Unwrap"} {
		t.Run(wrapper, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				source := httpfake.NewBody(hangUntil(end))
				tr := retrying(firstThen(func(req *http.Request) *http.Response {
					if wrapper == "http.Client" {
						return httpfake.Response(req, 503, source, "Content-Type", "application/json")
					}
					pr, _ := io.Pipe()
					return httpfake.Response(req, 503, foreignBody{source, pr}, "Content-Type", "application/json")
				}))
				if wrapper == "http.Client" {
					client := &http.Client{Timeout: time.Hour, Transport: tr.Base}
					tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) { return client.Do(req) })
				}
				resp, err := get(t, tr)
				if err != nil || resp.StatusCode != 200 {
					t.Fatal(resp, err)
				}
				resp.Body.Close()
				close(end)
				synctest.Wait()
				wantClosed(t, source)
			})
		})
	}
}

// A body that is neither read to its end in time nor may be closed during a
// Read ends with the attempt's context.
func TestDrainThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var source *httpfake.Body
		ended := make(chan time.Duration, 1)
		tr := retrying(firstThen(func(req *http.Request) *http.Response {
			source = httpfake.NewBody(httpfake.ReadFunc(func([]byte) (int, error) {
				<-req.Context().Done()
				ended <- time.Since(start)
				return 0, req.Context().Err()
			}))
			return httpfake.Response(req, 429, source, "X-Amzn-ErrorType", "SlowDown")
		}))
		tr.AttemptTimeout = time.Hour
		if resp, err := get(t, tr); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if took := <-ended; took > time.Second {
			t.Errorf("the attempt's context ended after %v", took)
		}
		synctest.Wait()
		wantClosed(t, source)
	})
}

// The rest of a throttled response is read during the delay, which still ends
// with the deadline and when the caller cancels.
func TestDrainDuringTheDelay(t *testing.T) {
	deadlineSoon := func(t *testing.T, req *http.Request) *http.Request {
		ctx, cancel := context.WithTimeout(req.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return req.WithContext(ctx)
	}
	canceled := func(_ *testing.T, req *http.Request) *http.Request {
		req.Cancel = closeAfter(time.Second)
		return req
	}
	for _, tt := range []struct {
		name   string
		delay  time.Duration
		change func(*testing.T, *http.Request) *http.Request // nil: nothing
		want   time.Duration
		stop   awsretry.Stop
	}{
		{"a long delay", 5 * time.Second, nil, 5 * time.Second, awsretry.StopSuccess},
		{"no delay", 0, nil, 100 * time.Millisecond, awsretry.StopSuccess},
		{"a deadline soon", 0, deadlineSoon, 25 * time.Millisecond, awsretry.StopSuccess},
		{"Request.Cancel", 5 * time.Second, canceled, time.Second, awsretry.StopCanceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				source := httpfake.NewBody(hangUntil(end))
				tr := &transport{
					Backoff: contract.Delay(tt.delay),
					Base: firstThen(func(req *http.Request) *http.Response {
						return httpfake.Response(req, 429, source, "X-Amzn-ErrorType", "SlowDown")
					}),
				}
				req := httpfake.Request(t, t.Context(), "GET", nil)
				if tt.change != nil {
					req = tt.change(t, req)
				}
				start := time.Now()
				resp, err := tr.RoundTrip(req)
				if took := time.Since(start); took != tt.want || contract.StopOf(resp, err) != tt.stop {
					t.Errorf("%v, %v after %v, want %v", resp, err, took, tt.want)
				}
				close(end)
				synctest.Wait()
				wantClosed(t, source)
			})
		})
	}
}
