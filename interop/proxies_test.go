package interop

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
	"github.com/coder/websocket"
)

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

// A WebSocket is opened by the second attempt, by its client or in a reverse
// proxy. AttemptTimeout ends with the header of the 101, so it may last longer.
func TestWebSocket(t *testing.T) {
	for _, proxied := range []bool{false, true} {
		t.Run(fmt.Sprint("proxied ", proxied), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := httpfake.Serve(t, "HTTP/1.1", failOnce(func(w http.ResponseWriter, r *http.Request) {
					conn := kit.Must[*websocket.Conn](t)(websocket.Accept(w, r, nil))
					defer conn.CloseNow()
					for {
						_, message, err := conn.Read(r.Context())
						if err != nil || conn.Write(r.Context(), websocket.MessageText, message) != nil {
							return
						}
					}
				}))
				url, rt := srv.URL, http.RoundTripper(withTimeout(srv.Base))
				if proxied {
					proxy := httpfake.Serve(t, "HTTP/1.1", fullDuplex(reverseProxy(t, srv.URL, rt)))
					url, rt = proxy.URL, proxy.Base
				}
				options := &websocket.DialOptions{HTTPClient: &http.Client{Transport: rt}}
				conn, _, err := websocket.Dial(t.Context(), url, options)
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
