package interop

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a server outside this one. It ends with its test, or with its
// standard input if the tests are killed.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string   // of its standard output
	errors *output       // what it writes to its standard error
	ended  chan struct{} // closed when the process has ended
}

// An output is what a process has written so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startProcess starts cmd. A test that fails logs what the process has written.
func startProcess(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, lines: make(chan string, 16), errors: new(output), ended: make(chan struct{})}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, p.errors
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(p.ended)
		cmd.Wait()
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

// line returns the next line of the process's standard output.
func (p *process) line(t testing.TB) string {
	t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-p.ended:
		t.Fatalf("%s has ended: %s", p.cmd.Path, p.errors)
	case <-time.After(time.Minute):
		t.Fatalf("%s writes nothing: %s", p.cmd.Path, p.errors)
	}
	return ""
}

// end stops the process. It kills it if a signal does not end it.
func (p *process) end() {
	p.stdin.Close()
	p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(3*time.Second, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	<-p.ended
}

// listens waits until the process accepts connections or ends, and reports
// whether it does.
func (p *process) listens(addr string) (connected bool) {
	eventually(func() bool {
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
func startOnPort(t testing.TB, command func(addr string) *exec.Cmd) (addr string, p *process) {
	t.Helper()
	for try := 1; ; try++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr = l.Addr().String()
		l.Close()
		if p = startProcess(t, command(addr)); p.listens(addr) {
			return addr, p
		}
		p.end()
		if try == 3 {
			t.Fatalf("%s does not listen: %.2000s", p.cmd.Path, p.errors)
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
		return "node is not in PATH: install Node.js 20 or newer with npm (https://nodejs.org, or apt-get install nodejs npm)"
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join("node_modules", name, "package.json"))
		return err == nil
	}
	packages := []string{
		"dynalite", "s3rver", "express", "express-rate-limit", "fastify", "@fastify/rate-limit", "rate-limiter-flexible",
		"standardwebhooks", "svix",
	}
	if !slices.ContainsFunc(packages, func(name string) bool { return !there(name) }) {
		return ""
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "npm is not in PATH: install it (it comes with Node.js), then run npm ci in interop/"
	}
	if out, err := exec.Command("npm", "ci", "--no-audit", "--no-fund").CombinedOutput(); err != nil {
		out = bytes.TrimSpace(out)
		last := out[bytes.LastIndexByte(out, '\n')+1:]
		return fmt.Sprintf("npm ci in interop/ failed (%v: %s): run it where a registry can be reached", err, last)
	}
	return ""
})

// startNode runs a script that prints the port on which it listens. It returns
// the host with the port.
func startNode(t testing.TB, script string, args ...string) (addr string) {
	t.Helper()
	if missing := nodePackages(); missing != "" {
		cannotRun(t, missing)
	}
	const untilStdinEnds = `process.stdin.on('end', () => process.exit()).resume();`
	p := startProcess(t, exec.Command("node", append([]string{"-e", untilStdinEnds + script, "--"}, args...)...))
	return net.JoinHostPort("127.0.0.1", p.line(t))
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

// startNginx starts an nginx with that text in its http block, in which ADDR is
// where it is to listen. Its files are in dir, to which a certificate is added.
func startNginx(t testing.TB, dir, http string) (addr string, p *process) {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		cannotRun(t, "nginx is not in PATH: install it (https://nginx.org, or apt-get install nginx-light)")
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // or nginx could not read a folder of root
	}
	cert, _ := certificate()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "cert.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	writeFile(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	return startOnPort(t, func(addr string) *exec.Cmd {
		writeFile(t, filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, `daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
%s
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	ssl_certificate cert.pem;
	ssl_certificate_key key.pem;
	%s
}
`, user, strings.ReplaceAll(http, "ADDR", addr)))
		nginx := exec.Command(path, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
		nginx.Dir = dir
		return nginx
	})
}

func writeFile(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// nginxLimiting is an nginx that limits requests with limit_req. Its responses
// above the rate have the lines of header.
func nginxLimiting(rate int, limit, header string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		addr, _ = startNginx(t, t.TempDir(), fmt.Sprintf(`
	keepalive_requests 1000000;
	client_max_body_size 0;
	limit_req_zone $binary_remote_addr zone=service:1m rate=%dr/s;
	server {
		listen ADDR;
		location / {
			limit_req zone=service %s;
			limit_req_status 429;
			error_page 429 /throttled;
			proxy_pass %s;
		}
		location = /throttled {
			internal;
			default_type application/xml;
			%s
			return 429 '%s';
		}
	}`, rate, limit, service, header, slowDown))
		return addr
	}
}

const retryAfterOneSecond = "add_header Retry-After 1 always;"

// haproxyDenying is a HAProxy that denies requests with 429 under a condition.
// The stick table counts the requests of a caller, those that are denied
// included.
func haproxyDenying(rate, condition string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		path, err := exec.LookPath("haproxy")
		if err != nil {
			cannotRun(t, "haproxy is not in PATH: install it (https://www.haproxy.org, or apt-get install haproxy)")
		}
		addr, _ = startOnPort(t, func(addr string) *exec.Cmd {
			config := filepath.Join(t.TempDir(), "haproxy.cfg")
			writeFile(t, config, fmt.Appendf(nil, `global
	maxconn 512
	nbthread 1
defaults
	mode http
	timeout connect 5s
	timeout client 2m
	timeout server 2m
frontend throttled
	bind %s
	stick-table type ip size 1k expire 1m store %s
	http-request track-sc0 src
	http-request deny status 429 content-type application/xml string "%s" if %s
	default_backend service
backend service
	server service %s
`, addr, rate, slowDown, condition, hostOf(t, service)))
			return exec.Command(path, "-db", "-f", config)
		})
		return addr
	}
}
