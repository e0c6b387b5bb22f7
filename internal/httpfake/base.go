// Package httpfake replaces the network in the tests of this module: it has
// round trippers that follow a script, bodies that count what happens to them,
// and servers whose connections can be broken.
package httpfake

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// A Base is an http.RoundTripper made of a function.
type Base func(*http.Request) (*http.Response, error)

// RoundTrip calls b.
func (b Base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// Statuses returns a Base that reads the request and responds with one status
// after another. It repeats the last one. The responses have no body.
func Statuses(statuses ...int) Base {
	var sent atomic.Int32
	return func(req *http.Request) (*http.Response, error) {
		if _, err := Receive(req); err != nil {
			return nil, err
		}
		i := min(int(sent.Add(1)), len(statuses)) - 1
		return Response(req, statuses[i], http.NoBody), nil
	}
}

// Receive reads and closes the body of a request, as a Base must.
func Receive(req *http.Request) (string, error) {
	if req.Body == nil {
		return "", nil
	}
	defer req.Body.Close()
	b, err := io.ReadAll(req.Body)
	return string(b), err
}

// Response returns a response to req. header has alternating names and values.
func Response(req *http.Request, status int, body io.ReadCloser, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: body, ContentLength: -1, Request: req,
	}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Add(header[i], header[i+1])
	}
	return resp
}

// Request returns a request to http://service.example/path?secret=1.
func Request(t testing.TB, ctx context.Context, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://service.example/path?secret=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// ReadAll reads the body of a response to its end and closes it.
func ReadAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("reading the response: %v after %d bytes", err, len(b))
	}
	if err := resp.Body.Close(); err != nil {
		t.Errorf("closing the response: %v", err)
	}
	return string(b)
}
