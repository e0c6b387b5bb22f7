package letters

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var errWentHome = errors.New("the user went home")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func respond(status int, req *http.Request) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
}

func post(t testing.TB, target, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest("POST", target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// sent is what a server sees of a request.
type sent struct {
	Method, URL, Host, Body string
	To, Opaque              string // URL.Host, and what is sent in place of a path
	Header, Trailer         http.Header
	Length                  int64
}

// receive reads a request as a RoundTripper does.
func receive(req *http.Request) (sent, error) {
	s := sent{
		Method: req.Method, URL: req.URL.String(), Host: req.Host,
		To: req.URL.Host, Opaque: req.URL.Opaque,
		Header: req.Header, Length: req.ContentLength,
	}
	if req.Body != nil {
		defer req.Body.Close()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return s, err
		}
		s.Body = string(body)
	}
	s.Trailer = req.Trailer
	return s, nil
}

// A countedBody counts how often it is closed.
type countedBody struct {
	io.Reader
	closed atomic.Int32
}

func (b *countedBody) Close() error {
	b.closed.Add(1)
	return nil
}

// A zeros reader is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An untilDone is a body that hangs until its context ends.
type untilDone struct{ ctx context.Context }

func (b untilDone) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// entries returns the names in a folder.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

// fill puts a dead letter for each body into a folder.
func fill(t *testing.T, dir string, bodies ...string) {
	t.Helper()
	queue := &Dir{Path: dir}
	for _, body := range bodies {
		if err := queue.Put(t.Context(), DeadLetter{Request: post(t, "http://a.example/?token=secret", body)}); err != nil {
			t.Fatal(err)
		}
	}
}

// collect redrives a folder, and counts how often each body arrives.
func collect(t *testing.T, dir string) map[string]int {
	t.Helper()
	got := map[string]int{}
	_, err := (&Dir{Path: dir}).Redrive(t.Context(), roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		got[s.Body]++
		return respond(200, req), nil
	}), RedriveOptions{})
	if err != nil {
		t.Error(err)
	}
	return got
}

// recovered calls f on a goroutine of its own and returns what it panics with,
// nil also if f ends the goroutine.
func recovered(f func()) (value any) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { value = recover() }()
		f()
	})
	wg.Wait()
	return value
}
