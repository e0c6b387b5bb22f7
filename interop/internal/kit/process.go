package kit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// A Process is a server outside this one. It ends with its test, or with its
// standard input if the tests are killed.
type Process struct {
	Cmd    *exec.Cmd
	Stdin  io.WriteCloser
	lines  chan string      // of its standard output
	errors *httpfake.Buffer // what it writes to its standard error
	ended  chan struct{}    // closed when the process has ended
}

// Start starts cmd. A test that fails logs what the process has written.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, lines: make(chan string, 16), errors: new(httpfake.Buffer), ended: make(chan struct{})}
	p.Stdin = Must[io.WriteCloser](t)(cmd.StdinPipe())
	stdout, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, p.errors
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // its status is of no interest: end kills it
		w.Close()
	}()
	go func() {
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			select {
			case p.lines <- scanner.Text():
			default: // nobody reads them
			}
		}
	}()
	t.Cleanup(func() {
		p.end()
		if text := p.errors.String(); t.Failed() && text != "" {
			t.Logf("%s: %.2000s", cmd.Path, text)
		}
	})
	return p
}

// Line returns the next line of the process's standard output.
func (p *Process) Line(t testing.TB) string {
	t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-p.ended:
		t.Fatalf("%s has ended: %s", p.Cmd.Path, p.errors)
	case <-time.After(time.Minute):
		t.Fatalf("%s writes nothing: %s", p.Cmd.Path, p.errors)
	}
	return ""
}

// end stops the process. It kills it if a signal does not end it.
func (p *Process) end() {
	p.Stdin.Close()
	_ = p.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.AfterFunc(3*time.Second, func() { _ = p.Cmd.Process.Kill() })
	defer timer.Stop()
	<-p.ended
}

// listens waits until the process accepts connections or ends, and reports
// whether it does.
func (p *Process) listens(addr string) (connected bool) {
	Eventually(func() bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		connected = err == nil
		return connected
	})
	return connected
}

// startOnPort starts a process that listens on a free port of the loopback
// interface. Another process may take the port before that, so it tries three
// ports.
func startOnPort(t testing.TB, command func(addr string) *exec.Cmd) (addr string, p *Process) {
	t.Helper()
	for try := 1; ; try++ {
		l := Must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
		addr = l.Addr().String()
		l.Close()
		if p = Start(t, command(addr)); p.listens(addr) {
			return addr, p
		}
		p.end()
		if try == 3 {
			t.Fatalf("%s does not listen: %.2000s", p.Cmd.Path, p.errors)
		}
	}
}

// lookUp returns the path of a tool.
func lookUp(t testing.TB, tool, origin string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		cannotRun(t, fmt.Sprintf("%s is not in PATH: install it (%s)", tool, origin))
	}
	return path
}

// cannotRun skips the test because a tool is missing. In CI every tool must be
// there, so the test fails.
func cannotRun(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true, and %s", why)
	}
	t.Skip(why)
}
