package deliveryqueue

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A slowProxy forwards connections, and delays what it reads.
type slowProxy struct {
	net.Listener
	to    string
	delay atomic.Int64 // a time.Duration
	conns sync.WaitGroup
}

func newSlowProxy(t *testing.T, to string) *slowProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &slowProxy{Listener: l, to: to}
	p.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.delay.Store(0)
		p.conns.Wait()
	})
	return p
}

func (p *slowProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	copied := make(chan struct{}, 2)
	forward := func(to, from net.Conn) {
		defer func() { copied <- struct{}{} }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			for begin := time.Now(); time.Since(begin) < time.Duration(p.delay.Load()); {
				time.Sleep(5 * time.Millisecond)
			}
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil || err != nil {
				return
			}
		}
	}
	go forward(server, client)
	go forward(client, server)
	<-copied
	client.Close()
	server.Close()
	<-copied
}

// A slow store delays deliveries, and repeats none. One that hangs keeps
// Enqueue no longer than its context.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	store := newPostgres(t)
	at, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	p := newSlowProxy(t, at.Host)
	at.Host = p.Addr().String()
	end := newEndpoint(t, 503, 200)
	q := open(t, at.String(), Config{})
	const n = 10
	for range n {
		enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
			"numRetries": 1, "numNoDelayRetries": 1}}`)})
	}
	p.delay.Store(int64(50 * time.Millisecond))
	stop := start(t, q)
	waitFor(t, q, Stats{Delivered: n})
	if requests := len(end.requests()); requests != n+1 {
		t.Errorf("%d requests", requests)
	}
	stop()

	p.delay.Store(int64(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := q.Enqueue(ctx, post(t, end.URL, "hello"), Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enqueue: %v", err)
	}
	p.delay.Store(0)
}
