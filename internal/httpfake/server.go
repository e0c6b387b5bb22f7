package httpfake

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

// Protocols are what Serve speaks. It also speaks "h2c", HTTP/2 without TLS.
var Protocols = []string{"HTTP/1.1", "HTTP/1.1 over TLS", "HTTP/2"}

// A Server is an HTTP server that a test talks to.
type Server struct {
	URL    string
	Base   *http.Transport // reaches the server
	Closed <-chan string   // the remote address of each connection that the server has closed

	network *network // nil for ServeTCP
}

// Serve starts a server that is reached over connections in memory. Inside a
// synctest bubble no time passes while it works, and the bubble reports each
// goroutine that a test leaves. The server ends with the test.
func Serve(t *testing.T, protocol string, handle http.HandlerFunc) *Server {
	t.Helper()
	n := newNetwork()
	s, srv := start(protocol, handle, n)
	s.network, s.Base.DialContext = n, n.dial
	t.Cleanup(func() {
		s.Base.CloseIdleConnections()
		n.cut()
		srv.Close()
	})
	return s
}

// ServeTCP starts a server on the loopback interface. The server ends with the
// test, which must leave no goroutine.
func ServeTCP(t *testing.T, protocol string, handle http.HandlerFunc) *Server {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, srv := start(protocol, handle, l)
	t.Cleanup(func() {
		s.Base.CloseIdleConnections()
		srv.Close()
		wantGoroutines(t, before)
	})
	return s
}

// wantGoroutines fails if more than want goroutines are left after a while.
func wantGoroutines(t *testing.T, want int) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range 5000 {
		if runtime.NumGoroutine() <= want {
			return
		}
		<-ticker.C
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines are left, want %d:\n%s", runtime.NumGoroutine(), want, stacks[:runtime.Stack(stacks, true)])
}

func start(protocol string, handle http.HandlerFunc, l net.Listener) (*Server, *httptest.Server) {
	EmptyPools()
	closed := make(chan string, 1000)
	srv := &httptest.Server{Listener: l, Config: &http.Server{
		Handler:  handle,
		ErrorLog: log.New(io.Discard, "", 0), // for handlers that panic on purpose
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				select {
				case closed <- c.RemoteAddr().String():
				default:
				}
			}
		},
	}}
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	switch protocol {
	case "HTTP/1.1":
		srv.Start()
	case "h2c":
		srv.Config.Protocols = h2c
		srv.Start()
	default:
		srv.EnableHTTP2 = protocol == "HTTP/2"
		srv.StartTLS()
	}
	s := &Server{URL: srv.URL, Base: srv.Client().Transport.(*http.Transport), Closed: closed}
	if protocol == "h2c" {
		s.Base.Protocols = h2c
	}
	return s, srv
}

// Request returns a request to the server.
func (s *Server) Request(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/path", body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Freeze makes the open connections lose everything that is sent over them, as
// if a firewall had forgotten them. New connections work. The server must come
// from Serve.
func (s *Server) Freeze() { s.network.freeze() }

// Cut closes the open connections. The server must come from Serve.
func (s *Server) Cut() { s.network.cut() }
