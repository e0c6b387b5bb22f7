package interop

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Bodies are sent over the HTTP/3 of quic-go to a server that goes away between
// two requests, or rejects one.
func TestHTTP3Faults(t *testing.T) {
	for _, tt := range []struct {
		name     string
		fault    func(*http3Server)
		attempts []int // that may be needed
	}{
		{"REQUEST_REJECTED", func(s *http3Server) { s.reject.Store(1) }, []int{1, 2}},
		{"restart", func(s *http3Server) { s.end(); s.begin() }, []int{1, 2}},
		{"vanish and restart", func(s *http3Server) { s.conn.deaf.Store(true); s.end(); s.begin() }, []int{2, 3}},
	} {
		for _, kind := range bodyKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				server, h3 := serveHTTP3(t, echo)
				tr := retrying(h3)
				if _, err := getText(t.Context(), &http.Client{Transport: tr}, server.url()); err != nil {
					t.Fatal(err)
				}
				tt.fault(server)

				attempts := 0
				ctx := awsretry.WithObserver(t.Context(), func(awsretry.Attempt) { attempts++ })
				req, body := kind.request(t, ctx, server.url())
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, err := io.ReadAll(resp.Body)
				var late *http3.Error
				if errors.As(err, &late) && late.ErrorCode == http3.ErrCodeRequestRejected && attempts == 1 {
					return // the server had sent the head of a response before it rejected the stream
				}
				if err != nil || !bytes.Equal(got, kind.content) || !slices.Contains(tt.attempts, attempts) {
					t.Errorf("%s: %d bytes came back of %d after %d attempts, %v",
						resp.Status, len(got), len(kind.content), attempts, err)
				}
				if req.GetBody == nil { // quic-go closes a body with GetBody twice
					wantClosedOnce(t, body)
				}
			})
		}
	}
}

// A server vanishes while a stream is sent to it. The attempts end with their
// time-outs.
func TestHTTP3Gone(t *testing.T) {
	var vanishing atomic.Pointer[deafConn]
	server, h3 := serveHTTP3(t, func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		vanishing.Load().deaf.Store(true)
	})
	vanishing.Store(server.conn)
	tr := retrying(h3)
	tr.AttemptTimeout = 200 * time.Millisecond
	body := httpfake.NewBody(openPipe(t))
	_, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodPut, server.url(), body))
	if !isTimeout(err) {
		t.Errorf("the error is %v, want a time-out", err)
	}
	wantClosedOnce(t, body)
}

// An http3Server can restart on its port, vanish from the network, and reject
// streams.
type http3Server struct {
	t       *testing.T
	service http.HandlerFunc
	config  *tls.Config
	addr    net.Addr
	reject  atomic.Int64 // how many streams to reject

	running sync.WaitGroup
	conn    *deafConn
	server  *http3.Server
}

// A deafConn loses everything in both directions when it is deaf.
type deafConn struct {
	net.PacketConn
	deaf atomic.Bool
}

func (c *deafConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(p)
		if err != nil || !c.deaf.Load() {
			return n, from, err
		}
	}
}

func (c *deafConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if c.deaf.Load() {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, to)
}

// certificate returns a certificate for example.com and loopback addresses, and
// a pool that trusts it.
var certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	return srv.TLS.Certificates[0], srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
})

// serveHTTP3 starts a server on loopback. It returns the server and a client.
// Both end with the test, which must leave no goroutine of awsretry.
func serveHTTP3(t *testing.T, service http.HandlerFunc) (*http3Server, *http3.Transport) {
	t.Helper()
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") // the buffer is the system's choice
	cert, roots := certificate()
	s := &http3Server{
		t:       t,
		service: service,
		config:  http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{cert}}),
		addr:    &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)},
	}
	s.begin()
	client := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		QUICConfig:      &quic.Config{MaxIdleTimeout: 500 * time.Millisecond},
	}
	t.Cleanup(func() {
		client.Close()
		s.end()
		wantNoGoroutines(t)
	})
	return s, client
}

func (s *http3Server) url() string { return "https://" + s.addr.String() + "/" }

// begin serves on the address. The first time, it takes a free port.
func (s *http3Server) begin() {
	packets, err := net.ListenPacket("udp", s.addr.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr, s.conn = packets.LocalAddr(), &deafConn{PacketConn: packets}
	s.server = &http3.Server{TLSConfig: s.config, Handler: s}
	server, conn := s.server, s.conn
	s.running.Go(func() { server.Serve(conn) })
}

func (s *http3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.reject.Add(-1) < 0 {
		s.service(w, r)
		return
	}
	const code = quic.StreamErrorCode(http3.ErrCodeRequestRejected)
	stream := w.(http3.HTTPStreamer).HTTPStream()
	stream.CancelRead(code)
	stream.CancelWrite(code)
}

// end closes the connections. The clients hear of it unless the server is deaf.
func (s *http3Server) end() {
	s.server.Close()
	s.running.Wait()
	s.conn.Close()
}
