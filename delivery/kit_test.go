package delivery

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/delivery/letters"
)

// run runs a subtest in virtual time.
func run(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

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

// An endpoint responds with one status after the other, and then always with
// the last one.
type endpoint struct {
	statuses []int // 0: no connection
	header   http.Header
	bodies   []*countedBody // of the responses

	mu    sync.Mutex
	start time.Time
	asked []time.Duration // when the requests came
	got   []sent
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	got, err := receive(req)
	e.mu.Lock()
	defer e.mu.Unlock()
	status := e.statuses[min(len(e.asked), len(e.statuses)-1)]
	e.asked = append(e.asked, time.Since(e.start))
	e.got = append(e.got, got)
	if err != nil {
		return nil, err
	}
	if status == 0 {
		return nil, errRefused
	}
	resp := respond(status, req)
	maps.Copy(resp.Header, e.header)
	body := &countedBody{Reader: strings.NewReader("the response")}
	e.bodies = append(e.bodies, body)
	resp.Body = body
	return resp, nil
}

func responding(statuses ...int) *endpoint { return &endpoint{statuses: statuses, start: time.Now()} }

// send delivers a request, and reads and closes the response.
func send(t *testing.T, tr *Transport, req *http.Request) (status int, err error) {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if (resp == nil) == (err == nil) {
		t.Fatalf("got %v and %v", resp, err)
	}
	if err != nil {
		return 0, err
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "the response" || err != nil {
		t.Errorf("the response body is %q, %v", body, err)
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

func testPolicy(t *testing.T, retry string) *Policy {
	return parse(t, `{"healthyRetryPolicy":{`+retry+`}}`)
}

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return p
}

// A failing reader returns an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A zeros reader is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// oneWay returns a reader that has no method but Read.
func oneWay(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// An untilDone is a body that hangs until its context ends.
type untilDone struct{ ctx context.Context }

func (b untilDone) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// unread is a Base that fails before it reads the body.
func unread(req *http.Request) (*http.Response, error) {
	req.Body.Close()
	return nil, errRefused
}

// halfRead is a Base that responds before it has read all of the body.
func halfRead(req *http.Request) (*http.Response, error) {
	io.CopyN(io.Discard, req.Body, 2)
	req.Body.Close()
	return respond(503, req), nil
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

// collect redrives a folder, and counts how often each body arrives.
func collect(t *testing.T, dir string) map[string]int {
	t.Helper()
	got := map[string]int{}
	_, err := (&letters.Dir{Path: dir}).Redrive(t.Context(), roundTripper(func(req *http.Request) (*http.Response, error) {
		s, err := receive(req)
		if err != nil {
			return nil, err
		}
		got[s.Body]++
		return respond(200, req), nil
	}), letters.RedriveOptions{})
	if err != nil {
		t.Error(err)
	}
	return got
}
