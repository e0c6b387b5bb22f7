package contract_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// rawBase sends each request over a connection of its own, which does not end
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

// A Close of RoundTrip's own does not wait for the rest of a body, whose type is
// one of net/http's. The body is still closed in the end: the bubble would find
// a goroutine that is left.
func TestBodiesOfReadResponse(t *testing.T) {
	const quiet = 12 * time.Second
	for _, tt := range []struct {
		name, header string
		status       int
		most         time.Duration // for all attempts
	}{
		// A second for each code and a tenth for each Close, except for the last attempt.
		{"503, read ahead", "Content-Type: application/json\r\n", 503, 2200 * time.Millisecond},
		{"503, code in the header", "X-Amzn-ErrorType: InternalError\r\n", 503, 200 * time.Millisecond},
		{"429, code in the header", "X-Amzn-ErrorType: SlowDown\r\n", 429, 200 * time.Millisecond},
	} {
		for _, timeout := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprintf("%s, time-out %v", tt.name, timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					head := fmt.Sprintf("HTTP/1.1 %d x\r\nTransfer-Encoding: chunked\r\n%s\r\n1\r\nx\r\n", tt.status, tt.header)
					tr := retrying(rawBase(t, head, quiet))
					tr.AttemptTimeout = timeout
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					start := time.Now()
					resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
					if took := time.Since(start); err != nil || took > tt.most {
						t.Fatalf("%v, %v after %v, want %v at most", resp, err, took, tt.most)
					}
					got, err := io.ReadAll(resp.Body)
					if string(got) != "x" {
						t.Errorf("read %q", got)
					}
					if timeout > 0 { // this Base goes on after it
						wantTimeoutError(t, err)
					} else if err != nil {
						t.Error(err)
					}
					resp.Body.Close()
					time.Sleep(quiet)
				})
			})
		}
	}
}

// Nor does it hold up a call whose context has ended.
func TestCancelBesideABodyOfReadResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quiet = 12 * time.Second
		tr := unpaid(rawBase(t, "HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", quiet))
		tr.AttemptTimeout = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
		if took := time.Since(start); err == nil || took != 3*time.Second {
			t.Errorf("%v, %v after %v", resp, err, took)
		}
		time.Sleep(quiet)
	})
}
