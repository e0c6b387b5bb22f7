package interop

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

var chaosDuration = flag.Duration("chaos", 4*time.Second,
	"how long TestChaos lasts; the environment variable CHAOS overrides it")

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "toxiproxy" {
		serveToxiproxy(os.Stdin, os.Stdout)
		return
	}
	flag.Parse()
	if text := os.Getenv("CHAOS"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			fmt.Fprintf(os.Stderr, "CHAOS is %q; it must be a duration above 0, such as 60s\n", text)
			os.Exit(2)
		}
		*chaosDuration = d
	}
	os.Exit(m.Run())
}

// takesLong skips a test that takes more than five seconds with -short, as make
// test has it. make check runs it.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// briefly keeps the delays of tests in real time short.
var briefly = awsretry.Exponential{Initial: time.Millisecond, Max: 10 * time.Millisecond}

func retrying(base http.RoundTripper) *awsretry.Transport {
	return &awsretry.Transport{Base: base, Backoff: briefly}
}

func newRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// getText returns the body of a response whose status is 200.
func getText(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	return textOf(client.Do(req))
}

// textOf reads and closes a response, whose status must be 200.
func textOf(resp *http.Response, err error) (string, error) {
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

// hostOf returns the host and port of a URL.
func hostOf(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// isError reports whether an error is an E that fits.
func isError[E error](fits func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && fits(e)
	}
}

// isTimeout reports whether an error calls itself a time-out, as net.Error
// does.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// respond returns a handler with a JSON response. Its header is given as names
// and values in turn.
func respond(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// hang does not respond before the client goes away.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// hangUp closes the connection instead of responding.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// echo responds with the body of the request, and with 422 if that breaks off.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	w.Write(body)
}

// failOnce responds to the first request with 503, without reading its body.
func failOnce(next http.HandlerFunc) http.HandlerFunc {
	var failed atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) {
		if !failed.Swap(true) {
			http.Error(w, `{"code": "busy"}`, http.StatusServiceUnavailable)
			return
		}
		next(w, r)
	}
}

// A sentRequest has what must be the same in every attempt.
type sentRequest struct{ method, uri, auth, contentType, idempotencyKey, body string }

// A scripted server, in memory, records what it receives.
type scripted struct {
	*httpfake.Server
	handlers []http.HandlerFunc // for one request after another, the last one from then on

	mu       sync.Mutex // guards the fields below
	received []sentRequest
	asked    time.Duration // by Retry-After
}

func serveScript(t *testing.T, handlers ...http.HandlerFunc) *scripted {
	t.Helper()
	s := &scripted{handlers: handlers}
	s.Server = httpfake.Serve(t, "HTTP/1.1", s.serve)
	return s
}

func (s *scripted) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = fmt.Appendf(body, "… then %v", err)
	}
	s.mu.Lock()
	s.received = append(s.received, sentRequest{
		r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Content-Type"),
		r.Header.Get("Idempotency-Key"), string(body),
	})
	handle := s.handlers[min(len(s.received), len(s.handlers))-1]
	s.mu.Unlock()
	handle(w, r)
	if seconds, err := strconv.Atoi(w.Header().Get("Retry-After")); err == nil {
		s.mu.Lock()
		s.asked += time.Duration(seconds) * time.Second
		s.mu.Unlock()
	}
}

// retryAfter returns for how long the responses asked to wait in all.
func (s *scripted) retryAfter() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *scripted) requests() []sentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

// eventually waits until done reports true, for a minute at most. It returns
// what done reported last.
func eventually(done func() bool) bool {
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

// wantNoGoroutines fails if goroutines of awsretry are left after a while.
func wantNoGoroutines(t testing.TB) {
	t.Helper()
	var left []string
	if eventually(func() bool {
		left = left[:0]
		for stack := range strings.SplitSeq(goroutineStacks(2), "\n\n") {
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

// goroutineStacks returns the stacks of all goroutines, in a form of
// runtime/pprof.
func goroutineStacks(form int) string {
	var all strings.Builder
	pprof.Lookup("goroutine").WriteTo(&all, form)
	return all.String()
}

// inParallel calls do for 0 to n-1 with several goroutines. It returns after
// the last call.
func inParallel(n, workers int, do func(int)) {
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

// gzipped returns the text, compressed.
func gzipped(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.Bytes()
}
