package main

import (
	"context"
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
