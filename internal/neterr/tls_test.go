package neterr

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// A connection on which a record is damaged after the handshake has broken.
// That is transient, no matter which side finds out, and from which part of the
// record.
func TestDamagedRecord(t *testing.T) {
	const kind, version, length, content = 0, 1, 3, 5 // the parts of a record begin there
	for _, tt := range []struct {
		name    string
		request bool // the record has the request, and not the response
		offset  int64
	}{
		{"content of the response", false, content + 10},
		{"content of the request", true, content + 10},
		{"kind of the response", false, kind},
		{"kind of the request", true, kind},
		{"version of the response", false, version},
		{"length of the response", false, length},
		{"length of the request", true, length},
	} {
		for _, http2 := range []bool{false, true} {
			for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				t.Run(fmt.Sprintf("%s, HTTP/2 %v, %s", tt.name, http2, tls.VersionName(v)), func(t *testing.T) {
					var toDamage atomic.Int64
					var requests atomic.Int32
					config := &tls.Config{MinVersion: v, MaxVersion: v}
					srv := newTLSServer(t, http2, config, func(http.ResponseWriter, *http.Request) {
						if requests.Add(1) == 2 && !tt.request {
							toDamage.Store(tt.offset + 1)
						}
					})
					base := srv.Client().Transport.(*http.Transport)
					base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, network, address)
						return &damagedConn{conn, &toDamage, tt.request}, err
					}
					if err := post(t, srv); err != nil {
						t.Fatal(err)
					}
					if tt.request {
						toDamage.Store(tt.offset + 1)
					}
					err := post(t, srv)
					if got := kindOf(err); err == nil || got != transient || NeverSent(err) {
						t.Errorf("%T %v: %s, NeverSent %v", err, err, got, NeverSent(err))
					}
				})
			}
		}
	}
}

// In TLS 1.3 a server finds out after the client's handshake that a certificate
// is missing.
func TestClientCertificate(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(fmt.Sprintf("HTTP/2 %v, %s", http2, tls.VersionName(v)), func(t *testing.T) {
				config := &tls.Config{MinVersion: v, MaxVersion: v, ClientAuth: tls.RequireAnyClientCert}
				srv := newTLSServer(t, http2, config, func(http.ResponseWriter, *http.Request) {
					t.Error("a request came through")
				})
				err := post(t, srv)
				for range 100 { // some find only that the server has closed the connection
					if kindOf(err) == permanent {
						return
					}
					err = post(t, srv)
				}
				t.Errorf("%T %v: %s", err, err, kindOf(err))
			})
		}
	}
}

// newTLSServer returns a server on the loopback interface that does not log the
// handshakes that fail.
func newTLSServer(t *testing.T, http2 bool, config *tls.Config, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	httpfake.EmptyPools()
	srv := httptest.NewUnstartedServer(handle)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.EnableHTTP2, srv.TLS = http2, config
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// post sends a POST without a body.
func post(t *testing.T, srv *httptest.Server) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Transport.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// A damagedConn changes one byte of what is sent or received over it.
type damagedConn struct {
	net.Conn
	toDamage *atomic.Int64 // counts down; the byte with which it comes to 0 is damaged
	sending  bool
}

func (c *damagedConn) damage(p []byte) {
	before := c.toDamage.Load()
	if before <= 0 {
		return
	}
	if after := c.toDamage.Add(-int64(len(p))); after <= 0 {
		p[before-1] ^= 0x81
	}
}

func (c *damagedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.sending {
		c.damage(p[:n])
	}
	return n, err
}

func (c *damagedConn) Write(p []byte) (int, error) {
	if c.sending {
		p = append([]byte(nil), p...)
		c.damage(p)
	}
	return c.Conn.Write(p)
}
