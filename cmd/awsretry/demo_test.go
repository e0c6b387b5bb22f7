package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	t.Parallel()
	start := time.Now()
	got := shell{}.run(t, "demo")
	if elapsed := time.Since(start); elapsed > 20*time.Second {
		t.Errorf("it took %v, want less than 20 s", elapsed)
	}
	if got.status != 0 || got.stderr != "" {
		t.Errorf("status %d, standard error %q", got.status, got.stderr)
	}
	if strings.Contains(got.stdout, "✗") || strings.Count(got.stdout, "✓") < 10 || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("checks do not hold, or are missing:\n%s", got.stdout)
	}
	for _, want := range []string{
		`1\. Retries save a request`, `2\. A bad request`, `3\. A body`, `4\. The retry token bucket`, `5\. Adaptive mode`,
		`reset +transient`, `ServiceUnavailable`, `ValidationException`, `ThrottlingException`,
		`attempt 2 brought +4,194,304 bytes`, `is down +40 +40 +0 +0\n`, `works +40 +0 +0 +120 `, `adaptive +8 `,
	} {
		if !regexp.MustCompile(want).MatchString(got.stdout) {
			t.Errorf("it does not show %q:\n%s", want, got.stdout)
		}
	}
}

// What does not hold is seen: a service that never recovers makes the demo fail.
func TestDemoCheckFails(t *testing.T) {
	server, err := startDemoServer(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	server.seen["/flaky"] = 1 // it resets no connection
	var out strings.Builder
	d := &demo{ctx: t.Context(), w: &out, palette: paletteOf(false), server: server}
	if err := d.savedRequest(); err != nil {
		t.Fatal(err)
	}
	if d.checks != 1 || d.failed != 1 || !strings.Contains(out.String(), "✗") {
		t.Errorf("%d of %d checks failed:\n%s", d.failed, d.checks, &out)
	}
}

func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	got := shell{}.runContext(t, ctx, "demo")
	if elapsed := time.Since(start); got.status != exitFailure || got.stderr != "awsretry demo: interrupted\n" || elapsed > 5*time.Second {
		t.Errorf("status %d after %v, standard error %q", got.status, elapsed, got.stderr)
	}
}

// The README's example: the server of the demo, and a request to it.
func TestDemoServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed, stdout := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"demo", "--serve"}, process{
			stdin: strings.NewReader(""), stdout: stdout, stderr: stdout,
			getenv:     func(string) string { return "" },
			isTerminal: func(io.Writer) bool { return false },
		})
		stdout.Close()
	}()
	urls := map[string]string{}
	lines := bufio.NewScanner(printed)
	for len(urls) < len(demoPaths) && lines.Scan() {
		if url, _, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(url, "http://127.0.0.1:") {
			urls[url[strings.LastIndex(url, "/"):]] = url
		}
	}
	for path, c := range map[string]struct {
		status int
		want   []string
	}{
		"/flaky":   {0, []string{"reset ", "ServiceUnavailable", "✓ 200 OK after 3 attempts"}},
		"/busy":    {0, []string{"ThrottlingException", "✓ 200 OK after 2 attempts"}},
		"/invalid": {exitHTTPError, []string{"✗ 400 Bad Request (ValidationException) after 1 attempt"}},
		"/table":   {0, []string{"✓ 200 OK after 1 attempt"}},
	} {
		for range 2 { // it does the same again
			got := shell{}.run(t, get(urls[path])...)
			for _, want := range c.want {
				if got.status != c.status || !strings.Contains(got.stderr, want) {
					t.Errorf("%s: %+v, want status %d and %q", path, got, c.status, want)
				}
			}
		}
	}
	cancel()
	if s := <-status; s != 0 {
		t.Errorf("status %d", s)
	}
}

func TestDemoServeEnds(t *testing.T) {
	got := shell{}.run(t, "demo", "--serve", "--for", "10ms")
	if got.status != 0 || !strings.Contains(got.stdout, "Serving for 10ms") {
		t.Errorf("%+v", got)
	}
}

func TestDemoServeOnPortThatIsTaken(t *testing.T) {
	_, port, err := net.SplitHostPort(serve(t, fine).Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	got := shell{}.run(t, "demo", "--serve", "--port", port)
	if got.status != exitFailure || !strings.Contains(got.stderr, "--port: ") || !strings.Contains(got.stderr, port) {
		t.Errorf("%+v", got)
	}
}
