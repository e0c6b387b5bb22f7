//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

const processVariable = "AWSRETRY_TEST_PROCESS"

// TestProcess is the command itself, in a process of its own.
func TestProcess(t *testing.T) {
	if os.Getenv(processVariable) == "" {
		t.Skip("for the tests that start a process")
	}
	os.Args = append([]string{"awsretry"}, strings.Fields(os.Getenv(processVariable))...)
	main()
}

// start starts a command line, under nohup or not.
func start(t *testing.T, nohup bool, args ...string) (cmd *exec.Cmd, stdout, stderr io.ReadCloser) {
	t.Helper()
	script := `exec "$0" "-test.run=^TestProcess$"`
	if nohup {
		script = `trap "" HUP; ` + script
	}
	cmd = exec.CommandContext(t.Context(), "sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), processVariable+"="+strings.Join(args, " "))
	var err error
	if stdout, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if stderr, err = cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout, stderr
}

// countDeliveries is a server that calls first in the middle of the first delivery.
func countDeliveries(t *testing.T, first func()) (url string, delivered *atomic.Int32) {
	delivered = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if delivered.Add(1) == 1 {
			first()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, delivered
}

// As in awsretry deadletter redrive DIR | head: no letter is both delivered and kept.
func TestRedriveIntoAClosedPipe(t *testing.T) {
	sending, closed := make(chan struct{}), make(chan struct{})
	dir := t.TempDir()
	url, delivered := countDeliveries(t, func() {
		close(sending)
		<-closed
	})
	for range 5 {
		bury(t, dir, url, "1", nil)
	}
	cmd, stdout, stderr := start(t, false, "deadletter", "redrive", dir)
	<-sending
	stdout.Close()
	close(closed)
	text, err := io.ReadAll(stderr)
	cmd.Wait()
	const want = "awsretry deadletter redrive: standard output was closed: interrupted: 1 delivered, 4 not sent\n"
	if string(text) != want || err != nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, %q, %v; want %q", cmd.ProcessState, text, err, want)
	}
	if left := lettersIn(t, dir); left != 4 || delivered.Load() != 1 {
		t.Errorf("%d delivered and %d left", delivered.Load(), left)
	}
}

// The end of the terminal is like Ctrl-C, but not under nohup.
func TestRedriveHangup(t *testing.T) {
	for _, c := range []struct {
		nohup   bool
		left    int
		status  int
		verdict string
	}{
		{false, 1, 1, "✗ interrupted: 1 delivered, 1 not sent\n"},
		{true, 0, 0, "✓ 2 delivered\n"},
	} {
		t.Run(fmt.Sprintf("nohup %t", c.nohup), func(t *testing.T) {
			sending, proceed := make(chan struct{}), make(chan struct{})
			dir := t.TempDir()
			url, _ := countDeliveries(t, func() {
				close(sending)
				<-proceed
			})
			bury(t, dir, url, "1", nil)
			bury(t, dir, url, "2", nil)
			cmd, stdout, stderr := start(t, c.nohup, "deadletter", "redrive", dir)
			<-sending
			cmd.Process.Signal(syscall.SIGHUP)
			if !c.nohup {
				if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.Contains(line, "comes to its end") {
					t.Errorf("%q, %v", line, err)
				}
			}
			close(proceed)
			text, err := io.ReadAll(stdout)
			cmd.Wait()
			if err != nil || !strings.HasSuffix(string(text), c.verdict) || lettersIn(t, dir) != c.left || cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("%v, %d letters are left, %v:\n%s", cmd.ProcessState, lettersIn(t, dir), err, text)
			}
		})
	}
}
