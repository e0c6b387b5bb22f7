package interop

import (
	"net"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A daemon is a server that runs until it gets a signal.
type daemon struct {
	cmd    *exec.Cmd
	output *childOutput  // what it writes to its standard output and error
	ended  chan struct{} // closed when the process has ended
}

// startDaemon starts cmd. The process ends with the test, which logs its output
// if it failed.
func startDaemon(t testing.TB, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{cmd: cmd, output: new(childOutput), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = d.output, d.output
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(d.ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		d.end()
		if output := d.output.String(); t.Failed() && output != "" {
			t.Logf("%s: %.2000s", cmd.Path, output)
		}
	})
	return d
}

// end stops the daemon. It kills the process if a signal does not end it.
func (d *daemon) end() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(3*time.Second, func() { d.cmd.Process.Kill() })
	defer timer.Stop()
	<-d.ended
}

// listens waits until the daemon accepts connections, and reports whether it
// does.
func (d *daemon) listens(dial func() (net.Conn, error)) bool {
	connected := false
	eventually(func() bool {
		select {
		case <-d.ended:
			return true
		default:
		}
		conn, err := dial()
		if err == nil {
			conn.Close()
			connected = true
		}
		return connected
	})
	return connected
}

// startOnPort starts a daemon that listens on a free port of the loopback
// interface. Another process may take the port before the daemon does, so it
// tries three ports.
func startOnPort(t testing.TB, command func(addr string) *exec.Cmd) (addr string) {
	t.Helper()
	for try := 1; ; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = l.Addr().String()
		l.Close()
		d := startDaemon(t, command(addr))
		if d.listens(func() (net.Conn, error) { return net.Dial("tcp", addr) }) {
			return addr
		}
		d.end()
		if try == 3 {
			t.Fatalf("%s does not listen: %.2000s", d.cmd.Path, d.output)
		}
	}
}
