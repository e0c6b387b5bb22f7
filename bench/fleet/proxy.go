package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A proxy is between the processes and their store. It delays or holds what
// passes, and refuses connections while it is closed.
type proxy struct {
	addr, upstream string       // upstream is a Unix socket
	delay          atomic.Int64 // of each direction
	held           sync.RWMutex // locked while nothing passes

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn // since it was opened
}

func startProxy(upstream string) (*proxy, error) {
	p := &proxy{upstream: upstream}
	var err error
	for range 100 {
		// The system gives these ports to no outgoing connection, also while the
		// proxy is closed.
		p.addr = fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		if err = p.open(); err == nil {
			return p, nil
		}
	}
	return nil, err
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
	p.listener.Close()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func (p *proxy) serve(down net.Conn) {
	defer down.Close()
	up, err := net.Dial("unix", p.upstream)
	if err != nil {
		return
	}
	defer up.Close()
	p.mu.Lock()
	p.conns = append(p.conns, down, up)
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.copy(up, down) })
	both.Go(func() { p.copy(down, up) })
	both.Wait()
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
	for x := range parts {
		time.Sleep(time.Until(x.due))
		p.held.RLock()
		_, err := to.Write(x.data)
		p.held.RUnlock()
		if err != nil {
			from.Close() // ends the reading
		}
	}
	to.Close()
}
