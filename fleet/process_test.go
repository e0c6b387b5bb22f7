package fleet_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"github.com/valkey-io/valkey-go"
)

// A storeProcess is a server that a test may stop, start and suspend.
type storeProcess struct {
	t    testing.TB
	addr string
	args []string
	cmd  *exec.Cmd // nil while it is stopped
}

// startStore starts redis-server on a free port of loopback.
func startStore(t testing.TB, args ...string) *storeProcess {
	t.Helper()
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		path, err = exec.LookPath("redis-server")
	}
	if err != nil {
		t.Skip("SKIPPED: neither valkey-server nor redis-server is in PATH")
	}
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	p := &storeProcess{t: t, addr: addr}
	if len(args) > 0 && args[len(args)-1] == "--sentinel" {
		p.args = append([]string{path}, append(args, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir())...)
	} else {
		p.args = append([]string{
			path, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no",
		}, args...)
	}
	p.start()
	t.Cleanup(p.stop)
	return p
}

// freeAddr returns a loopback address where nothing listens. The port is low
// enough for a cluster's second one.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 20000 + rand.N(20000)})
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func (p *storeProcess) start() {
	p.t.Helper()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for range 200 {
		if conn, err := net.Dial("tcp", p.addr); err == nil {
			conn.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatalf("no store at %s", p.addr)
}

func (p *storeProcess) stop() {
	if p.cmd != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *storeProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// do runs a command in the store, and returns what it returned as text.
func (p *storeProcess) do(command ...string) string {
	p.t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{p.addr}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	defer client.Close()
	reply, err := client.Do(p.t.Context(), client.B().Arbitrary(command...).Build()).ToAny()
	if err != nil {
		p.t.Fatalf("%q: %v", command, err)
	}
	return fmt.Sprint(reply)
}

// dial returns a Client of the store at addr.
func dial(t testing.TB, addr string) *fleet.Connection {
	c := fleet.Dial(valkey.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// A proxy is between processes and a store.
type proxy struct {
	upstream string
	listener net.Listener

	delay    atomic.Int64 // of each direction
	silent   atomic.Bool  // nothing passes
	cutAfter atomic.Int64 // connections end after at most so many bytes; 0 for never

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func startProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{upstream: upstream, listener: listener, conns: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

func (p *proxy) serve(down net.Conn) {
	up, err := net.Dial("tcp", p.upstream)
	if err != nil {
		down.Close()
		return
	}
	p.mu.Lock()
	p.conns[down], p.conns[up] = true, true
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(up, down) })
	wg.Go(func() { p.copy(down, up) })
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, down)
	delete(p.conns, up)
	p.mu.Unlock()
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	left := int64(-1)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if most := p.cutAfter.Load(); most > 0 && left < 0 {
			left = rand.N(most)
		}
		if left >= 0 && int64(n) > left {
			n, err = int(left), io.EOF
		}
		left = max(left-int64(n), min(left, 0))
		time.Sleep(time.Duration(p.delay.Load()))
		for p.silent.Load() && err == nil {
			time.Sleep(time.Millisecond)
			p.mu.Lock()
			known := p.conns[from]
			p.mu.Unlock()
			if !known {
				return
			}
		}
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}
