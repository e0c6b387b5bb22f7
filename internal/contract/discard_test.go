package contract_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// These tests are about the response that a retry replaces.

// hangingResponse returns a body whose second Read ends with ctx.
func hangingResponse(ctx context.Context) *httpfake.Body {
	return httpfake.NewBody(io.MultiReader(strings.NewReader("x"), failAfter(ctx)))
}

// The body of a retryable response that hangs is given up after a second,
// whether it is read for its code or for its connection. It is closed after its
// Read, which ends with the context of the attempt, or if the caller has a
// deadline and there is no timeout, with the caller's.
func TestHangingErrorBody(t *testing.T) {
	for _, tt := range []struct {
		name              string
		status            int
		code              string // in the header
		timeout, deadline time.Duration
	}{
		{"503", 503, "", 0, 0},
		{"503, 2026", 503, "", 0, 0},
		{"429", 429, "", 0, 0},
		{"429, timeout", 429, "", time.Minute, 0},
		{"429, deadline", 429, "", 0, time.Hour},
		{"503, deadline", 503, "", 0, time.Hour},
		{"429, code in the header", 429, "SlowDown", time.Hour, 0},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(within(t, tt.deadline))
			defer cancel()
			var body *httpfake.Body
			tr := retrying(firstThen(func(req *http.Request) *http.Response {
				body = hangingResponse(req.Context())
				return httpfake.Response(req, tt.status, body, "X-Amzn-ErrorType", tt.code)
			}))
			if tr.AttemptTimeout = tt.timeout; strings.HasSuffix(tt.name, "2026") {
				tr.Revision = awsretry.Revision2026
			}
			r := send(tr, httpfake.Request(t, ctx, "GET", nil))
			if r.wantBody(t, ""); r.took > 1100*time.Millisecond {
				t.Errorf("%v", r)
			}
			synctest.Wait()
			if closed := body.Closes() > 0; closed != (tt.deadline == 0) {
				t.Errorf("closed before the caller's context ends: %v", closed)
			}
			cancel()
			synctest.Wait()
			wantClosed(t, body)
		})
	}
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
	pr, _ := io.Pipe()
	byClient := func(b httpfake.Base) httpfake.Base { return (&http.Client{Timeout: time.Hour, Transport: b}).Do }
	for wrapper, wrap := range map[string]func(httpfake.Base) httpfake.Base{"http.Client": byClient, "Unwrap": nil} {
		inBubble(t, wrapper, func(t *testing.T) {
			end := make(chan struct{})
			source := httpfake.NewBody(hangUntil(end))
			base := firstThen(func(req *http.Request) *http.Response {
				if wrap != nil {
					return httpfake.Response(req, 503, source)
				}
				return httpfake.Response(req, 503, foreignBody{source, pr})
			})
			if wrap != nil {
				base = wrap(base)
			}
			sendGet(t, retrying(base)).wantBody(t, "")
			close(end)
			synctest.Wait()
			wantClosed(t, source)
		})
	}
}

// The rest of a throttled response is read during the delay, which still ends
// with the deadline and when the caller cancels. A delay that passed during a
// Read of the request body is over.
func TestDrainDuringTheDelay(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		delay, deadline, cancel time.Duration // 0: none
		request                 io.Reader
		want                    time.Duration
		status                  int
		stop                    awsretry.Stop
	}{
		{"a long delay", 5 * time.Second, 0, 0, nil, 5 * time.Second, 200, awsretry.StopSuccess},
		{"no delay", 0, 0, 0, nil, 100 * time.Millisecond, 200, awsretry.StopSuccess},
		{"a deadline soon", 0, 50 * time.Millisecond, 0, nil, 25 * time.Millisecond, 200, awsretry.StopSuccess},
		{"Request.Cancel", 5 * time.Second, 0, time.Second, nil, time.Second, 0, awsretry.StopCanceled},
		{"two Reads of the request", 0, 0, 0, everyNow(900*time.Millisecond, "one"), 1900 * time.Millisecond, 200,
			awsretry.StopSuccess},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			end := make(chan struct{})
			source := httpfake.NewBody(hangUntil(end))
			sends := 0
			tr := retrying(func(req *http.Request) (*http.Response, error) {
				if sends++; sends > 1 {
					if got, err := httpfake.Receive(req); err != nil || tt.request != nil && got != "one" {
						t.Errorf("the retry sends %q, %v", got, err)
					}
					return httpfake.Empty(200, req), nil
				}
				go httpfake.Receive(req)
				synctest.Wait()
				return httpfake.Response(req, 429, source, "X-Amzn-ErrorType", "SlowDown"), nil
			})
			tr.Backoff = delayed(tt.delay)
			req := httpfake.Request(t, within(t, tt.deadline), "PUT", tt.request)
			if tt.cancel > 0 {
				req.Cancel = closeAfter(tt.cancel)
			}
			send(tr, req).want(t, tt.status, tt.stop, tt.want)
			close(end)
			synctest.Wait()
			wantClosed(t, source)
		})
	}
}

// rawBase sends each request over its own connection, which does not end
// with the request's context, and reads the response with http.ReadResponse.
// The body's Close waits for its Read, and then reads on to the end. The server
// sends head, nothing for a while, and then the end of the body.
func rawBase(t *testing.T, head string, quiet time.Duration) httpfake.Base {
	return func(req *http.Request) (*http.Response, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			if _, err := http.ReadRequest(bufio.NewReader(server)); err != nil {
				t.Error(err)
				return
			}
			io.WriteString(server, head)
			time.Sleep(quiet)
			io.WriteString(server, "0\r\n\r\n")
		}()
		if err := req.Write(client); err != nil {
			return nil, err
		}
		return http.ReadResponse(bufio.NewReader(client), req)
	}
}

// A Close of RoundTrip's own does not wait for the rest of a body whose type is
// one of net/http's, nor does it delay a call whose context has ended. The body
// is still closed in the end: the bubble would find a goroutine that is left.
func TestBodiesOfReadResponse(t *testing.T) {
	const quiet = 12 * time.Second
	for _, tt := range []struct {
		name, header      string
		timeout, deadline time.Duration
		most              time.Duration // for all attempts
	}{
		// A second for each code and a tenth for each Close.
		{"503 x", "Content-Type: application/json", 0, 30 * time.Second, 3200 * time.Millisecond},
		{"503 timeout", "Content-Type: application/json", time.Second, 30 * time.Second, 3200 * time.Millisecond},
		{"429 code", "X-Amzn-ErrorType: SlowDown", 0, 30 * time.Second, 200 * time.Millisecond},
		{"503 deadline", "X-None: x", time.Second, 3 * time.Second, time.Second},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			head := fmt.Sprintf("HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n%s\r\n\r\n1\r\nx\r\n", tt.name, tt.header)
			tr := retrying(rawBase(t, head, quiet))
			if tr.AttemptTimeout = tt.timeout; tt.deadline < quiet {
				tr.Quota.Capacity = 1 // the first response is returned
			}
			r := send(tr, httpfake.Request(t, within(t, tt.deadline), "GET", nil))
			if r.took > tt.most || r.err != nil {
				t.Errorf("%v, want %v at most", r, tt.most)
			}
			if r.Response != nil {
				got, err := io.ReadAll(r.Body)
				if string(got) != "x" || (err == nil) != (tt.timeout == 0) {
					t.Errorf("read %q, %v", got, err)
				}
				if tt.timeout > 0 { // this Base goes on after it
					wantTimeoutError(t, err)
				}
				r.Body.Close()
			}
			time.Sleep(quiet)
		})
	}
}
