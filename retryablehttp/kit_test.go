package retryablehttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A server responds with one status after the other, and then with the last. It
// records the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	statuses []int
	header   http.Header // of each response
	requests []*http.Request
	bodies   []string
}

func newServer(t testing.TB, statuses ...int) *server {
	t.Helper()
	s := &server{statuses: statuses}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	status := s.statuses[min(len(s.requests), len(s.statuses)-1)]
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	s.mu.Unlock()
	for name, values := range s.header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	io.WriteString(w, http.StatusText(status))
}

// seen returns how many requests came.
func (s *server) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// newClient returns a Client that is quick and silent.
func newClient() *Client {
	c := NewClient()
	c.Logger = nil
	c.RetryWaitMin, c.RetryWaitMax = time.Millisecond, 2*time.Millisecond
	return c
}

func request(t testing.TB, method, url string, body any) *Request {
	t.Helper()
	req, err := NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// text reads and closes a response.
func text(t testing.TB, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	resp.Body.Close()
	return string(data)
}

// do sends a request, and returns the text of the response.
func do(t testing.TB, c *Client, req *Request) string {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return text(t, resp)
}

// neverEnding is an io.Reader of zeros, and an io.ReaderAt.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (n neverEnding) ReadAt(p []byte, _ int64) (int, error) { return n.Read(p) }
