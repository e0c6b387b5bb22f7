package interop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry/internal/httpfake"
)

// nginx speaks HTTP/2, reloads its configuration while requests arrive, and
// ends each connection after 50 requests. It says which requests it did not
// process, so that every PUT succeeds.
func TestNginxReloads(t *testing.T) {
	const puts, reloads = 600, 5
	var arrived atomic.Int32
	service := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || chaosSumOf(body) != r.Header.Get(chaosSum) {
			http.Error(w, fmt.Sprintf("%d bytes, %v", len(body), err), http.StatusUnprocessableEntity)
			return
		}
		arrived.Add(1)
	})
	pool, reload := startNginx(t, service.URL)
	client := &http.Client{Transport: retrying(pool)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var ended atomic.Int32
	inParallel(puts, 32, func(n int) {
		if err := putStream(ctx, client, "https://example.com/", n); err != nil {
			t.Errorf("PUT %d: %v", n, err)
		}
		if ended.Add(1)%(puts/(reloads+1)) == 0 {
			reload()
		}
	})
	t.Logf("%d bodies arrived of %d PUTs", arrived.Load(), puts)
}

// putStream sends a body that net/http cannot rewind.
func putStream(ctx context.Context, client *http.Client, url string, n int) error {
	body := chaosBytes(n, 1000+n%20*1000)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, streamOf(body))
	if err != nil {
		return err
	}
	req.Header.Set(chaosSum, chaosSumOf(body))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2) {
		err = fmt.Errorf("%s %s: %.100q", resp.Proto, resp.Status, text)
	}
	return err
}

func nginxPath(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		cannotRun(t, "nginx is not in PATH: install it (https://nginx.org, or apt-get install nginx-light)")
	}
	return path
}

// nginxUser returns the line that nginx needs to work as root in a folder of
// root.
func nginxUser() string {
	if os.Geteuid() == 0 {
		return "user root;"
	}
	return ""
}

// startNginx starts an nginx that speaks HTTP/2 on a socket in a folder of its
// own, and passes requests on to the service.
func startNginx(t *testing.T, service string) (pool *http.Transport, reload func()) {
	path := nginxPath(t)
	dir := t.TempDir()
	cert, roots := certificate()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"nginx.conf": fmt.Appendf(nil, `daemon off;
worker_processes 2;
pid nginx.pid;
error_log stderr error;
%s
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_requests 50;
	server {
		listen unix:socket ssl http2;
		ssl_certificate cert.pem;
		ssl_certificate_key key.pem;
		location / { proxy_pass %s; }
	}
}
`, nginxUser(), service),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nginx := exec.Command(path, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	nginx.Dir = dir
	d := startDaemon(t, nginx)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "socket"))
	}
	if !d.listens(func() (net.Conn, error) { return dial(context.Background(), "", "") }) {
		t.Fatalf("nginx does not listen: %.2000s", d.output)
	}
	pool = newPool(t)
	pool.ForceAttemptHTTP2, pool.DialContext = true, dial
	pool.TLSClientConfig = &tls.Config{RootCAs: roots}
	return pool, func() { nginx.Process.Signal(syscall.SIGHUP) }
}

// nginxLimitReq is an nginx that limits requests with limit_req to 200 per
// second. Its responses above the limit have the lines of header.
func nginxLimitReq(limit, header string) startThrottler { return nginxLimiting(200, limit, header) }

// nginxLimiting is nginxLimitReq with another rate.
func nginxLimiting(rate int, limit, header string) startThrottler {
	return func(t testing.TB, service string) (addr string) {
		path := nginxPath(t)
		return startOnPort(t, func(addr string) *exec.Cmd {
			nginx := exec.Command(path, "-p", t.TempDir(), "-c", "nginx.conf", "-e", "stderr")
			nginx.Dir = nginx.Args[2]
			config := fmt.Appendf(nil, `daemon off;
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
	keepalive_requests 1000000;
	client_max_body_size 0;
	limit_req_zone $binary_remote_addr zone=service:1m rate=%dr/s;
	server {
		listen %s;
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
	}
}
`, nginxUser(), rate, addr, limit, service, header, slowDown)
			if err := os.WriteFile(filepath.Join(nginx.Dir, "nginx.conf"), config, 0o600); err != nil {
				t.Fatal(err)
			}
			return nginx
		})
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
		return startOnPort(t, func(addr string) *exec.Cmd {
			config := filepath.Join(t.TempDir(), "haproxy.cfg")
			text := fmt.Appendf(nil, `global
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
`, addr, rate, slowDown, condition, hostOf(t, service))
			if err := os.WriteFile(config, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return exec.Command(path, "-db", "-f", config)
		})
	}
}
