package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy is between the processes and their store. It delays what passes, and
// refuses connections while it is closed.
type proxy struct {
	addr, upstream string
	delay          atomic.Int64 // of each direction

	mu       sync.Mutex
	listener net.Listener // nil while it is closed
	conns    map[net.Conn]bool
}

func startProxy(upstream string) (*proxy, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &proxy{addr: addr, upstream: upstream, conns: make(map[net.Conn]bool)}
	return p, p.open()
}

// open listens, at the same address each time.
func (p *proxy) open() error {
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return nil
}

func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for conn := range p.conns {
		conn.Close()
	}
}

func (p *proxy) serve(down net.Conn) {
	defer down.Close()
	up, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	defer up.Close()
	p.mu.Lock()
	p.conns[down], p.conns[up] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(up, down) })
	both.Go(func() { p.copy(down, up) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, down)
	delete(p.conns, up)
	p.mu.Unlock()
}

// copy copies until one end closes. What is read while the delay of an earlier
// part lasts is not delayed for longer.
func (p *proxy) copy(to, from net.Conn) {
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 64)
	go func() {
		defer close(parts)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			parts <- part{time.Now().Add(time.Duration(p.delay.Load())), buffer[:n]}
		}
	}()
	failed := false
	for x := range parts {
		time.Sleep(time.Until(x.due))
		if _, err := to.Write(x.data); err != nil && !failed {
			failed = true
			from.Close() // ends the reading
		}
	}
	to.Close()
}
