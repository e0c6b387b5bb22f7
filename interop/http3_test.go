package interop

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// Bodies are sent over the HTTP/3 of quic-go to a server that goes away between
// two requests, or rejects one.
func TestHTTP3Faults(t *testing.T) {
	for _, tt := range []struct {
		name     string
		fault    func(*http3Server)
		attempts []int // that may be needed
	}{
		{"REQUEST_REJECTED", func(s *http3Server) { s.reject.Store(1) }, []int{1, 2}},
		{"restart", func(s *http3Server) { s.end(); s.begin() }, []int{1, 2}},
		{"vanish and restart", func(s *http3Server) { s.conn.deaf.Store(true); s.end(); s.begin() }, []int{2, 3}},
	} {
		for _, kind := range bodyKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				server, h3 := serveHTTP3(t, echo)
				tr := retrying(h3)
				if _, err := getText(t.Context(), &http.Client{Transport: tr}, server.url()); err != nil {
					t.Fatal(err)
				}
				tt.fault(server)

				attempts := 0
				ctx := awsretry.WithObserver(t.Context(), func(awsretry.Attempt) { attempts++ })
				req, body := kind.request(t, ctx, server.url())
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.Equal(got, kind.content) || !slices.Contains(tt.attempts, attempts) {
					t.Errorf("%s: %d bytes came back of %d after %d attempts, %v",
						resp.Status, len(got), len(kind.content), attempts, err)
				}
				if req.GetBody == nil { // quic-go closes a body with GetBody twice
					wantClosedOnce(t, body)
				}
			})
		}
	}
}

// A server vanishes while a stream is sent to it. The attempts end with their
// time-outs.
func TestHTTP3Gone(t *testing.T) {
	var vanishing atomic.Pointer[deafConn]
	server, h3 := serveHTTP3(t, func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		vanishing.Load().deaf.Store(true)
	})
	vanishing.Store(server.conn)
	tr := retrying(h3)
	tr.AttemptTimeout = 200 * time.Millisecond
	body := httpfake.NewBody(openPipe(t))
	_, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodPut, server.url(), body))
	if !isTimeout(err) {
		t.Errorf("the error is %v, want a time-out", err)
	}
	wantClosedOnce(t, body)
}
