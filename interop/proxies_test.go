package interop

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/coder/websocket"
)

// A proxy refuses CONNECT: for now, which is worth a retry, or for good.
func TestConnectRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		sent   int32
		ok     bool
	}{{503, 3, true}, {407, 1, false}} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			var asked atomic.Int32
			srv := serveBehindTunnel(t, echo, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) < 3 {
					w.WriteHeader(tt.status)
					return
				}
				tunnel(w, r)
			})
			resp, err := kit.Retrying(srv.Base).RoundTrip(srv.Request(t, http.MethodPost, strings.NewReader("through")))
			if err == nil {
				if body := httpfake.ReadAll(t, resp); body != "through" {
					t.Errorf("%q came back", body)
				}
			}
			if (err == nil) != tt.ok || asked.Load() != tt.sent {
				t.Errorf("%v after %d CONNECTs, want %d", err, asked.Load(), tt.sent)
			}
		})
	}
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

// reverseProxy returns a reverse proxy to the server at to.
func reverseProxy(t testing.TB, to string, by http.RoundTripper) *httputil.ReverseProxy {
	t.Helper()
	target := kit.Must[*url.URL](t)(url.Parse(to))
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: by,
		ErrorLog:  kit.Quiet,
	}
}

// fullDuplex makes a reverse proxy read a request body after it has written to
// the response. By default, the server closes the body then, and sometimes
// the proxy's transport drops the response because of that.
func fullDuplex(proxy http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			http.NewResponseController(w).EnableFullDuplex()
		}
		proxy.ServeHTTP(w, r)
	}
}

// serveProxied starts a service in memory, and a reverse proxy in front of it
// whose Transport has the AttemptTimeout.
func serveProxied(t *testing.T, protocol string, service http.HandlerFunc, timeout time.Duration) *httpfake.Server {
	t.Helper()
	backend := httpfake.Serve(t, protocol, service)
	backend.Base.ExpectContinueTimeout = 10 * time.Second
	tr := kit.Retrying(backend.Base)
	tr.AttemptTimeout = timeout
	proxy := httpfake.Serve(t, protocol, fullDuplex(reverseProxy(t, backend.URL, tr)))
	proxy.Base.ExpectContinueTimeout = 10 * time.Second
	return proxy
}

// A client sees the announced trailers before it has read the body, and all of
// them with their values afterwards. Bodies that are read ahead are no
// exception.
func TestReverseProxyTrailers(t *testing.T) {
	const text = `{"message": "with trailers"}`
	withTrailers := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Trailer", "X-Announced")
			w.WriteHeader(status)
			io.WriteString(w, text)
			w.Header().Set("X-Announced", "one")
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "two")
		}
	}
	services := map[int]http.HandlerFunc{200: failOnce(withTrailers(200)), 503: withTrailers(503)}
	for status, service := range services {
		for _, protocol := range []string{"HTTP/1.1", "h2c"} {
			t.Run(fmt.Sprint(status, " ", protocol), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					proxy := serveProxied(t, protocol, service, 0)
					resp := kit.Must[*http.Response](t)(proxy.Base.RoundTrip(proxy.Request(t, http.MethodGet, nil)))
					if _, ok := resp.Trailer["X-Announced"]; !ok || len(resp.Trailer) != 1 {
						t.Errorf("before the body: trailers %v, want only X-Announced", resp.Trailer)
					}
					if body := httpfake.ReadAll(t, resp); body != text || resp.StatusCode != status {
						t.Errorf("status %d with %q", resp.StatusCode, body)
					}
					if resp.Trailer.Get("X-Announced") != "one" || resp.Trailer.Get("X-Unannounced") != "two" {
						t.Errorf("after the body: trailers %v", resp.Trailer)
					}
				})
			})
		}
	}
}

// A WebSocket is opened by the second attempt. AttemptTimeout ends with the
// header of the 101, so it may last longer.
func TestWebSocket(t *testing.T) {
	service := func(t *testing.T) http.HandlerFunc {
		return failOnce(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			for err == nil {
				var message []byte
				if _, message, err = conn.Read(r.Context()); err == nil {
					err = conn.Write(r.Context(), websocket.MessageText, message)
				}
			}
		})
	}
	for name, start := range map[string]func(*testing.T) (http.RoundTripper, string){
		"Transport with AttemptTimeout": func(t *testing.T) (http.RoundTripper, string) {
			srv := httpfake.Serve(t, "HTTP/1.1", service(t))
			return withTimeout(srv.Base), srv.URL
		},
		"reverse proxy": func(t *testing.T) (http.RoundTripper, string) {
			srv := serveProxied(t, "HTTP/1.1", service(t), attemptTimeout)
			return srv.Base, srv.URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, url := start(t)
				conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{
					HTTPClient: &http.Client{Transport: client},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.CloseNow()
				for i := range 3 {
					sent := fmt.Sprint("message ", i)
					if err := conn.Write(t.Context(), websocket.MessageText, []byte(sent)); err != nil {
						t.Fatal(err)
					}
					if _, got, err := conn.Read(t.Context()); err != nil || string(got) != sent {
						t.Fatalf("%q came back as %q, %v", sent, got, err)
					}
					time.Sleep(attemptTimeout)
				}
				if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		})
	}
}
