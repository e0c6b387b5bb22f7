// Package storetest starts servers of Valkey or Redis for tests.
package storetest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

// A Server is a server process that a test may stop, restart and suspend.
type Server struct {
	Addr string // on loopback

	t    testing.TB
	args []string
	cmd  *exec.Cmd // nil while it is stopped
}

// Start starts valkey-server, or else redis-server, on a free port and in its own
// folder. It stops at the end of the test. If neither is installed, the test is
// skipped.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		path, err = exec.LookPath("redis-server")
	}
	if err != nil {
		t.Skip("SKIPPED: neither valkey-server nor redis-server is in PATH")
	}
	addr := FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	s := &Server{Addr: addr, t: t}
	if len(args) > 0 && args[len(args)-1] == "--sentinel" {
		s.args = append([]string{path}, append(args, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir())...)
	} else {
		s.args = append([]string{
			path, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no",
		}, args...)
	}
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// FreeAddr returns an unused loopback address, a different one in each call. Its
// port, and a cluster's second port, which is 10000 higher, are below those of
// outgoing connections, which could take it while the server is stopped.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := 10000 + int(firstPort+ports.Add(1))%10000
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

var (
	firstPort = rand.Int64N(12000)
	ports     atomic.Int64 // number of ports that were tried
)

// Restart starts the server after Stop.
func (s *Server) Restart() {
	s.t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for range 6000 {
		if conn, err := net.Dial("tcp", s.Addr); err == nil {
			conn.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("no store at %s", s.Addr)
}

// Stop kills the server.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have stopped by itself
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Signal sends a signal to the server.
func (s *Server) Signal(signal os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Do runs a command in the store, and returns the reply as text.
func (s *Server) Do(command ...string) string {
	s.t.Helper()
	reply, err := s.Try(command...)
	if err != nil {
		s.t.Fatalf("%q: %v", command, err)
	}
	return reply
}

// Try is Do for a server that may break off the connection.
func (s *Server) Try(command ...string) (string, error) {
	client, err := valkey.NewClient(Options(s.Addr))
	if err != nil {
		return "", err
	}
	defer client.Close()
	reply, err := client.Do(s.t.Context(), client.B().Arbitrary(command...).Build()).ToAny()
	return fmt.Sprint(reply), err
}

// Port returns the port of the server.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Connect returns a client of the server at addr. It is closed at the end of the
// test.
func Connect(t testing.TB, addr string) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(Options(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Options returns the options of Connect.
func Options(addr string) valkey.ClientOption {
	return valkey.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}
}
