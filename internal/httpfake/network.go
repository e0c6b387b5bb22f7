package httpfake

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// A network connects clients to one server. Each connection is a pair of pipes
// with a goroutine that copies in each direction, so that the network can lose
// what is sent. There are no real sockets, so a synctest bubble sees when all
// connections are idle.
type network struct {
	accepted chan net.Conn
	done     chan struct{} // closed by Close
	close    func()

	mu     sync.Mutex
	dialed int
	frozen []chan struct{} // one for each connection, closed by freeze
	conns  []net.Conn
}

func newNetwork() *network {
	done := make(chan struct{})
	return &network{
		accepted: make(chan net.Conn),
		done:     done,
		close:    sync.OnceFunc(func() { close(done) }),
	}
}

// dial has the signature of http.Transport.DialContext.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, fromClient := net.Pipe()
	toServer, server := net.Pipe()
	frozen := make(chan struct{})
	n.mu.Lock()
	n.frozen = append(n.frozen, frozen)
	n.conns = append(n.conns, client, server)
	n.dialed++
	remote := address(fmt.Sprintf("client:%d", n.dialed))
	n.mu.Unlock()
	go forward(toServer, fromClient, frozen)
	go forward(fromClient, toServer, frozen)
	select {
	case n.accepted <- conn{server, remote}:
		return client, nil
	case <-n.done:
	case <-ctx.Done():
	}
	client.Close()
	server.Close()
	return nil, &net.OpError{Op: "dial", Net: "fake", Err: net.ErrClosed}
}

// forward copies from one connection to another until one of them is closed.
// After frozen is closed, it loses everything, the close included.
func forward(to, from net.Conn, frozen <-chan struct{}) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

// freeze makes the connections lose everything from now on.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.frozen {
		close(c)
	}
	n.frozen = nil
}

// cut closes the connections.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		c.Close()
	}
}

// Accept, Close and Addr make a network a net.Listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error { n.close(); return nil }

// Addr returns an address that the certificate of httptest covers. Nothing
// listens there.
func (n *network) Addr() net.Addr { return address("127.0.0.1:1") }

// A conn is the server's end of a connection. Each has a remote address of its
// own.
type conn struct {
	net.Conn
	remote address
}

func (c conn) RemoteAddr() net.Addr { return c.remote }

type address string

func (address) Network() string  { return "fake" }
func (a address) String() string { return string(a) }
