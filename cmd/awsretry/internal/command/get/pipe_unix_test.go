//go:build unix

package get

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// newPipe makes a named pipe. At the end of the test, opens that wait for the
// other end return.
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

// Opening a named pipe waits for its other end, but not longer than the command
// runs.
func TestInterruptedAtPipe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, flag := range []string{"--data=@", "--output="} {
		t.Run(flag, func(t *testing.T) {
			s := clitest.Start(t, clitest.Fine)
			got := clitest.Shell{}.RunContext(ctx, t, New, "get", flag+newPipe(t), s.URL)
			if got.Status != cli.Interrupted || !strings.Contains(got.Err, "interrupted") || len(s.Bodies()) > 0 {
				t.Errorf("%+v, want status 1 and the interruption, and nothing sent", got)
			}
		})
	}
}

func TestBodyFromPipe(t *testing.T) {
	pipe := newPipe(t)
	go os.WriteFile(pipe, []byte("through a pipe"), 0)
	s := clitest.Start(t, clitest.Unavailable, clitest.Fine)
	got := clitest.Shell{}.Run(t, New, quick("-d", "@"+pipe, s.URL)...)
	if bodies := s.Bodies(); got.Status != 0 || len(bodies) != 2 || bodies[0] != "through a pipe" ||
		bodies[1] != bodies[0] {
		t.Errorf("the service got %q, and the command printed %+v", bodies, got)
	}
}

// A pipe gets the body of a failure too: there is no file to preserve.
func TestOutputToPipe(t *testing.T) {
	for name, reply := range map[string]clitest.Reply{"success": clitest.Fine, "failure": clitest.Invalid} {
		t.Run(name, func(t *testing.T) {
			pipe := newPipe(t)
			read := make(chan string, 1)
			go func() {
				text, _ := os.ReadFile(pipe)
				read <- string(text)
			}()
			got := clitest.Shell{}.Run(t, New, quick("-o", pipe, clitest.Start(t, reply).URL)...)
			if text := <-read; text != reply.Body || got.Out != "" {
				t.Errorf("the pipe got %q, want %q: %+v", text, reply.Body, got)
			}
		})
	}
}
