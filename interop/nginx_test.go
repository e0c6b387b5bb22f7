package interop

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
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
	addr, nginx := startNginx(t, t.TempDir(), fmt.Sprintf(`
	keepalive_requests 50;
	server {
		listen ADDR ssl http2;
		location / { proxy_pass %s; }
	}`, service.URL))
	_, roots := certificate()
	pool := newPool(t)
	pool.ForceAttemptHTTP2, pool.TLSClientConfig = true, &tls.Config{RootCAs: roots}
	client := &http.Client{Transport: retrying(pool)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var ended atomic.Int32
	inParallel(puts, 32, func(n int) {
		if err := putStream(ctx, client, "https://"+addr+"/", n); err != nil {
			t.Errorf("PUT %d: %v", n, err)
		}
		if ended.Add(1)%(puts/(reloads+1)) == 0 {
			nginx.cmd.Process.Signal(syscall.SIGHUP)
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
