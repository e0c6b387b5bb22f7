// Package kit has what the tests of interop and of interop/clients share:
// requests, servers that follow a script, processes outside the test, and pages
// of docs that a test writes.
package kit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/wait"
)

// Must returns a function that returns a value, and ends the test if there is an
// error: kit.Must[string](t)(f()).
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Retrying returns a Transport whose delays are short, for tests in real time.
func Retrying(base http.RoundTripper) *awsretry.Transport {
	return &awsretry.Transport{
		Base: base, Backoff: awsretry.Exponential{Initial: time.Millisecond, Max: 10 * time.Millisecond},
	}
}

// Pool returns connections for the requests of many goroutines. They are closed
// when the test ends.
func Pool(t testing.TB) *http.Transport {
	pool := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(pool.CloseIdleConnections)
	return pool
}

// Quiet is the log of servers and proxies whose connections break on purpose.
var Quiet = log.New(io.Discard, "", 0)

// NewRequest returns a request.
func NewRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	return Must[*http.Request](t)(http.NewRequestWithContext(ctx, method, url, body))
}

// Text reads and closes a response, whose status must be 200.
func Text(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// HostOf returns the host and port of a URL.
func HostOf(t testing.TB, address string) string {
	t.Helper()
	return Must[*url.URL](t)(url.Parse(address)).Host
}

// StreamOf returns a reader whose content net/http cannot read twice.
func StreamOf[T string | []byte](content T) io.Reader {
	return struct{ io.Reader }{bytes.NewReader([]byte(content))}
}

// Random returns bytes that are the same for the same seed and size.
func Random(seed, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data) // does not fail
	return data
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) { wait.For(ctx, d, nil) }

// Eventually waits until done reports true, for a minute at most. It returns
// what done reported last.
func Eventually(done func() bool) bool {
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return done()
		}
	}
	return true
}

// InParallel calls do for 0 to n-1 with several goroutines. It returns after
// the last call.
func InParallel(n, workers int, do func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// WantNoGoroutines fails if goroutines of awsretry are left after a while.
func WantNoGoroutines(t testing.TB) {
	t.Helper()
	var left []string
	if Eventually(func() bool {
		left = left[:0]
		var all strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&all, 2) // to a Builder
		for stack := range strings.SplitSeq(all.String(), "\n\n") {
			if strings.Contains(stack, "example.com/awsretry.") {
				left = append(left, stack)
			}
		}
		return len(left) == 0
	}) {
		return
	}
	t.Errorf("goroutines are left:\n%s", strings.Join(left, "\n\n"))
}
