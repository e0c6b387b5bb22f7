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
