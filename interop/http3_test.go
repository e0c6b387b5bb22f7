package interop

import (
	"bytes"
	"context"
	"crypto/tls"
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
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// An http3Server can be restarted on its port, can vanish from the network, and can reject streams.
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

// A deafConn neither hears nor says anything once it is deaf.
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

// startHTTP3 returns a running server, and a client's transport that trusts it.
func startHTTP3(t *testing.T, service http.Handler) (*http3Server, *http3.Transport) {
	os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")                // it logs what the system allows
	certified := start(t, http.NotFoundHandler(), (*httptest.Server).StartTLS) // for its certificate
	s := &http3Server{
		t:       t,
		service: service,
		config:  http3.ConfigureTLSConfig(&tls.Config{Certificates: certified.TLS.Certificates}),
		addr:    &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)},
	}
	s.begin()
	client := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusting(t, certified).TLSClientConfig.RootCAs},
		QUICConfig:      &quic.Config{MaxIdleTimeout: 500 * time.Millisecond},
	}
	t.Cleanup(func() {
		client.Close()
		s.end()
	})
	return s, client
}

func (s *http3Server) url() string { return "https://" + s.addr.String() + "/" }

// begin serves on the address, the first time on a port that is free.
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

// end tells the clients that it closes their connections, unless it is deaf.
func (s *http3Server) end() {
	s.stop()
	s.running.Wait()
	s.conn.Close()
}

// TestHTTP3Faults sends bodies over quic-go's HTTP/3 to a server that goes away in some way, with and without a request under way.
func TestHTTP3Faults(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    func(*http3Server)
		attempts []int // that may be needed
	}{
		{"REQUEST_REJECTED", func(s *http3Server) { s.reject.Store(1) }, []int{1, 2}},
		{"restart", func(s *http3Server) { s.end(); s.begin() }, []int{1, 2}},
		{"vanishes, and another comes", func(s *http3Server) { s.conn.deaf.Store(true); s.end(); s.begin() }, []int{2, 3}},
	} {
		for _, kind := range bodyKinds {
			t.Run(c.name+", "+kind.name, func(t *testing.T) {
				server, h3 := startHTTP3(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						w.WriteHeader(http.StatusUnprocessableEntity)
					}
					w.Write(body)
				}))
				transport := retrying(h3)
				if _, err := getText(context.Background(), &http.Client{Transport: transport}, server.url()); err != nil {
					t.Fatal(err)
				}
				c.fault(server)

				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.url(), kind.open(t))
				if err != nil {
					t.Fatal(err)
				}
				var closes atomic.Int32
				if req.Body != nil {
					kind.finish(req, &closes)
				}
				attempts := 0
				req = req.WithContext(awsretry.WithObserver(ctx, func(awsretry.Attempt) { attempts++ }))
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, kind.content) || !slices.Contains(c.attempts, attempts) {
					t.Errorf("%s: %d bytes came back of %d after %d attempts, %v", resp.Status, len(body), len(kind.content), attempts, err)
				}
				// quic-go itself closes a body twice: one with GetBody, which it has from the caller.
				if req.Body != nil && req.GetBody == nil && (!eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1) {
					t.Errorf("the caller's body was closed %d times", closes.Load())
				}
			})
		}
	}
	if left := goroutinesOf("example.com/awsretry."); left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
}

// TestHTTP3Gone has a server vanish for good while a stream is sent to it. The attempts end with their time-outs.
func TestHTTP3Gone(t *testing.T) {
	var server *http3Server
	server, h3 := startHTTP3(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		server.conn.deaf.Store(true)
	}))
	transport := retrying(h3)
	transport.AttemptTimeout = 200 * time.Millisecond
	var closes atomic.Int32
	req, err := http.NewRequest(http.MethodPut, server.url(), &closeCounter{io.NopCloser(openPipe(t)), &closes})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = transport.RoundTrip(req)
	if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() || time.Since(began) > 3*time.Second {
		t.Errorf("the error is %v after %v", err, time.Since(began))
	}
	if !eventually(func() bool { return closes.Load() > 0 }) || closes.Load() != 1 {
		t.Errorf("the caller's body was closed %d times", closes.Load())
	}
	if left := goroutinesOf("example.com/awsretry."); left != "" {
		t.Errorf("goroutines left behind:\n%s", left)
	}
}
