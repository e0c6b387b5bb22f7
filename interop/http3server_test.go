package interop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// An http3Server can restart on its port, vanish from the network, and reject
// streams.
type http3Server struct {
	t       *testing.T
	service http.Handler
	config  *tls.Config
	addr    net.Addr
	reject  atomic.Int64 // how many streams to reject

	running sync.WaitGroup
	conn    *deafConn
	stop    func()
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
func certificate() (tls.Certificate, *x509.CertPool) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	return srv.TLS.Certificates[0], srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

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
	listener, err := quic.Listen(s.conn, s.config, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http3.Server{Handler: s.service}
	ctx, cancel := context.WithCancel(context.Background())
	s.running.Go(func() {
		for {
			conn, err := listener.Accept(ctx)
			if err != nil {
				return
			}
			s.running.Go(func() { s.serve(ctx, server, conn) })
		}
	})
	s.stop = func() {
		cancel()
		listener.Close()
		server.Close()
	}
}

func (s *http3Server) serve(ctx context.Context, server *http3.Server, conn *quic.Conn) {
	h3, err := server.NewRawServerConn(conn)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.running.Go(func() {
		for {
			stream, err := conn.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			s.running.Go(func() { h3.HandleUnidirectionalStream(stream) })
		}
	})
	for {
		stream, err := conn.AcceptStream(ctx)
		if err != nil {
			conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
			return
		}
		if s.reject.Add(-1) >= 0 {
			stream.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			stream.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestRejected))
			continue
		}
		s.running.Go(func() { h3.HandleRequestStream(stream) })
	}
}

// end closes the connections. The clients hear of it unless the server is deaf.
func (s *http3Server) end() {
	s.stop()
	s.running.Wait()
	s.conn.Close()
}
