package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
)

// A stack is what is between a client and a service.
type stack struct {
	start func(*testing.T, http.HandlerFunc) (client *http.Client, url string)
	major int // of the protocol; 0: 1

	losesTrailers bool // it copies the request, and sees no trailer that is set while the body is read
	early         bool // the first attempt's body does not reach the service
	elsewhere     bool // the retries do not have the caller's context
}

// through returns a stack of one wrapped Base.
func through(protocol string, wrap func(http.RoundTripper) http.RoundTripper) stack {
	return stack{start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
		srv := httpfake.ServeTCP(t, protocol, service)
		return &http.Client{Transport: wrap(srv.Base)}, srv.URL
	}}
}

// copying returns a stack whose wrapper copies requests.
func copying(wrap func(http.RoundTripper) http.RoundTripper) stack {
	s := through("HTTP/1.1", wrap)
	s.losesTrailers = true
	return s
}

func http2Stack(s stack) stack {
	s.major = 2
	return s
}

func stacks() map[string]stack {
	plain := func(b http.RoundTripper) http.RoundTripper { return retrying(b) }
	withToken := func(b http.RoundTripper) http.RoundTripper {
		return &oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"}), Base: b}
	}
	withSpans := func(b http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(b) }
	late := through("HTTP/1.1", func(b http.RoundTripper) http.RoundTripper { return retrying(lateReader{b}) })
	late.early = true
	return map[string]stack{
		"HTTP/1.1":           through("HTTP/1.1", plain),
		"TLS":                through("HTTP/1.1 over TLS", plain),
		"HTTP/2":             http2Stack(through("HTTP/2", plain)),
		"HTTP/2 without TLS": http2Stack(through("h2c", plain)),
		"otelhttp over":      copying(func(b http.RoundTripper) http.RoundTripper { return withSpans(retrying(b)) }),
		"otelhttp under":     copying(func(b http.RoundTripper) http.RoundTripper { return retrying(withSpans(b)) }),
		"oauth2 over":        copying(func(b http.RoundTripper) http.RoundTripper { return withToken(retrying(b)) }),
		"oauth2 under":       copying(func(b http.RoundTripper) http.RoundTripper { return retrying(withToken(b)) }),
		"oauth2 under otelhttp": copying(func(b http.RoundTripper) http.RoundTripper {
			return withSpans(retrying(withToken(b)))
		}),
		"reads bodies late": late,
		"everything set": through("HTTP/1.1", func(b http.RoundTripper) http.RoundTripper {
			tr := retrying(b)
			tr.Mode, tr.AttemptTimeout, tr.SDKHeaders = awsretry.Adaptive, time.Minute, true
			tr.Prepare = func(r *http.Request, n int) error { r.Header.Set("X-Attempt", fmt.Sprint(n)); return nil }
			tr.Observe = func(awsretry.Attempt) {}
			return tr
		}),
		"golang.org/x/net/http2": {
			major: 2,
			start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
				srv := httpfake.ServeTCP(t, "HTTP/2", service)
				h2 := &http2.Transport{TLSClientConfig: srv.Base.TLSClientConfig}
				t.Cleanup(h2.CloseIdleConnections)
				return &http.Client{Transport: retrying(h2)}, srv.URL
			},
		},
		"HTTP/3": {major: 3, start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			server, h3 := serveHTTP3(t, service)
			return &http.Client{Transport: retrying(h3)}, server.url()
		}},
		"CONNECT proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := serveBehindTunnel(t, service, tunnel)
			return &http.Client{Transport: retrying(srv.Base)}, srv.URL
		}},
		"before a reverse proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := httpfake.ServeTCP(t, "HTTP/1.1", service)
			proxy := serveReverseProxy(t, srv, srv.Base)
			return &http.Client{Transport: retrying(proxy.Base)}, proxy.URL
		}, losesTrailers: true},
		"inside a reverse proxy": {start: func(t *testing.T, service http.HandlerFunc) (*http.Client, string) {
			srv := httpfake.ServeTCP(t, "HTTP/1.1", service)
			proxy := serveReverseProxy(t, srv, retrying(srv.Base))
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

// serveBehindTunnel starts a server with TLS that its Base reaches through a
// proxy.
func serveBehindTunnel(t *testing.T, service, proxy http.HandlerFunc) *httpfake.Server {
	t.Helper()
	front := httpfake.ServeTCP(t, "HTTP/1.1", proxy)
	srv := httpfake.ServeTCP(t, "HTTP/1.1 over TLS", service)
	srv.Base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(front.URL) }
	return srv
}

// tunnel responds to CONNECT as a proxy does.
func tunnel(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	server, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	w.WriteHeader(http.StatusOK)
	client, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	done := make(chan struct{}, 2)
	go func() { io.Copy(server, rest); done <- struct{}{} }()
	go func() { io.Copy(client, server); done <- struct{}{} }()
	<-done
}

// A lateReader still reads the body after it has returned a response, as the
// contract allows. It responds to the first attempt itself, and reads on in the
// background.
type lateReader struct{ base http.RoundTripper }

func (l lateReader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody || awsretry.AttemptNumber(req.Context()) > 1 {
		return l.base.RoundTrip(req)
	}
	// A request without the body makes the service count the first attempt.
	ctx := context.WithoutCancel(req.Context())
	probe, err := http.NewRequestWithContext(ctx, http.MethodPut, req.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	probe.Header = req.Header.Clone()
	probe.Header.Set("X-Early", "1")
	resp, err := l.base.RoundTrip(probe)
	if err != nil {
		return nil, err
	}
	go httpfake.Receive(req)
	return resp, nil
}
