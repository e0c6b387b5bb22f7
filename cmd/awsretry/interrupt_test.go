package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// A stuckReader blocks forever, like a terminal at which nobody types.
type stuckReader struct{ began chan struct{} }

func (r stuckReader) Read([]byte) (int, error) {
	r.began <- struct{}{}
	select {}
}

// The first Ctrl-C ends a command that reads standard input.
func TestInterruptedWhileReading(t *testing.T) {
	s := serve(t, fine)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "-d", "@-", s.URL}, "✗ interrupted after 1 attempt"},
		{[]string{"get", "--json", "-d", "@-", s.URL}, `{"error":"interrupted"}`},
		{[]string{"schedule", "-"}, "interrupted"},
		{[]string{"deadletter", "redrive", "--policy", "-", t.TempDir()}, "interrupted"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		began := make(chan struct{}, 1)
		go func() {
			<-began
			cancel(errors.New("interrupt signal received")) // as signal.NotifyContext says it
		}()
		start := time.Now()
		got := shell{stdin: stuckReader{began}}.runContext(t, ctx, c.args...)
		if got.status != exitFailure || !strings.Contains(got.stderr, c.want) || got.stdout != "" {
			t.Errorf("%q: %+v, want status 1 and %q", c.args, got, c.want)
		}
		if elapsed := time.Since(start); elapsed > 5*time.Second {
			t.Errorf("%q took %v", c.args, elapsed)
		}
	}
}

// A cancelingWriter is where somebody presses Ctrl-C at the first letter.
type cancelingWriter struct {
	strings.Builder
	cancel context.CancelFunc
}

func (w *cancelingWriter) Write(p []byte) (int, error) {
	n, err := w.Builder.Write(p)
	if strings.Contains(w.String(), ".letter") {
		w.cancel()
	}
	return n, err
}

// Ctrl-C ends the listing of a folder between two letters.
func TestInterruptedWhileListing(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		bury(t, dir, "http://127.0.0.1:1/", "x", nil)
	}
	for _, args := range [][]string{{dir}, {"--json", dir}} {
		ctx, cancel := context.WithCancel(t.Context())
		stdout, stderr := &cancelingWriter{cancel: cancel}, &strings.Builder{}
		status := run(ctx, append([]string{"deadletter", "list"}, args...), process{
			stdin: strings.NewReader(""), stdout: stdout, stderr: stderr,
			getenv:     func(string) string { return "" },
			isTerminal: func(io.Writer) bool { return false },
		})
		if status != exitFailure || stderr.String() != "awsretry deadletter list: interrupted\n" || strings.Count(stdout.String(), ".letter") != 1 {
			t.Errorf("%q: status %d, %q, want 1 and an interruption after one letter:\n%s", args, status, stderr, stdout)
		}
	}
}

// Ctrl-C while the letters are counted ends redrive before it begins.
func TestInterruptedWhileCounting(t *testing.T) {
	s, dir := serve(t, fine), t.TempDir()
	bury(t, dir, s.URL, "x", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{dir}, {"--dry-run", dir}, {"--json", dir}} {
		got := shell{}.runContext(t, ctx, append([]string{"deadletter", "redrive"}, args...)...)
		if want := (ran{exitFailure, "", "awsretry deadletter redrive: interrupted\n"}); got != want || len(s.received()) > 0 {
			t.Errorf("%q: %+v, want %+v and nothing sent", args, got, want)
		}
	}
}

func TestTimeoutWhileReading(t *testing.T) {
	got := shell{stdin: stuckReader{make(chan struct{}, 1)}}.run(t, "get", "--timeout", "50ms", "-d", "@-", serve(t, fine).URL)
	if got.status != exitFailure || !strings.Contains(got.stderr, "the time of --timeout, 50ms, is over") {
		t.Errorf("%+v", got)
	}
}

// The first Ctrl-C also ends a get whose standard output nobody reads.
func TestInterruptedWhileWriting(t *testing.T) {
	s := serve(t, fine)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe() // whose Write waits for a Read
	defer r.Close()
	var stderr strings.Builder
	time.AfterFunc(100*time.Millisecond, cancel)
	status := run(ctx, []string{"get", s.URL}, process{
		stdin: strings.NewReader(""), stdout: w, stderr: &stderr,
		getenv:     func(name string) string { return map[string]string{"HOME": t.TempDir()}[name] },
		isTerminal: func(io.Writer) bool { return false },
	})
	if status != exitFailure || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("status %d, standard error\n%s", status, &stderr)
	}
}
