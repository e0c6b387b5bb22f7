package interop

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
)

// A clientCase is one call through somebody's SDK, whose own retries are off, to a server that throttles as the SDK's
// service does.
type clientCase struct {
	name    string
	policy  awsretry.Policy // nil: DefaultPolicy
	base    func(http.RoundTripper) http.RoundTripper
	answers []http.HandlerFunc                             // in turn, the last one for ever
	call    func(client *http.Client, server string) error // nil where the SDK has what it asked for
	sent    int                                            // requests that the server is to see
	atLeast time.Duration                                  // that the call is to take, for a Retry-After
	failed  func(error) bool                               // nil: the call is to succeed
}

// TestThirdPartyClients shows of each client a request that the Transport saves and one that must not be sent again.
func TestThirdPartyClients(t *testing.T) {
	t.Parallel()
	for client, cases := range map[string][]clientCase{
		"go-github":        githubCases(),
		"openai-go":        openaiCases(),
		"anthropic-sdk-go": anthropicCases(),
		"stripe-go":        stripeCases(),
		"elasticsearch":    elasticCases(),
		"vault":            vaultCases(),
	} {
		saved, once := 0, 0
		for _, c := range cases {
			if c.sent > 1 && c.failed == nil {
				saved++
			} else if c.sent == 1 && c.failed != nil {
				once++
			}
			t.Run(client+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
		if saved == 0 || once == 0 {
			t.Errorf("%s: %d cases of a request that is saved and %d of one that is sent once; there must be both", client, saved, once)
		}
	}
}

func (c clientCase) run(t *testing.T) {
	service := newThrottler(t, c.answers...)
	pooled := http.DefaultTransport.(*http.Transport).Clone()
	defer pooled.CloseIdleConnections()
	transport := &awsretry.Transport{Base: pooled, Policy: c.policy, Backoff: briefly}
	if c.base != nil {
		transport.Base = c.base(pooled)
	}

	start := time.Now()
	err := c.call(&http.Client{Transport: transport}, service.URL)
	if took := time.Since(start); took < c.atLeast {
		t.Errorf("took %v, where the service asked for %v", took, c.atLeast)
	}
	switch {
	case c.failed == nil && err != nil:
		t.Errorf("the call failed: %v", err)
	case c.failed != nil && (err == nil || !c.failed(err)):
		t.Errorf("the call ended with %v (%T), not the SDK's own error for the answer", err, err)
	}
	seen := service.requests()
	if len(seen) != c.sent {
		t.Fatalf("the server saw %d requests, not %d: %q", len(seen), c.sent, seen)
	}
	for i, r := range seen {
		if r != seen[0] {
			t.Errorf("request %d was\n%+v\nthe first one\n%+v", i+1, r, seen[0])
		}
	}
}

// briefly keeps the pauses of these tests short.
var briefly = awsretry.Exponential{Initial: time.Millisecond, Max: 10 * time.Millisecond}

// A sentRequest is what has to be the same in every attempt.
type sentRequest struct{ method, uri, auth, contentType, idempotencyKey, body string }

// A throttler is a server on loopback that keeps what it is sent.
type throttler struct {
	*httptest.Server
	answers []http.HandlerFunc

	mu   sync.Mutex // guards seen, which the handlers write
	seen []sentRequest
}

func newThrottler(t *testing.T, answers ...http.HandlerFunc) *throttler {
	s := &throttler{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *throttler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = fmt.Appendf(body, "… then %v", err)
	}
	s.mu.Lock()
	s.seen = append(s.seen, sentRequest{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Header.Get("Idempotency-Key"), string(body)})
	answer := s.answers[min(len(s.seen), len(s.answers))-1]
	s.mu.Unlock()
	answer(w, r)
}

func (s *throttler) requests() []sentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// answer is a handler that gives a JSON answer. header is names and values in turn.
func answer(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// hangUp is a handler that reads the request and closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// isError reports whether an error is an E that fits.
func isError[E error](fits func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && fits(e)
	}
}
