package clitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// A Reply is the response to one request.
type Reply struct {
	Status int // 0: the service closes the connection without a response
	Header map[string]string
	Body   string
}

// Replies of a service that works, fails or throttles.
var (
	Fine        = Reply{Status: 200, Body: "hello"}
	Closed      = Reply{}
	Unavailable = Reply{Status: 503, Body: `<Error><Code>ServiceUnavailable</Code></Error>`}
	Throttling  = Reply{400, map[string]string{"X-Amzn-Requestid": "id-17"},
		`{"__type":"com.amazon#ThrottlingException"}`}
	Invalid = Reply{400, map[string]string{"X-Amzn-Requestid": "id-18"}, `{"__type":"ValidationException"}`}
)

// A Service sends its replies in order, and the last one to every request after
// that. It records the requests.
type Service struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	requests []*http.Request
	bodies   []string
}

// Start starts a service that ends with the test.
func Start(t *testing.T, replies ...Reply) *Service {
	t.Helper()
	s := &Service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		reply := replies[min(len(s.requests), len(replies)-1)]
		s.requests = append(s.requests, r)
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		if reply.Status == 0 {
			panic(http.ErrAbortHandler)
		}
		for name, value := range reply.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Body)
	}))
	t.Cleanup(s.Close)
	return s
}

// Requests returns the requests so far.
func (s *Service) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Bodies returns the bodies of the requests so far.
func (s *Service) Bodies() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}
