package kit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// StartNode runs a script that prints the port on which it listens. It returns
// the host with the port.
func StartNode(t testing.TB, script string, args ...string) (addr string) {
	t.Helper()
	node := lookUp(t, "node", "https://nodejs.org, 20 or newer with npm, or apt-get install nodejs npm")
	folder := filepath.Dir(Find(t, "package-lock.json"))
	if missing := installPackages(folder); missing != "" {
		cannotRun(t, missing)
	}
	const untilStdinEnds = `process.stdin.on('end', () => process.exit()).resume();`
	cmd := exec.Command(node, append([]string{"-e", untilStdinEnds + script, "--"}, args...)...)
	cmd.Dir = folder
	return net.JoinHostPort("127.0.0.1", Start(t, cmd).Line(t))
}

// installPackages installs what package-lock.json names, unless it is there. It
// returns why the packages cannot be used, or "".
func installPackages(folder string) (missing string) {
	file, err := os.Open(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return err.Error()
	}
	defer file.Close() // which unlocks it
	// The tests of two modules may run at the same time.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err.Error()
	}
	lock, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	// npm writes this file last.
	done, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json"))
	if err == nil && !done.ModTime().Before(lock.ModTime()) {
		return ""
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "npm is not in PATH: install it (it comes with Node.js), then run npm ci in interop/"
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		out = bytes.TrimSpace(out)
		last := out[bytes.LastIndexByte(out, '\n')+1:]
		return fmt.Sprintf("npm ci in interop/ failed (%v: %s): run it where a registry can be reached", err, last)
	}
	return ""
}

// Certificate returns a certificate for example.com and loopback addresses, and
// a pool that trusts it.
var Certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	return srv.TLS.Certificates[0], srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
})

// StartNginx starts an nginx with that text in its http block, in which ADDR is
// where it is to listen. Its files are in dir, to which a certificate is added.
func StartNginx(t testing.TB, dir, http string) (addr string, p *Process) {
	t.Helper()
	path := lookUp(t, "nginx", "https://nginx.org, or apt-get install nginx-light")
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // or nginx could not read a folder of root
	}
	cert, _ := Certificate()
	key := Must[[]byte](t)(x509.MarshalPKCS8PrivateKey(cert.PrivateKey))
	WriteFile(t, filepath.Join(dir, "cert.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	WriteFile(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	return startOnPort(t, func(addr string) *exec.Cmd {
		WriteFile(t, filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, `daemon off;
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

// StartHAProxy starts a HAProxy with these lines in its frontend, which passes
// requests on to the service.
func StartHAProxy(t testing.TB, frontend, service string) (addr string) {
	t.Helper()
	path := lookUp(t, "haproxy", "https://www.haproxy.org, or apt-get install haproxy")
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	addr, _ = startOnPort(t, func(addr string) *exec.Cmd {
		WriteFile(t, config, fmt.Appendf(nil, `global
	maxconn 512
	nbthread 1
defaults
	mode http
	timeout connect 5s
	timeout client 2m
	timeout server 2m
frontend front
	bind %s
	%s
	default_backend service
backend service
	server service %s
`, addr, frontend, HostOf(t, service)))
		return exec.Command(path, "-db", "-f", config)
	})
	return addr
}
