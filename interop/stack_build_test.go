package interop

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"example.com/awsretry"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/net/http2"
	"golang.org/x/oauth2"
)

// A stack is what stands between a client and a service.
type stack struct {
	start func(*testing.T, http.Handler) (client *http.Client, url string)

	losesTrailers bool // sends a deep copy of the request, into which no trailer comes that is set while the body is read
	early         bool // the service is never sent the first attempt's body
	elsewhere     bool // the retries are made by somebody who does not have the caller's context
}

func stacks() map[string]stack {
	wrapped := func(wrap func(http.RoundTripper) http.RoundTripper) stack {
		return stack{start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			return &http.Client{Transport: wrap(newPool(t))}, start(t, service, nil).URL
		}}
	}
	copying := func(wrap func(http.RoundTripper) http.RoundTripper) stack {
		s := wrapped(wrap)
		s.losesTrailers = true
		return s
	}
	late := wrapped(func(b http.RoundTripper) http.RoundTripper { return retrying(lateReader{b}) })
	late.early = true
	return map[string]stack{
		"HTTP/1.1":       wrapped(func(b http.RoundTripper) http.RoundTripper { return retrying(b) }),
		"otelhttp over":  copying(func(b http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(retrying(b)) }),
		"otelhttp under": copying(func(b http.RoundTripper) http.RoundTripper { return retrying(otelhttp.NewTransport(b)) }),
		"oauth2 over": copying(func(b http.RoundTripper) http.RoundTripper {
			return &oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"}), Base: retrying(b)}
		}),
		"oauth2 under": copying(func(b http.RoundTripper) http.RoundTripper {
			return retrying(&oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"}), Base: b})
		}),
		"otelhttp over, oauth2 under": copying(func(b http.RoundTripper) http.RoundTripper {
			return otelhttp.NewTransport(retrying(&oauth2.Transport{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"}), Base: b}))
		}),
		"reads bodies late": late,
		"everything set": wrapped(func(b http.RoundTripper) http.RoundTripper {
			tr := retrying(b)
			tr.Mode, tr.AttemptTimeout, tr.SDKHeaders = awsretry.Adaptive, 10e9, true
			tr.Prepare = func(r *http.Request, n int) error { r.Header.Set("X-Attempt", fmt.Sprint(n)); return nil }
			tr.Observe = func(awsretry.Attempt) {}
			return tr
		}),
		"TLS": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, service, func(s *httptest.Server) { s.StartTLS() })
			return &http.Client{Transport: retrying(trusting(t, server))}, server.URL
		}},
		"HTTP/2": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, onlyHTTP2(t, service), func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
			return &http.Client{Transport: retrying(trusting(t, server))}, server.URL
		}},
		"HTTP/2 without TLS": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, onlyHTTP2(t, service), unencryptedHTTP2)
			return &http.Client{Transport: retrying(unencryptedHTTP2Pool(t))}, server.URL
		}},
		"golang.org/x/net/http2": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, onlyHTTP2(t, service), func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() })
			h2 := &http2.Transport{TLSClientConfig: trusting(t, server).TLSClientConfig}
			t.Cleanup(h2.CloseIdleConnections)
			return &http.Client{Transport: retrying(h2)}, server.URL
		}},
		"HTTP/3": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server, h3 := startHTTP3(t, service)
			return &http.Client{Transport: retrying(h3)}, server.url()
		}},
		"CONNECT proxy": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, service, func(s *httptest.Server) { s.StartTLS() })
			proxy := start(t, http.HandlerFunc(tunnel), nil)
			pool := trusting(t, server)
			pool.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
			return &http.Client{Transport: retrying(pool)}, server.URL
		}},
		"behind a reverse proxy": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, service, nil)
			proxy := start(t, reverseProxy(t, server.URL, newPool(t)), nil)
			return &http.Client{Transport: retrying(newPool(t))}, proxy.URL
		}, losesTrailers: true},
		"inside a reverse proxy": {start: func(t *testing.T, service http.Handler) (*http.Client, string) {
			server := start(t, service, nil)
			proxy := start(t, reverseProxy(t, server.URL, retrying(newPool(t))), nil)
			return &http.Client{Transport: newPool(t)}, proxy.URL
		}, losesTrailers: true, elsewhere: true},
	}
}

func retrying(base http.RoundTripper) *awsretry.Transport {
	return &awsretry.Transport{Base: base, Backoff: briefly}
}

// start starts a server on loopback; begin is nil where it needs nothing but starting.
func start(t testing.TB, handler http.Handler, begin func(*httptest.Server)) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = quiet
	if begin == nil {
		server.Start()
	} else {
		begin(server)
	}
	t.Cleanup(server.Close)
	return server
}

func newPool(t testing.TB) *http.Transport {
	pool := &http.Transport{ForceAttemptHTTP2: true}
	t.Cleanup(pool.CloseIdleConnections)
	return pool
}

// unencryptedHTTP2 starts a server that speaks HTTP/2 alone, without TLS.
func unencryptedHTTP2(s *httptest.Server) {
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
}

func unencryptedHTTP2Pool(t testing.TB) *http.Transport {
	pool := newPool(t)
	pool.Protocols = new(http.Protocols)
	pool.Protocols.SetUnencryptedHTTP2(true)
	return pool
}

// trusting is a pool that trusts a server with TLS.
func trusting(t testing.TB, server *httptest.Server) *http.Transport {
	pool := newPool(t)
	pool.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	return pool
}

func onlyHTTP2(t testing.TB, service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("a request came by %s", r.Proto)
		}
		service.ServeHTTP(w, r)
	})
}

func reverseProxy(t testing.TB, to string, by http.RoundTripper) http.Handler {
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: by,
		ErrorLog:  quiet,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it the server closes a body whose end was not read yet when the answer comes, for which the proxy's
		// transport now and then gives up the answer.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	})
}

// tunnel is a proxy's answer to CONNECT.
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

// A lateReader is a RoundTripper that, as the contract allows, still reads the body after it has returned the answer: it answers the
// first attempt by itself and reads on in the background.
type lateReader struct{ base http.RoundTripper }

func (l lateReader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody || awsretry.AttemptNumber(req.Context()) > 1 {
		return l.base.RoundTrip(req)
	}
	// The service is told of the attempt too, so that it counts as the one that it fails.
	probe, err := http.NewRequestWithContext(context.WithoutCancel(req.Context()), http.MethodPut, req.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	probe.Header = req.Header.Clone()
	probe.Header.Set("X-Early", "1")
	resp, err := l.base.RoundTrip(probe)
	if err != nil {
		return nil, err
	}
	go func() {
		defer req.Body.Close()
		io.Copy(io.Discard, req.Body)
	}()
	return resp, nil
}
