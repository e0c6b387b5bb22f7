package interop

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestNginxReloads sends 2,000 PUTs of streams over HTTP/2 to an nginx that keeps reloading its configuration, and ends
// each connection after 50 requests. It tells which requests it did not process, so that every PUT can arrive.
func TestNginxReloads(t *testing.T) {
	const puts = 2000
	var arrived atomic.Int64
	service := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || chaosSumOf(body) != r.Header.Get(chaosSum) {
			http.Error(w, fmt.Sprintf("%d bytes, %v", len(body), err), http.StatusUnprocessableEntity)
			return
		}
		arrived.Add(1)
	}), nil)
	pool, reload := startNginx(t, service)
	client := &http.Client{Transport: retrying(pool)}

	var failed, next atomic.Int64
	var senders sync.WaitGroup
	for range 64 {
		senders.Go(func() {
			for {
				n := int(next.Add(1))
				if n > puts {
					return
				}
				if err := putStream(client, "https://example.com/", n); err != nil && failed.Add(1) <= 5 {
					t.Errorf("PUT %d: %v", n, err)
				}
			}
		})
	}
	sent := make(chan struct{})
	go func() { senders.Wait(); close(sent) }()
	reloads := 0
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-tick.C:
			reload()
			reloads++
			continue
		case <-sent:
			tick.Stop()
		}
		break
	}
	t.Logf("%d reloads, %d bodies arrived of %d PUTs, %d failed", reloads, arrived.Load(), puts, failed.Load())
	if failed.Load() > 0 {
		t.Errorf("%d of %d PUTs failed", failed.Load(), puts)
	}
}

// putStream sends a body that net/http cannot rewind.
func putStream(client *http.Client, url string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	body := chaosBytes(n, 1000+n%20*1000)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, struct{ io.Reader }{bytes.NewReader(body)})
	if err != nil {
		return err
	}
	req.Header.Set(chaosSum, chaosSumOf(body))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		return fmt.Errorf("%s %s: %.100q, %v", resp.Proto, resp.Status, answer, err)
	}
	return nil
}

// startNginx starts an nginx that speaks HTTP/2 on a socket in a folder of its own, and passes requests on to the service.
func startNginx(t *testing.T, service *httptest.Server) (pool *http.Transport, reload func()) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		cannotRun(t, "nginx is not in PATH: apt-get install nginx-light")
	}
	dir := t.TempDir()
	certified := start(t, http.NotFoundHandler(), (*httptest.Server).StartTLS) // for its certificate
	certificate := certified.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;"
	}
	for name, text := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"nginx.conf": fmt.Appendf(nil, `daemon off;
worker_processes 2;
pid nginx.pid;
error_log error.log error;
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
`, user, service.URL),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stderr bytes.Buffer
	nginx := exec.Command(path, "-p", dir, "-c", "nginx.conf", "-e", "error.log")
	nginx.Dir, nginx.Stderr = dir, &stderr
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nginx.Process.Signal(syscall.SIGTERM)
		nginx.Wait()
		if log, _ := os.ReadFile(filepath.Join(dir, "error.log")); t.Failed() {
			t.Logf("nginx: %s%.2000s", &stderr, log)
		}
	})
	socket := filepath.Join(dir, "socket")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	if !eventually(func() bool {
		conn, err := dial(context.Background(), "", "")
		if err == nil {
			conn.Close()
		}
		return err == nil
	}) {
		t.Fatalf("nginx does not listen: %s", &stderr)
	}
	pool = trusting(t, certified)
	pool.DialContext = dial
	return pool, func() { nginx.Process.Signal(syscall.SIGHUP) }
}
