package measure_test

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

// startServer starts a store on a free port of loopback and returns its
// address.
func startServer(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		path, err = exec.LookPath("redis-server")
	}
	if err != nil {
		t.Skip("SKIPPED: neither valkey-server nor redis-server is in PATH")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	listener.Close()
	server := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	for range 100 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return addr
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal(fmt.Sprint("no store at ", addr))
	return ""
}

func connect(t testing.TB, addr string) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(options(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func options(addr string) valkey.ClientOption {
	return valkey.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true}
}
