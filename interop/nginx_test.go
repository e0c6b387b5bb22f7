package interop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/interop/internal/kit"
)

// nginx speaks HTTP/2, reloads its configuration while requests arrive, and
// ends each connection after 50 requests. It says which requests it did not
// process, so that every PUT succeeds, with a body that net/http cannot rewind.
func TestNginxReloads(t *testing.T) {
	const puts, reloads = 600, 5
	service := httpfake.ServeTCP(t, "HTTP/1.1", func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(r.Header.Get("X-Number"), &n)
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != string(putBody(n)) {
			http.Error(w, fmt.Sprintf("%d bytes, %v", len(body), err), http.StatusUnprocessableEntity)
		}
	})
	addr, nginx := kit.StartNginx(t, t.TempDir(), fmt.Sprintf(`
	keepalive_requests 50;
	server {
		listen ADDR ssl http2;
		location / { proxy_pass %s; }
	}`, service.URL))
	_, roots := kit.Certificate()
	pool := kit.Pool(t)
	pool.ForceAttemptHTTP2, pool.TLSClientConfig = true, &tls.Config{RootCAs: roots}
	client := &http.Client{Transport: kit.Retrying(pool)}
	var ended atomic.Int32
	kit.InParallel(puts, 32, func(n int) {
		req := kit.NewRequest(t, t.Context(), http.MethodPut, "https://"+addr, kit.StreamOf(putBody(n)))
		req.Header.Set("X-Number", fmt.Sprint(n))
		resp, err := client.Do(req)
		_, err = kit.Text(resp, err)
		if err == nil && resp.ProtoMajor != 2 {
			err = errors.New(resp.Proto)
		}
		if err != nil {
			t.Errorf("PUT %d: %v", n, err)
		}
		if ended.Add(1)%(puts/(reloads+1)) == 0 {
			nginx.Cmd.Process.Signal(syscall.SIGHUP)
		}
	})
}

func putBody(n int) []byte { return kit.Random(n, 1000+n%20*1000) }
