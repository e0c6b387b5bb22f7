//go:build unix

package get

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// newPipe creates a named pipe. At the end of the test, calls of open that wait for
// the other end return.
func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			f.Close()
		}
	})
	return path
}

// Opening a named pipe waits for its other end, but not after the command has
// ended.
func TestInterruptedAtPipe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, flag := range []string{"--data=@", "--output="} {
		s := clitest.Start(t, clitest.Fine)
		got := clitest.Shell{}.RunContext(ctx, t, New, "get", flag+newPipe(t), s.URL)
		if got.Status != cli.Interrupted || !strings.Contains(got.Err, "interrupted") || len(s.Bodies()) > 0 {
			t.Errorf("%s: %+v, want an interruption, and nothing sent", flag, got)
		}
	}
}

// A pipe also gets the body of a failure: there is no file to preserve.
func TestPipes(t *testing.T) {
	in, out := newPipe(t), newPipe(t)
	go os.WriteFile(in, []byte("through a pipe"), 0)
	read := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(out)
		read <- string(text)
	}()
	s := clitest.Start(t, clitest.Unavailable, clitest.Invalid)
	got := clitest.Shell{}.Run(t, New, quick("-d", "@"+in, "-o", out, s.URL)...)
	if bodies := s.Bodies(); !slices.Equal(bodies, []string{"through a pipe", "through a pipe"}) {
		t.Errorf("the service got %q", bodies)
	}
	if text := <-read; text != clitest.Invalid.Body || got.Out != "" {
		t.Errorf("the pipe got %q: %+v", text, got)
	}
}
