package interop

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// respond returns a handler with a JSON response. Its header is given as names
// and values in turn.
func respond(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// hang does not respond before the client goes away.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// hangUp closes the connection instead of responding.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// echo responds with the body of the request, and with 422 if that breaks off.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	w.Write(body)
}

// failOnce responds to the first request with 503, without reading its body.
func failOnce(next http.HandlerFunc) http.HandlerFunc {
	var failed atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) {
		if !failed.Swap(true) {
			http.Error(w, `{"code": "busy"}`, http.StatusServiceUnavailable)
			return
		}
		next(w, r)
	}
}

// A sentRequest has what must be the same in every attempt.
type sentRequest struct{ method, uri, auth, contentType, idempotencyKey, body string }

// A scripted server, in memory, records what it receives.
type scripted struct {
	*httpfake.Server
	handlers []http.HandlerFunc // for one request after another, the last one from then on

	mu       sync.Mutex // guards received
	received []sentRequest
}

func serveScript(t *testing.T, handlers ...http.HandlerFunc) *scripted {
	t.Helper()
	s := &scripted{handlers: handlers}
	s.Server = httpfake.Serve(t, "HTTP/1.1", s.serve)
	return s
}

func (s *scripted) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = fmt.Appendf(body, "… then %v", err)
	}
	s.mu.Lock()
	s.received = append(s.received, sentRequest{
		r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
		r.Header.Get("Idempotency-Key"), string(body),
	})
	handle := s.handlers[min(len(s.received), len(s.handlers))-1]
	s.mu.Unlock()
	handle(w, r)
}

func (s *scripted) requests() []sentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}
