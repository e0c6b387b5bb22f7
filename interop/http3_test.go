package interop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/kit"
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
		for _, kind := range []bodyKind{bodyKinds[2], fileOf(content)} {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				server, h3 := serveHTTP3(t, echo)
				tr := kit.Retrying(h3)
				if _, err := kit.Text((&http.Client{Transport: tr}).Get(server.url())); err != nil {
					t.Fatal(err)
				}
				tt.fault(server)

				attempts := 0
				ctx := awsretry.WithObserver(t.Context(), func(awsretry.Attempt) { attempts++ })
				req, body := kind.request(t, ctx, server.url())
				resp := kit.Must[*http.Response](t)(tr.RoundTrip(req))
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

// serveHTTP3 starts a server on loopback. It returns the server and a client.
// Both end with the test, which must leave no goroutine of awsretry.
func serveHTTP3(t *testing.T, service http.HandlerFunc) (*http3Server, *http3.Transport) {
	t.Helper()
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") // the buffer is the system's choice
	cert, roots := kit.Certificate()
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
		kit.WantNoGoroutines(t)
	})
	return s, client
}

func (s *http3Server) url() string { return "https://" + s.addr.String() + "/" }

// begin serves on the address. The first time, it takes a free port.
func (s *http3Server) begin() {
	packets := kit.Must[net.PacketConn](s.t)(net.ListenPacket("udp", s.addr.String()))
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
