package delivery

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// The parts of httpfake that most tests use.
var (
	post    = httpfake.Post
	receive = httpfake.Record
	respond = httpfake.Empty
)

// run runs a subtest in virtual time.
func run(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// readAll is a DeadLetter that reads the body.
func readAll(_ context.Context, dead DeadLetter) error {
	_, err := io.Copy(io.Discard, dead.Request.Body)
	return err
}

// An endpoint responds with one status after the other, and then always with
// the last one.
type endpoint struct {
	statuses []int // 0: no connection
	header   http.Header
	bodies   []*httpfake.Body // of the responses

	mu    sync.Mutex
	start time.Time
	asked []time.Duration // when the requests came
	got   []httpfake.Sent
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
	body := httpfake.NewBody(strings.NewReader("the response"))
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

// stream returns a request with a body of unknown length that cannot be read
// twice.
func stream(t testing.TB, body io.ReadCloser) *http.Request {
	t.Helper()
	req := post(t, "http://a.example/", "")
	req.Body, req.GetBody, req.ContentLength = body, nil, -1
	return req
}

// oneWay returns a reader that has no method but Read.
func oneWay(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

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

// hangingUp is a Base that responds while it still reads the body.
func hangingUp(req *http.Request) (*http.Response, error) {
	go func() {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}()
	time.Sleep(time.Second)
	return respond(404, req), nil
}

func always(statuses ...int) func() http.RoundTripper {
	return func() http.RoundTripper { return responding(statuses...) }
}

func fixed(base httpfake.Base) func() http.RoundTripper {
	return func() http.RoundTripper { return base }
}
