package kit

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// Respond returns a handler with a JSON response. Its header is given as names
// and values in turn.
func Respond(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// A Sent has what must be the same in every attempt.
type Sent struct{ Method, URI, Auth, ContentType, IdempotencyKey, Body string }

// A Script is a server in memory that records what it receives.
type Script struct {
	*httpfake.Server
	handlers []http.HandlerFunc

	mu    sync.Mutex // guards the fields below
	sent  []Sent
	asked time.Duration
}

// ServeScript starts a server with the handlers for one request after another.
// The last one responds from then on.
func ServeScript(t *testing.T, handlers ...http.HandlerFunc) *Script {
	t.Helper()
	s := &Script{handlers: handlers}
	s.Server = httpfake.Serve(t, "HTTP/1.1", s.serve)
	return s
}

func (s *Script) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = fmt.Appendf(body, "… then %v", err)
	}
	s.mu.Lock()
	s.sent = append(s.sent, Sent{
		r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
		r.Header.Get("Idempotency-Key"), string(body),
	})
	handle := s.handlers[min(len(s.sent), len(s.handlers))-1]
	s.mu.Unlock()
	handle(w, r)
	if seconds, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil {
		s.mu.Lock()
		s.asked += time.Duration(seconds) * time.Second
		s.mu.Unlock()
	}
}

// Requests returns the requests so far.
func (s *Script) Requests() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// RetryAfter returns for how long the responses asked to wait in all.
func (s *Script) RetryAfter() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}
