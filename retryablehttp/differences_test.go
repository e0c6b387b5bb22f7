package retryablehttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"example.com/awsretry"
)

// The README's table of differences names these tests, and each is there. Its
// example is one that is run.
func TestDifferencesAreTested(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	code := read(t, "client_test.go") + read(t, "differences_test.go") + read(t, "upstream_test.go")
	_, table, _ := strings.Cut(readme, "\n## Differences\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| .*`).FindAllString(table, -1)
	if len(rows) < 13 {
		t.Errorf("only %q", rows)
	}
	for _, row := range rows[1:] {
		name := regexp.MustCompile("`(Test[A-Za-z/]+)` \\|$").FindStringSubmatch(row)
		if name == nil || !strings.Contains(code, "func "+name[1]+"(") {
			t.Errorf("no test is named by %s", row)
		}
	}
	_, example, _ := strings.Cut(readme, "client := ")
	example, _, _ = strings.Cut(example, "```")
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if !strings.Contains(words(read(t, "../bench/retryablehttp/example_test.go")), words(example)) || example == "" {
		t.Errorf("no example has %q", example)
	}
}

// The retry token bucket ends retries in an outage, and can be switched off.
func TestBucket(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500)
	c := newClient()
	c.Transport().Quota.Capacity = 12 // two retries of 5
	for i := range 3 {
		_, err := c.Get(s.URL)
		if err == nil || errors.Is(err, awsretry.ErrQuotaExceeded) != true {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if s.seen() != 3+2 {
		t.Errorf("%d attempts, want 3 and 2 retries", s.seen())
	}
	without := newClient()
	without.Transport().Quota.Capacity = -1
	for range 50 {
		if _, err := without.Get(s.URL); errors.Is(err, awsretry.ErrQuotaExceeded) {
			t.Fatal(err)
		}
	}
	if want := 5 + 50*5; s.seen() != want {
		t.Errorf("%d attempts, want %d", s.seen(), want)
	}
}

// Each Client has its own bucket, also over an HTTPClient that several use.
func TestBucketOfEachClient(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500)
	shared := &http.Client{}
	for i := range 2 {
		c := newClient()
		c.HTTPClient, c.RetryMax = shared, 1
		c.Transport().Quota.Capacity = 6 // one retry of 5
		for n := range 2 {
			if _, err := c.Get(s.URL); errors.Is(err, awsretry.ErrQuotaExceeded) != (n == 1) {
				t.Errorf("Client %d, call %d: %v", i, n, err)
			}
		}
	}
}

// An io.Reader is sent while it is read.
func TestReaderIsStreamed(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Body.Read(make([]byte, 1))
		close(began)
		io.Copy(io.Discard, r.Body)
	}))
	defer s.Close()
	r, w := io.Pipe()
	go func() {
		io.WriteString(w, "first")
		<-began // the rest is written when the server has the beginning
		io.WriteString(w, "rest")
		w.Close()
	}()
	do(t, newClient(), request(t, "PUT", s.URL, r))
}

// What is longer than the buffer is sent once.
func TestLongReader(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500, 200)
	long := func() io.Reader { return io.LimitReader(neverEnding{}, 2<<20) }
	if _, err := newClient().Do(request(t, "PUT", s.URL, long())); !errors.Is(err, errBody) || s.seen() != 1 {
		t.Errorf("after %d: %v", s.seen(), err)
	}
	again := newServer(t, 500, 200)
	c := newClient()
	c.Transport().MaxBodyBuffer = 4 << 20
	do(t, c, request(t, "PUT", again.URL, long()))
	if again.seen() != 2 || again.bodies[0] != again.bodies[1] || len(again.bodies[0]) != 2<<20 {
		t.Errorf("%d attempts", again.seen())
	}
}

func TestReaderIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t, 200)
	c, req := newClient(), request(t, "PUT", s.URL, iotest.OneByteReader(strings.NewReader("hello")))
	do(t, c, req)
	if _, err := c.Do(req); !errors.Is(err, errSent) || s.seen() != 1 {
		t.Errorf("after %d: %v", s.seen(), err)
	}
}

// net/http follows no 307 with a body that it cannot send again.
func TestRedirectOfReader(t *testing.T) {
	t.Parallel()
	s := newServer(t, 307)
	s.header = http.Header{"Location": {"/other"}}
	resp, err := newClient().Do(request(t, "PUT", s.URL, iotest.OneByteReader(strings.NewReader("hello"))))
	if err != nil || resp.StatusCode != 307 || s.seen() != 1 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestRetryAfterIsCapped(t *testing.T) {
	t.Parallel()
	const without = 10 * time.Millisecond
	for _, tt := range []struct {
		status int
		header []string
		want   time.Duration
	}{
		{429, []string{"2"}, 2 * time.Second},
		{429, []string{"2", "3"}, 3 * time.Second},
		{503, []string{"3600"}, time.Minute},
		{503, []string{"99999999999999999999999"}, time.Minute},
		{503, []string{time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, time.Minute},
		{500, []string{"2"}, without},
		{429, []string{"-2"}, without},
		{429, []string{"soon"}, without},
		{429, nil, without},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{"Retry-After": tt.header}}
		for i, backoff := range []Backoff{DefaultBackoff, RateLimitLinearJitterBackoff} {
			if got := backoff(without, without, 0, resp); got != tt.want {
				t.Errorf("%d after %d with %q: %v", i, tt.status, tt.header, got)
			}
		}
	}
}

// A delay beyond the deadline is not begun.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := newServer(t, 500)
	c := newClient()
	c.RetryWaitMin, c.RetryWaitMax = time.Hour, time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Do(request(t, "GET", s.URL, nil).WithContext(ctx))
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || s.seen() != 1 {
		t.Errorf("after %d: %v, %v", s.seen(), err, ctx.Err())
	}
}

