package contract_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
)

// A cuttingWriter ends the response after some bytes of its body: in HTTP/1 by
// closing the connection, in HTTP/2 by resetting the stream.
type cuttingWriter struct {
	http.ResponseWriter
	left int
}

func (w *cuttingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	if w.left -= n; w.left == 0 && err == nil {
		http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

const objectSize = 100_000

// serveCut serves an object with net/http's ranges and conditions. Each
// response ends after 30,000 bytes.
func serveCut(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"v1"`)
	http.ServeContent(&cuttingWriter{w, 30_000}, r, "", time.Time{}, strings.NewReader(httpfake.Text(objectSize)))
}

// resumeOver starts a server, and returns a client that continues its bodies.
func resumeOver(t *testing.T, protocol string, handle http.HandlerFunc) (*http.Client, *httpfake.Server) {
	server := httpfake.Serve(t, protocol, handle)
	tr := continuing(server.Base)
	tr.Backoff = contract.Delay(time.Second)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, server
}

// readAll sends a request and reads the body of its response to the end.
func readAll(t *testing.T, client *http.Client, req *http.Request) (*http.Response, string, error) {
	t.Helper()
	resp := send(httpfake.Base(client.Do), req).response(t)
	got, err := readToEnd(resp)
	return resp, got, err
}

// An HTTP/2 stream that breaks off proves that its connection lives: the rest,
// and a retry, go over the same one.
func TestBrokenStreamsKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connections, requests := make(map[string]bool), 0
		client, server := resumeOver(t, "HTTP/2", func(w http.ResponseWriter, r *http.Request) {
			connections[r.RemoteAddr] = true
			if requests++; requests == 1 { // before the header
				panic(http.ErrAbortHandler)
			}
			serveCut(w, r)
		})
		for range 2 {
			if _, got, err := readAll(t, client, server.Request(t, "GET", nil)); err != nil || len(got) != objectSize {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		}
		if len(connections) != 1 || requests != 1+4+4 {
			t.Errorf("%d requests over %d connections", requests, len(connections))
		}
	})
}

// The trailers are those of the response that ends the body.
func TestTrailersOfAResumedBody(t *testing.T) {
	content := httpfake.Text(50_000)
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, announced := range []bool{true, false} {
			inBubble(t, fmt.Sprintf("%s, announced %v", protocol, announced), func(t *testing.T) {
				requests := 0
				client, server := resumeOver(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					requests++
					w.Header().Set("ETag", `"v1"`)
					if announced {
						w.Header().Set("Trailer", "Sum")
					}
					if requests == 1 {
						w.WriteHeader(200)
						io.WriteString(&cuttingWriter{w, 20_000}, content)
					}
					w.Header().Set("Content-Range", "bytes 20000-49999/50000")
					w.WriteHeader(206)
					http.NewResponseController(w).Flush()
					io.WriteString(w, content[20_000:])
					w.Header().Set(http.TrailerPrefix+"Sum", "42")
				})
				resp, got, err := readAll(t, client, server.Request(t, "GET", nil))
				if err != nil || got != content || resp.Trailer.Get("Sum") != "42" {
					t.Errorf("%d bytes, %v, trailers %v", len(got), err, resp.Trailer)
				}
			})
		}
	}
}
