package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
)

// Bodies of every kind go through every stack to a service that fails the first
// attempt, and come back whole.
func TestStacks(t *testing.T) {
	for name, s := range stacks() {
		for _, kind := range bodyKinds {
			for _, early := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/early response %v", name, kind.name, early), func(t *testing.T) {
					s.send(t, kind, early)
				})
			}
		}
	}
}

// send sends a body to a service that responds to the first attempt with 503,
// after it has read the body or, if early is true, before, and then echoes it.
func (s stack) send(t *testing.T, kind bodyKind, early bool) {
	var mu sync.Mutex
	var seen []string // what the service received; guarded by mu
	note := func(received string) (first bool) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, received)
		return len(seen) == 1
	}
	var requests atomic.Int32
	client, url := s.start(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 && early {
			note("")
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
		if note(received) || err != nil {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Trailer", "X-Sum")
		w.Write(body)
		w.Header().Set("X-Sum", digestOf(body))
	})
	var attempts []string
	ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { attempts = append(attempts, describe(a)) })
	req, body := kind.request(t, ctx, url)
	req.Header.Set("Content-Type", "application/octet-stream")

	resp := kit.Must[*http.Response](t)(client.Do(req))
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	want := kind.content
	if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != max(s.major, 1) || !bytes.Equal(got, want) {
		t.Errorf("%s %s and %d bytes of %d, %v", resp.Proto, resp.Status, len(got), len(want), err)
	}
	if sum := resp.Trailer.Get("X-Sum"); sum != digestOf(want) {
		t.Errorf("the response's trailer is %q, want %q", sum, digestOf(want))
	}
	mu.Lock()
	defer mu.Unlock()
	wanted := digestOf(want)
	if s.losesTrailers {
		for i := range seen {
			seen[i] = strings.TrimSuffix(seen[i], sentTrailer)
		}
	} else if kind.trailer {
		wanted += sentTrailer
	}
	if len(seen) != 2 || seen[1] != wanted || !early && seen[0] != wanted {
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

const sentTrailer = " and the trailer"

func digestOf(b []byte) string { return fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b)) }

// A stack is what is between a client and a service.
type stack struct {
	start func(*testing.T, http.HandlerFunc) (client *http.Client, url string)
	major int // of the protocol; 0: 1

	losesTrailers bool // it copies the request, and sees no trailer that is set while the body is read
	elsewhere     bool // the retries do not have the caller's context
}

// copying returns a stack whose wrapper copies requests.
func copying(wrap func(http.RoundTripper) http.RoundTripper) stack {
	return stack{losesTrailers: true, start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
		srv := httpfake.ServeTCP(t, "HTTP/1.1", service)
		return &http.Client{Transport: wrap(srv.Base)}, srv.URL
	}}
}

// stacks do not have those of net/http alone, which internal/contract tests.
func stacks() map[string]stack {
	withToken := func(b http.RoundTripper) http.RoundTripper {
		return &oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"}), Base: b}
	}
	withSpans := func(b http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(b) }
	return map[string]stack{
		"otelhttp over":  copying(func(b http.RoundTripper) http.RoundTripper { return withSpans(kit.Retrying(b)) }),
		"otelhttp under": copying(func(b http.RoundTripper) http.RoundTripper { return kit.Retrying(withSpans(b)) }),
		"oauth2 over":    copying(func(b http.RoundTripper) http.RoundTripper { return withToken(kit.Retrying(b)) }),
		"oauth2 under":   copying(func(b http.RoundTripper) http.RoundTripper { return kit.Retrying(withToken(b)) }),
		"golang.org/x/net/http2": {
			major: 2,
			start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
				srv := httpfake.ServeTCP(t, "HTTP/2", service)
				h2 := &http2.Transport{TLSClientConfig: srv.Base.TLSClientConfig}
				t.Cleanup(h2.CloseIdleConnections)
				return &http.Client{Transport: kit.Retrying(h2)}, srv.URL
			},
		},
		"HTTP/3": {major: 3, start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			server, h3 := serveHTTP3(t, service)
			return &http.Client{Transport: kit.Retrying(h3)}, server.url()
		}},
		"CONNECT proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := serveBehindTunnel(t, service, tunnel)
			return &http.Client{Transport: kit.Retrying(srv.Base)}, srv.URL
		}},
		"before a reverse proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := httpfake.ServeTCP(t, "HTTP/1.1", service)
			proxy := serveReverseProxy(t, srv, srv.Base)
			return &http.Client{Transport: kit.Retrying(proxy.Base)}, proxy.URL
		}, losesTrailers: true},
		"inside a reverse proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := httpfake.ServeTCP(t, "HTTP/1.1", service)
			proxy := serveReverseProxy(t, srv, kit.Retrying(srv.Base))
			return &http.Client{Transport: proxy.Base}, proxy.URL
		}, losesTrailers: true, elsewhere: true},
	}
}

// serveReverseProxy starts a reverse proxy in front of a server.
func serveReverseProxy(t *testing.T, to *httpfake.Server, by http.RoundTripper) *httpfake.Server {
	t.Helper()
	proxy := httpfake.ServeTCP(t, "HTTP/1.1", fullDuplex(reverseProxy(t, to.URL, by)))
	t.Cleanup(to.Base.CloseIdleConnections) // the proxy's end counts goroutines
	return proxy
}

var errGone = errors.New("the caller has gone")

// The caller cancels in the middle of a request body, through every stack. The
// body is closed, and the service notices. The end of the servers finds
// goroutines that are left.
func TestCancelInRequestBody(t *testing.T) {
	for name, s := range stacks() {
		t.Run(name, func(t *testing.T) {
			half, noticed := make(chan struct{}, 9), make(chan struct{}, 9)
			client, url := s.start(t, func(w http.ResponseWriter, r *http.Request) {
				defer func() { noticed <- struct{}{} }()
				io.ReadFull(r.Body, make([]byte, 1000))
				half <- struct{}{}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					panic(http.ErrAbortHandler) // a response could come before the client notices its own cancel
				}
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			req, body := bodyKind{open: openEndlessPipe}.request(t, ctx, url)
			go func() { <-half; cancel(errGone) }()
			_, err := client.Do(req)
			if !errors.Is(err, errGone) || !errors.Is(err, context.Canceled) && !s.elsewhere {
				t.Errorf("the error is %v", err)
			}
			wantClosedOnce(t, body)
			if !kit.Eventually(func() bool { return len(noticed) > 0 }) {
				t.Error("the service does not notice")
			}
		})
	}
}

// openEndlessPipe returns a body that goes on until it is closed. It never
// hangs: the HTTP/1 of net/http waits for a Read that is under way, even if the
// context ends.
func openEndlessPipe(testing.TB) io.Reader {
	body, caller := io.Pipe()
	go func() {
		for {
			if _, err := caller.Write(content[:1000]); err != nil {
				return
			}
			kit.Pause(context.Background(), 10*time.Millisecond)
		}
	}()
	return body
}
