package interop

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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

func digestOf(b []byte) string { return fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b)) }

// A stack is what is between a client and a service.
type stack struct {
	start func(*testing.T, http.HandlerFunc) (client *http.Client, url string)
	major int // of the protocol; 0: 1

	elsewhere bool // the retries do not have the caller's context
}

// wrapped returns a stack of net/http and a wrapper.
func wrapped(wrap func(http.RoundTripper) http.RoundTripper) stack {
	return stack{start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
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
		"otelhttp over":  wrapped(func(b http.RoundTripper) http.RoundTripper { return withSpans(kit.Retrying(b)) }),
		"otelhttp under": wrapped(func(b http.RoundTripper) http.RoundTripper { return kit.Retrying(withSpans(b)) }),
		"oauth2 over":    wrapped(func(b http.RoundTripper) http.RoundTripper { return withToken(kit.Retrying(b)) }),
		"oauth2 under":   wrapped(func(b http.RoundTripper) http.RoundTripper { return kit.Retrying(withToken(b)) }),
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
		}},
		"inside a reverse proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := httpfake.ServeTCP(t, "HTTP/1.1", service)
			proxy := serveReverseProxy(t, srv, kit.Retrying(srv.Base))
			return &http.Client{Transport: proxy.Base}, proxy.URL
		}, elsewhere: true},
	}
}

// serveReverseProxy starts a reverse proxy in front of a server.
func serveReverseProxy(t *testing.T, to *httpfake.Server, by http.RoundTripper) *httpfake.Server {
	t.Helper()
	proxy := httpfake.ServeTCP(t, "HTTP/1.1", fullDuplex(reverseProxy(t, to.URL, by)))
	t.Cleanup(to.Base.CloseIdleConnections) // the proxy's end counts goroutines
	return proxy
}
