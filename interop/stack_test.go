package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/awsretry"
)

// Bodies of every kind go through every stack to a service that fails the first
// attempt, and come back whole.
func TestStacks(t *testing.T) {
	for name, s := range stacks() {
		t.Run(name, func(t *testing.T) {
			service := newFailsFirst()
			client, url := s.start(t, service.serve)
			for _, kind := range bodyKinds {
				for _, early := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/early response %v", kind.name, early), func(t *testing.T) {
						s.send(t, client, url, service, kind, early)
					})
				}
			}
		})
	}
}

// send sends a body. If early is true, the service responds to the first
// attempt before it reads the body.
func (s stack) send(t *testing.T, client *http.Client, url string, service *failsFirst, kind bodyKind, early bool) {
	var attempts []string
	ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { attempts = append(attempts, describe(a)) })
	req, body := kind.request(t, ctx, url)
	req.Header.Set("X-Call", t.Name())
	req.Header.Set("Content-Type", "application/octet-stream")
	if early {
		req.Header.Set("X-Early", "1")
	}

	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the response: %v after %d bytes", err, len(got))
	}
	want := kind.content
	if resp.StatusCode != 200 || resp.ProtoMajor != max(s.major, 1) || !bytes.Equal(got, want) {
		t.Errorf("%s %s and %d bytes, want 200 and the %d that were sent", resp.Proto, resp.Status, len(got), len(want))
	}
	if sum := resp.Trailer.Get("X-Sum"); sum != digestOf(want) {
		t.Errorf("the response's trailer is %q, want %q", sum, digestOf(want))
	}
	seen := service.of(t.Name())
	wanted := digestOf(want)
	if s.losesTrailers {
		for i := range seen {
			seen[i] = strings.TrimSuffix(seen[i], sentTrailer)
		}
	} else if kind.trailer {
		wanted += sentTrailer
	}
	if len(seen) != 2 || seen[1] != wanted || !early && !s.early && seen[0] != wanted {
		t.Errorf("the service received %q, want twice %q", seen, wanted)
	}
	wantClosedOnce(t, body)
	// If a service responds before it has the body, its HTTP/2 may end the
	// connection because of what still arrives, and the second attempt with it.
	// Another attempt is made then.
	others := slices.DeleteFunc(slices.Clone(attempts), func(a string) bool {
		return early && strings.Contains(a, "GOAWAY")
	})
	if !s.elsewhere && (len(others) != 2 || len(attempts) > 3) {
		t.Errorf("the attempts were %q", attempts)
	}
}

func describe(a awsretry.Attempt) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return a.Response.Status
}

// A failsFirst is a service that responds to the first attempt of each call
// with 503, before it reads the body or after. It echoes the body of the
// second.
type failsFirst struct {
	mu       sync.Mutex          // guards attempts
	attempts map[string][]string // what was received, by call
}

func newFailsFirst() *failsFirst { return &failsFirst{attempts: make(map[string][]string)} }

func (s *failsFirst) serve(w http.ResponseWriter, r *http.Request) {
	call := r.Header.Get("X-Call")
	first := len(s.of(call)) == 0
	if first && r.Header.Get("X-Early") != "" {
		s.note(call, "")
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	received := digestOf(body)
	if r.Trailer.Get("X-Sent") == "all" {
		received += sentTrailer
	}
	if err != nil {
		received = err.Error()
	}
	s.note(call, received)
	if first || err != nil {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Trailer", "X-Sum")
	w.Write(body)
	w.Header().Set("X-Sum", digestOf(body))
}

func (s *failsFirst) note(call, received string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts[call] = append(s.attempts[call], received)
}

func (s *failsFirst) of(call string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attempts[call])
}

const sentTrailer = " and the trailer"

func digestOf(b []byte) string { return fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b)) }

// Many requests at once share a stack, and with HTTP/2 a connection.
func TestConcurrentStacks(t *testing.T) {
	for _, name := range []string{"HTTP/1.1", "HTTP/2 without TLS", "oauth2 under otelhttp"} {
		t.Run(name, func(t *testing.T) {
			client, url := stacks()[name].start(t, newFailsFirst().serve)
			inParallel(64, 64, func(i int) {
				if err := echoOnce(t.Context(), client, url, i); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
		})
	}
}

// echoOnce sends a body, every second one as a stream.
func echoOnce(ctx context.Context, client *http.Client, url string, i int) error {
	call := fmt.Sprint("call ", i)
	sent := strings.Repeat(call, 100+i*10)
	var body io.Reader = strings.NewReader(sent)
	if i%2 == 1 {
		body = streamOf(sent)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Call", call)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && string(got) != sent {
		err = fmt.Errorf("%d bytes came back of %d, status %d", len(got), len(sent), resp.StatusCode)
	}
	return err
}
