//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/delivery"
	"example.com/awsretry/delivery/letters"
)

func TestMain(m *testing.M) { clitest.Main(m, "awsretry-deliver", main) }

// nohup starts a process that ignores the end of the terminal.
var nohup = []string{"sh", "-c", `trap "" HUP; exec "$0"`}

// start starts a process with pipes for its output.
func start(t *testing.T, cmd *exec.Cmd) (stdout, stderr io.ReadCloser) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if stderr, err = cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return stdout, stderr
}

// deadLetters returns a folder of n dead letters for a server that calls first in
// the middle of the first delivery.
func deadLetters(t *testing.T, n int, first func()) (dir string, delivered *atomic.Int32) {
	t.Helper()
	dir, delivered = t.TempDir(), new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if delivered.Add(1) == 1 {
			first()
		}
	}))
	t.Cleanup(s.Close)
	for range n {
		req, err := http.NewRequest("POST", s.URL, strings.NewReader("1"))
		if err != nil {
			t.Fatal(err)
		}
		dead := delivery.DeadLetter{Request: req, Attempts: 4}
		if err := (&letters.Dir{Path: dir}).Put(context.Background(), dead); err != nil {
			t.Fatal(err)
		}
	}
	return dir, delivered
}

func lettersLeft(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// As in awsretry-deliver letters redrive DIR | head: no letter is both delivered and
// kept.
func TestRedriveIntoClosedPipe(t *testing.T) {
	sending, closed := make(chan struct{}), make(chan struct{})
	dir, delivered := deadLetters(t, 5, func() {
		close(sending)
		<-closed
	})
	cmd := clitest.Process(t, nil, "letters", "redrive", "--allow-private", dir)
	stdout, stderr := start(t, cmd)
	<-sending
	stdout.Close()
	close(closed)
	text, err := io.ReadAll(stderr)
	cmd.Wait()
	const want = "awsretry-deliver letters redrive: standard output was closed: interrupted: 1 delivered, 4 not sent\n"
	if string(text) != want || err != nil || cmd.ProcessState.ExitCode() != cli.Failure {
		t.Errorf("%v, %q, %v; want %q", cmd.ProcessState, text, err, want)
	}
	if left := lettersLeft(t, dir); left != 4 || delivered.Load() != 1 {
		t.Errorf("%d delivered and %d left, want 1 and 4", delivered.Load(), left)
	}
}

// The end of the terminal is like Ctrl-C, except under nohup.
func TestRedriveHangup(t *testing.T) {
	own := make(chan os.Signal, 1)
	signal.Notify(own, syscall.SIGHUP) // so that no process inherits that it is ignored
	defer signal.Stop(own)
	for _, c := range []struct {
		nohup   bool
		left    int
		status  int
		verdict string
	}{
		{false, 1, cli.Failure, "✗ interrupted: 1 delivered, 1 not sent\n"},
		{true, 0, 0, "✓ 2 delivered\n"},
	} {
		t.Run(fmt.Sprintf("nohup %t", c.nohup), func(t *testing.T) {
			sending, proceed := make(chan struct{}), make(chan struct{})
			dir, _ := deadLetters(t, 2, func() {
				close(sending)
				<-proceed
			})
			cmd := clitest.Process(t, nil, "letters", "redrive", "--allow-private", dir)
			if c.nohup {
				cmd = clitest.Process(t, nohup, "letters", "redrive", "--allow-private", dir)
			}
			stdout, stderr := start(t, cmd)
			<-sending
			cmd.Process.Signal(syscall.SIGHUP)
			if !c.nohup {
				if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil ||
					!strings.Contains(line, "ends on its own") {
					t.Errorf("standard error has %q, %v", line, err)
				}
			}
			close(proceed)
			text, err := io.ReadAll(stdout)
			cmd.Wait()
			if err != nil || !strings.HasSuffix(string(text), c.verdict) || cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("%v, %v, want status %d and %q:\n%s", cmd.ProcessState, err, c.status, c.verdict, text)
			}
			if left := lettersLeft(t, dir); left != c.left {
				t.Errorf("%d letters are left, want %d", left, c.left)
			}
		})
	}
}
