package interop

import (
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A relay passes connections on to a server. It can break them, or go on to accept their bytes and pass nothing on, as a
// network does that drops packets.
type relay struct {
	listener net.Listener
	scheme   string
	server   string
	passing  sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []*relayedConn
}

// A relayedConn is a client's connection and its continuation to the server.
type relayedConn struct {
	client, server *net.TCPConn
	dropping       atomic.Bool
	left           atomic.Bool // the client has closed it
}

func startRelay(t testing.TB, server *httptest.Server) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scheme, address, _ := strings.Cut(server.URL, "://")
	r := &relay{listener: listener, scheme: scheme, server: address}
	r.passing.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			r.accept(t, client)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		r.cut()
		r.passing.Wait()
	})
	return r
}

func (r *relay) url() string { return r.scheme + "://" + r.listener.Addr().String() + "/" }

func (r *relay) accept(t testing.TB, client net.Conn) {
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		t.Error(err)
		client.Close()
		return
	}
	c := &relayedConn{client: client.(*net.TCPConn), server: server.(*net.TCPConn)}
	r.mu.Lock()
	r.conns = append(r.conns, c)
	r.mu.Unlock()
	r.passing.Go(func() {
		c.pass(c.server, c.client)
		c.left.Store(true)
	})
	r.passing.Go(func() { c.pass(c.client, c.server) })
}

// pass copies until from ends. Of a connection that is dropped the end is not passed on either.
func (c *relayedConn) pass(to, from *net.TCPConn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if !c.dropping.Load() {
			to.Write(buf[:n])
			if err != nil {
				to.CloseWrite()
			}
		}
		if err != nil {
			return
		}
	}
}

// drop makes the connections that there are dead. New ones are not.
func (r *relay) drop() {
	for _, c := range r.all() {
		c.dropping.Store(true)
	}
}

// cut resets all connections.
func (r *relay) cut() {
	for _, c := range r.all() {
		for _, conn := range []*net.TCPConn{c.client, c.server} {
			conn.SetLinger(0)
			conn.Close()
		}
	}
}

func (r *relay) all() []*relayedConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns[:len(r.conns):len(r.conns)]
}

// open is how many connections the client has not closed.
func (r *relay) open() (n int) {
	for _, c := range r.all() {
		if !c.left.Load() {
			n++
		}
	}
	return n
}
