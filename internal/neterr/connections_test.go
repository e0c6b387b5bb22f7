package neterr

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"example.com/awsretry/internal/httpfake"
)

func at(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A copy speaks the protocols of the original, however they were configured.
func TestProtocolsOfCopies(t *testing.T) {
	protocols := func(set ...func(*http.Protocols, bool)) *http.Protocols {
		p := new(http.Protocols)
		for _, s := range set {
			s(p, true)
		}
		return p
	}
	for _, tt := range []struct {
		name       string
		base       *http.Transport
		http2, h2c bool
	}{
		{"zero", &http.Transport{}, true, false},
		{"its own TLS settings", &http.Transport{TLSClientConfig: &tls.Config{}}, false, false},
		{"its own TLS settings, forced",
			&http.Transport{TLSClientConfig: &tls.Config{}, ForceAttemptHTTP2: true}, true, false},
		{"switched off",
			&http.Transport{TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}, false, false},
		{"HTTP/1 alone", &http.Transport{Protocols: protocols((*http.Protocols).SetHTTP1)}, false, false},
		{"both",
			&http.Transport{Protocols: protocols((*http.Protocols).SetHTTP1, (*http.Protocols).SetHTTP2)}, true, false},
		{"h2c", &http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2)}, false, true},
		{"h2c and HTTP/1",
			&http.Transport{Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2, (*http.Protocols).SetHTTP1)},
			false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewConnections(tt.base)
			single := c.Single(at(t, "https://h"))
			if c.http2 != tt.http2 || c.h2c != tt.h2c || NewConnections(single).http2 != tt.http2 {
				t.Errorf("HTTP/2 %v, of the copy %v, h2c %v", c.http2, NewConnections(single).http2, c.h2c)
			}
			if single == tt.base || single != c.Single(at(t, "https://h")) {
				t.Error("not one copy")
			}
			if tt.http2 != single.DisableKeepAlives {
				t.Errorf("DisableKeepAlives is %v", single.DisableKeepAlives)
			}
		})
	}
	if NewConnections(&http.Transport{MaxConnsPerHost: 1}) != nil {
		t.Error("copies of a transport with MaxConnsPerHost")
	}
}

// A host leaves a pool once for all that fail in it, keeps what it had over
// HTTP/1, and only so many hosts are remembered.
func TestAbandon(t *testing.T) {
	base := &http.Transport{}
	c := NewConnections(base)
	u := at(t, "https://host:1/path")
	if c.For(u) != base || !c.Abandon(u, base) {
		t.Fatal("not abandoned")
	}
	detour := c.For(at(t, "https://HOST:1/other"))
	if detour == base || c.For(at(t, "https://host:2/")) != base || c.For(at(t, "http://host:1/")) != base {
		t.Error("the detour is not that of the host alone")
	}
	if !c.Abandon(u, base) || c.For(u) != detour {
		t.Error("a second failure in the same pool leads elsewhere")
	}
	if c.Abandon(u, c.Single(u)) || c.For(u) != detour {
		t.Error("a failure outside the pool leads elsewhere")
	}
	if !c.Abandon(u, detour) || c.For(u) == detour || c.For(u) == base {
		t.Error("the detour is not left")
	}
	c.Saw(&http.Request{URL: u}, 2)
	if c.For(u) == base {
		t.Error("HTTP/2 leads back")
	}
	c.Saw(&http.Request{URL: u, Header: http.Header{"Upgrade": {"websocket"}}}, 1)
	if c.For(u) == base {
		t.Error("an upgrade leads back")
	}
	c.Saw(&http.Request{URL: u}, 1)
	if c.For(u) != base || c.Abandon(u, base) || c.For(u) != base {
		t.Error("HTTP/1 has a detour")
	}
	if c.Abandon(at(t, "http://host/"), base) || c.Abandon(at(t, "file:///x"), base) {
		t.Error("what has no HTTP/2 has a detour")
	}
	for i := range maxHosts + 10 {
		c.Abandon(at(t, fmt.Sprintf("https://h%d", i)), base)
	}
	if n := len(*c.detours.Load()); n > maxHosts {
		t.Errorf("%d hosts are remembered", n)
	}
	c.CloseIdleConnections()
}

// TestForCostsNoAllocation: every request asks, once any host has a detour.
func TestForCostsNoAllocation(t *testing.T) {
	c := NewConnections(&http.Transport{})
	u := &url.URL{Scheme: "https", Host: "dynamodb.eu-central-1.amazonaws.com"}
	if !c.Abandon(u, c.For(u)) {
		t.Fatal("not abandoned")
	}
	if n := testing.AllocsPerRun(100, func() { c.For(u) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// CloseIdleConnections reaches the copies too that were replaced, or forgotten,
// while they had a connection in use.
func TestCloseIdleConnectionsReachesEveryCopy(t *testing.T) {
	for name, replace := range map[string]func(c *Connections, u *url.URL){
		"forgotten": func(c *Connections, _ *url.URL) {
			for i := range maxHosts {
				other := &url.URL{Scheme: "http", Host: fmt.Sprint("host", i)}
				c.Abandon(other, c.For(other))
			}
		},
		"replaced": func(c *Connections, u *url.URL) {
			for range 3 {
				c.Abandon(u, c.For(u))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan bool)
				conns, base := serveHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
					http.NewResponseController(w).Flush()
					<-end
				})
				c := NewConnections(base)
				u := at(t, "http://service.example")
				c.Abandon(u, c.For(u))
				resp, err := c.For(u).RoundTrip(&http.Request{URL: u, Header: http.Header{}})
				if err != nil || resp.ProtoMajor != 2 {
					t.Fatal(resp, err)
				}
				replace(c, u)
				close(end)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				synctest.Wait()
				if n := conns.Load(); n != 1 {
					t.Fatalf("%d connections are open before", n)
				}
				c.CloseIdleConnections()
				synctest.Wait()
				if n := conns.Load(); n != 0 {
					t.Errorf("%d connections are open", n)
				}
			})
		})
	}
}

// serveHTTP2 serves HTTP/2 over pipes. It returns the number of open
// connections, and a transport that dials them.
func serveHTTP2(t *testing.T, handle http.HandlerFunc) (conns *atomic.Int32, base *http.Transport) {
	httpfake.EmptyPools()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	conns, pipes := new(atomic.Int32), make(pipeListener)
	srv := &http.Server{Handler: handle, Protocols: protocols, ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Add(-1)
		}
	}}
	go srv.Serve(pipes)
	t.Cleanup(func() { srv.Close() })
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		pipes <- server
		return client, nil
	}
	return conns, &http.Transport{Protocols: protocols, DialContext: dial}
}

// A pipeListener accepts the connections that are sent to it.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error { close(l); return nil }

func (pipeListener) Addr() net.Addr { return &net.UnixAddr{} }
