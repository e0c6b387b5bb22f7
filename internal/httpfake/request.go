package httpfake

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Post returns a POST request.
func Post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Sent is what a server sees of a request.
type Sent struct {
	Method, URL, Host, Body string
	To, Opaque              string // URL.Host, and what is sent in place of a path
	Header, Trailer         http.Header
	Length                  int64
}

// Record reads and closes the body of a request, as a Base must. It returns
// the whole request.
func Record(req *http.Request) (Sent, error) {
	s := Sent{
		Method: req.Method, URL: req.URL.String(), Host: req.Host,
		To: req.URL.Host, Opaque: req.URL.Opaque,
		Header: req.Header, Length: req.ContentLength,
	}
	body, err := Receive(req)
	if err != nil {
		return s, err
	}
	s.Body, s.Trailer = body, req.Trailer
	return s, nil
}

// Empty returns a response without a body.
func Empty(status int, req *http.Request) *http.Response {
	return Response(req, status, http.NoBody)
}

// Zeros is an endless reader.
var Zeros = ReadFunc(func(p []byte) (int, error) {
	clear(p)
	return len(p), nil
})

// UntilDone returns a reader whose Read hangs until ctx ends.
func UntilDone(ctx context.Context) io.Reader {
	return ReadFunc(func([]byte) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
}

// Recovered calls f in its own goroutine. It returns the value that f
// panics with, or nil, also if f ends the goroutine.
func Recovered(f func()) (value any) {
	var running sync.WaitGroup
	running.Go(func() {
		defer func() { value = recover() }()
		f()
	})
	running.Wait()
	return value
}
