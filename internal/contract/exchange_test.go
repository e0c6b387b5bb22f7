package contract_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Other uses of a connection work as they do without retries.

var timeouts = []time.Duration{0, time.Minute} // AttemptTimeout

// A body can be written while the response is read, one byte for each that is
// echoed.
func TestFullDuplex(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, timeout := range timeouts {
			inBubble(t, fmt.Sprintf("%s, timeout %v", protocol, timeout), func(t *testing.T) {
				srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					control := http.NewResponseController(w)
					if err := control.EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
						t.Error(err)
					}
					w.WriteHeader(200)
					control.Flush()
					for b := make([]byte, 1); ; control.Flush() {
						if _, err := io.ReadFull(r.Body, b); err != nil {
							return
						}
						w.Write(bytes.ToUpper(b))
					}
				})
				tr := &transport{Base: srv.Base, AttemptTimeout: timeout, MaxBodyBuffer: 3}
				pr, pw := io.Pipe()
				resp := send(tr, srv.Request(t, "POST", pr)).response(t)
				for _, c := range "duplex" {
					io.WriteString(pw, string(c))
					b := make([]byte, 1)
					if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != strings.ToUpper(string(c)) {
						t.Fatalf("%q for %q, %v", b, c, err)
					}
				}
				pw.Close()
				if got := httpfake.ReadAll(t, resp); got != "" {
					t.Errorf("then %q", got)
				}
			})
		}
	}
}

// A failure that comes while the caller waits for it, to write the body then,
// is returned. In HTTP/2 even closing such a response would wait for the body.
func TestFailureBeforeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := serveInTurn(t, "HTTP/2", "busy", 503, 503, 503)
		pr, pw := io.Pipe()
		defer pw.Close()
		r := send(retryingOver(srv), srv.Request(t, "POST", pr))
		// Go 1.25 may close the body before it was read: then retries are made.
		if r.took > 1100*time.Millisecond || r.stop != awsretry.StopBody && r.stop != awsretry.StopMaxAttempts {
			t.Errorf("%v", r)
		}
		r.wantBody(t, "busy")
	})
}

// The trailers come with the end of the last response's body.
func TestTrailers(t *testing.T) {
	for _, protocol := range httpfake.Protocols {
		for _, timeout := range timeouts {
			for status, size := range map[int]int{200: 10, 201: 200_000, 503: 10, 500: 200_000} {
				name := fmt.Sprintf("%s, timeout %v, %d with %d bytes", protocol, timeout, status, size)
				inBubble(t, name, func(t *testing.T) {
					srv := httpfake.Serve(t, protocol, func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Trailer", "X-Sum")
						w.WriteHeader(status)
						io.WriteString(w, httpfake.Text(size))
						w.Header().Set("X-Sum", r.Trailer.Get("X-Up"))
					})
					tr := retryingOver(srv)
					tr.AttemptTimeout = timeout
					defer tr.CloseIdleConnections()
					req := srv.Request(t, "PUT", io.MultiReader(strings.NewReader("body")))
					req.Trailer = http.Header{"X-Up": {"42"}}
					r := send(tr, req)
					r.wantBody(t, httpfake.Text(size))
					if sum := r.Trailer.Get("X-Sum"); sum != "42" || r.StatusCode != status {
						t.Errorf("%v, trailers %v", r, r.Trailer)
					}
				})
			}
		}
	}
}
