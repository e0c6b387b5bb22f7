//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
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
	stdout = clitest.Must[io.ReadCloser](t)(cmd.StdoutPipe())
	stderr = clitest.Must[io.ReadCloser](t)(cmd.StderrPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return stdout, stderr
}

// deadLetters returns a folder of n dead letters for a server that, in the middle
// of the first delivery, closes sending and waits for proceed.
func deadLetters(t *testing.T, n int) (dir string, sending, proceed chan struct{}) {
	t.Helper()
	dir, sending, proceed = t.TempDir(), make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() {
		close(sending)
		<-proceed
	})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		first()
	}))
	t.Cleanup(s.Close)
	for range n {
		req := httptest.NewRequest("POST", s.URL, strings.NewReader("1"))
		if err := (&letters.Dir{Path: dir}).Put(t.Context(), delivery.DeadLetter{Request: req, Attempts: 4}); err != nil {
			t.Fatal(err)
		}
	}
	return dir, sending, proceed
}

func lettersLeft(t *testing.T, dir string) int {
	t.Helper()
	return len(clitest.Must[[]os.DirEntry](t)(os.ReadDir(dir)))
}

// As in awsretry-deliver letters redrive DIR | head: no letter is both delivered and
// kept.
func TestRedriveIntoClosedPipe(t *testing.T) {
	dir, sending, proceed := deadLetters(t, 5)
	cmd := clitest.Process(t, nil, "letters", "redrive", "--allow-private", dir)
	stdout, stderr := start(t, cmd)
	<-sending
	stdout.Close()
	close(proceed)
	text, err := io.ReadAll(stderr)
	cmd.Wait()
	const want = "awsretry-deliver letters redrive: standard output was closed: interrupted: 1 delivered, 4 not sent\n"
	if string(text) != want || err != nil || cmd.ProcessState.ExitCode() != cli.Failure {
		t.Errorf("%v, %q, %v; want %q", cmd.ProcessState, text, err, want)
	}
	if left := lettersLeft(t, dir); left != 4 {
		t.Errorf("%d letters are left, want 4", left)
	}
}

// The end of the terminal is like Ctrl-C, except under nohup.
func TestRedriveHangup(t *testing.T) {
	own := make(chan os.Signal, 1)
	signal.Notify(own, syscall.SIGHUP) // so that no process inherits that it is ignored
	defer signal.Stop(own)
	for _, c := range []struct {
		before  []string // the command in the command line
		left    int
		status  int
		verdict string
	}{
		{nil, 1, cli.Failure, "✗ interrupted: 1 delivered, 1 not sent\n"},
		{nohup, 0, 0, "✓ 2 delivered\n"},
	} {
		t.Run(c.verdict, func(t *testing.T) {
			dir, sending, proceed := deadLetters(t, 2)
			cmd := clitest.Process(t, c.before, "letters", "redrive", "--allow-private", dir)
			stdout, stderr := start(t, cmd)
			<-sending
			cmd.Process.Signal(syscall.SIGHUP)
			if c.before == nil {
				line, err := bufio.NewReader(stderr).ReadString('\n')
				if err != nil || !strings.Contains(line, "ends on its own") {
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
