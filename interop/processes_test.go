package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A childProcess is a server that ends when its standard input does.
type childProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of its standard output
	stderr *childOutput
}

// A childOutput is what a child has written so far.
type childOutput struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *childOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *childOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startChild starts cmd. The process ends with the test.
func startChild(t testing.TB, cmd *exec.Cmd) *childProcess {
	t.Helper()
	p := &childProcess{cmd: cmd, lines: make(chan string, 16), stderr: new(childOutput)}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(p.end)
	return p
}

// line returns the next line of the child's standard output.
func (p *childProcess) line(wait time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", errors.New("the process has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// end closes the child's standard input. It kills the child if that does not
// end it.
func (p *childProcess) end() {
	p.stdin.Close()
	timer := time.AfterFunc(3*time.Second, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	for range p.lines { // Wait closes the pipe
	}
	p.cmd.Wait()
}

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

// cannotRun skips the test because a tool is missing. In CI every tool must be
// there, so the test fails.
func cannotRun(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI=true, and %s", why)
	}
	t.Skip(why)
}

// nodePackages installs what package-lock.json names, unless it is there. It
// returns why the packages cannot be used, or "".
var nodePackages = sync.OnceValue(func() (missing string) {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not in PATH: install Node.js 18 or newer with npm (https://nodejs.org, or apt-get install nodejs npm)"
	}
	for _, name := range []string{"dynalite", "s3rver"} {
		if _, err := os.Stat(filepath.Join("node_modules", name, "package.json")); err == nil {
			continue
		}
		if _, err := exec.LookPath("npm"); err != nil {
			return "npm is not in PATH: install it (it comes with Node.js), then run npm ci in interop/"
		}
		if out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
			out = bytes.TrimSpace(out)
			last := out[bytes.LastIndexByte(out, '\n')+1:]
			return fmt.Sprintf("npm ci in interop/ failed (%v: %s): run it where a registry can be reached", err, last)
		}
		break
	}
	return ""
})

// startNode runs a script that prints the port on which it listens. It returns
// the host with the port. The script ends with the test.
func startNode(t testing.TB, script string, args ...string) (addr string) {
	t.Helper()
	if missing := nodePackages(); missing != "" {
		cannotRun(t, missing)
	}
	const untilStdinEnds = `process.stdin.on('end', () => process.exit()).resume();`
	p := startChild(t, exec.Command("node", append([]string{"-e", untilStdinEnds + script, "--"}, args...)...))
	port, err := p.line(time.Minute)
	if err != nil {
		t.Fatalf("the server did not start: %v\n%s", err, p.stderr)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// startDynalite starts a DynamoDB server in memory.
func startDynalite(t testing.TB) (addr string) {
	t.Helper()
	return startNode(t, `
		const server = require('dynalite')({createTableMs: 0, deleteTableMs: 0, updateTableMs: 0});
		server.listen(0, '127.0.0.1', () => console.log(server.address().port));`)
}

// startS3rver starts an S3 server that has s3Bucket.
func startS3rver(t testing.TB) (addr string) {
	t.Helper()
	return startNode(t, `
		const S3rver = require('s3rver');
		new S3rver({address: '127.0.0.1', port: 0, silent: true, directory: process.argv[1],
			allowMismatchedSignatures: true, configureBuckets: [{name: process.argv[2]}]}).
			run().then(({port}) => console.log(port));`, t.TempDir(), s3Bucket)
}

// childEnv turns the test binary into a toxiproxy. In a process of its own, it
// can be ended at any time, and its goroutines are not counted with ours.
const childEnv = "AWSRETRY_INTEROP_CHILD"

// A toxicOrder is one line from the tests to the toxiproxy.
type toxicOrder struct {
	Upstream string            // make a proxy for it, with the toxics
	Toxics   []json.RawMessage // in toxiproxy's own form
	Stop     string            // or end the proxy that listens there, with its connections
}

type toxicReply struct{ Listen, Err string }

// serveToxiproxy obeys orders until the tests close its standard input.
func serveToxiproxy(orders io.Reader, replies io.Writer) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxies := make(map[string]*toxiproxy.Proxy)
	in, out := json.NewDecoder(orders), json.NewEncoder(replies)
	for {
		var o toxicOrder
		if in.Decode(&o) != nil {
			return
		}
		var reply toxicReply
		if o.Stop != "" {
			if p := proxies[o.Stop]; p != nil {
				p.Stop()
				delete(proxies, o.Stop)
			}
		} else {
			p := toxiproxy.NewProxy(server, o.Upstream, "127.0.0.1:0", o.Upstream)
			for _, toxic := range o.Toxics {
				if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(toxic))); err != nil {
					reply.Err = fmt.Sprintf("toxic %s: %v", toxic, err)
				}
			}
			if err := p.Start(); err != nil {
				reply.Err = err.Error()
			}
			reply.Listen = p.Listen
			proxies[p.Listen] = p
		}
		if out.Encode(reply) != nil {
			return
		}
	}
}

// A toxicServer is a toxiproxy in a process of its own.
type toxicServer struct {
	t       testing.TB
	mu      sync.Mutex // serializes the orders
	process *childProcess
}

func startToxiproxy(t testing.TB) *toxicServer {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=toxiproxy", "GORACE=atexit_sleep_ms=0")
	return &toxicServer{t: t, process: startChild(t, cmd)}
}

// proxy starts a proxy to upstream, a host with its port, and returns where it
// listens. Each toxic is in toxiproxy's form.
func (s *toxicServer) proxy(upstream string, toxics ...string) string {
	s.t.Helper()
	order := toxicOrder{Upstream: upstream}
	for _, toxic := range toxics {
		order.Toxics = append(order.Toxics, json.RawMessage(toxic))
	}
	return s.order(order).Listen
}

// stop ends a proxy and the connections through it.
func (s *toxicServer) stop(listen string) {
	s.t.Helper()
	s.order(toxicOrder{Stop: listen})
}

func (s *toxicServer) order(o toxicOrder) toxicReply {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := json.NewEncoder(s.process.stdin).Encode(o); err != nil {
		s.t.Fatalf("toxiproxy: %v\n%s", err, s.process.stderr)
	}
	line, err := s.process.line(time.Minute)
	if err != nil {
		s.t.Fatalf("toxiproxy: no reply: %v\n%s", err, s.process.stderr)
	}
	var reply toxicReply
	if err := json.Unmarshal([]byte(line), &reply); err != nil || reply.Err != "" {
		s.t.Fatalf("toxiproxy: %s %v\n%s", line, err, s.process.stderr)
	}
	return reply
}