// A request whose context has ended is not sent, and CheckRetry is not asked.
func TestCanceledBefore(t *testing.T) {
	t.Parallel()
	s := newServer(t, 200)
	c := newClient()
	c.CheckRetry = func(context.Context, *http.Response, error) (bool, error) {
		t.Error("CheckRetry is called")
		return false, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Do(request(t, "GET", s.URL, nil).WithContext(ctx))
	if !errors.Is(err, context.Canceled) || s.seen() != 0 || !strings.Contains(err.Error(), "after 0 attempt(s)") {
		t.Errorf("after %d: %v", s.seen(), err)
	}
}

// The text of an error has no query and no password; the error itself has.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	c := newClient()
	c.RetryMax = 0
	_, err := c.Get("http://user:secret@127.0.0.1:1/path?secret=1")
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1/path giving up") {
		t.Error(err)
	}
	if op := (*net.OpError)(nil); !errors.As(err, &op) {
		t.Errorf("%v has no *net.OpError", err)
	}
	if got := textOf(errors.New("a\x1b[2J\u202eb\u2028c é")); got != "a [2J b c é" {
		t.Errorf("%q has a control character", got)
	}
}

// Idle connections stay open when a request is given up.
func TestConnectionsStay(t *testing.T) {
	t.Parallel()
	s := newServer(t, 200, 500, 200, 500, 200)
	c := newClient()
	c.RetryMax = 0
	for range 5 {
		if resp, err := c.Get(s.URL); err == nil {
			text(t, resp)
		}
	}
	for _, r := range s.requests {
		if r.RemoteAddr != s.requests[0].RemoteAddr {
			t.Error("there is a second connection")
		}
	}
}

func TestLoggerOfAnotherType(t *testing.T) {
	t.Parallel()
	s := newServer(t, 200)
	c := newClient()
	c.Logger = "stderr"
	if _, err := c.Get(s.URL); err == nil || !strings.Contains(err.Error(), "is a string; it must be") || s.seen() != 0 {
		t.Errorf("after %d: %v", s.seen(), err)
	}
}

// NewClient's HTTP/2 connections are pinged, so that a dead one is not used for
// ever.
func TestPings(t *testing.T) {
	t.Parallel()
	var zero Client
	zero.Transport()
	for name, client := range map[string]*http.Client{"NewClient": NewClient().HTTPClient, "zero": zero.HTTPClient} {
		h2 := client.Transport.(*http.Transport).HTTP2
		if h2 == nil || h2.SendPingTimeout != 15*time.Second || h2.PingTimeout != 5*time.Second {
			t.Errorf("%s: %+v", name, h2)
		}
	}
}

// No internal package is imported, which go.mod's replace would not allow.
func TestImports(t *testing.T) {
	t.Parallel()
	out := run(t, ".", "go", "list", "-f", "{{join .Imports \" \"}}", ".")
	if strings.Contains(out, "/internal/") || !strings.Contains(out, "example.com/awsretry") {
		t.Errorf("it imports %s", out)
	}
}

// An upload of 1 GiB takes no memory, whether it may be sent again or not.
func TestMemoryOfAnUpload(t *testing.T) {
	size := int64(1 << 30)
	if testing.Short() {
		size = 64 << 20
	}
	for name, body := range map[string]any{
		"ReaderFunc": ReaderFunc(func() (io.Reader, error) { return io.LimitReader(neverEnding{}, size), nil }),
		"ReaderAt":   io.NewSectionReader(neverEnding{}, 0, size),
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var sent []int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if len(sent) == 0 { // the first attempt fails after a part
					n, _ := io.CopyN(io.Discard, r.Body, 1<<20)
					sent = append(sent, n)
					panic(http.ErrAbortHandler)
				}
				n, _ := io.Copy(io.Discard, r.Body)
				sent = append(sent, n)
			}))
			defer s.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			do(t, newClient(), request(t, "PUT", s.URL, body))
			runtime.ReadMemStats(&after)
			mu.Lock()
			defer mu.Unlock()
			if want := []int64{1 << 20, size}; !slices.Equal(sent, want) {
				t.Errorf("%d bytes, want %d", sent, want)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
				t.Errorf("%d MiB were allocated", grown>>20)
			}
		})
	}
}
