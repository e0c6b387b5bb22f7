package interop

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/httpfake"
	"golang.org/x/net/http2"
)

// A protocol is what a client and a server in memory speak.
type protocol struct {
	name  string
	major int    // of HTTP
	speak string // the protocol of httpfake.Serve
	xnet  bool   // the client has the HTTP/2 of golang.org/x/net
}

var protocols = []protocol{
	{name: "HTTP/1.1", major: 1, speak: "HTTP/1.1"},
	{name: "HTTP/2", major: 2, speak: "HTTP/2"},
	{name: "HTTP/2 without TLS", major: 2, speak: "h2c"},
	{name: "HTTP/2 of golang.org/x/net", major: 2, speak: "HTTP/2", xnet: true},
}

func (p protocol) serve(t *testing.T, handle http.HandlerFunc) *httpfake.Server {
	t.Helper()
	srv := httpfake.Serve(t, p.speak, handle)
	if p.xnet {
		pool := &http.Transport{DialContext: srv.Base.DialContext, TLSClientConfig: srv.Base.TLSClientConfig.Clone()}
		if _, err := http2.ConfigureTransports(pool); err != nil {
			t.Fatal(err)
		}
		srv.Base = pool
	}
	return srv
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// A connCounter counts the connections of a client.
type connCounter struct{ opened, open atomic.Int64 }

// dialing returns a dialFunc whose connections are counted.
func (c *connCounter) dialing(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.opened.Add(1)
		c.open.Add(1)
		return &countedConn{Conn: conn, counter: c}, nil
	}
}

type countedConn struct {
	net.Conn
	counter *connCounter
	closed  atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.counter.open.Add(-1)
	}
	return c.Conn.Close()
}
