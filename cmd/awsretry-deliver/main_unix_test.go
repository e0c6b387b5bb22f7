//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
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

// deliveries returns a store of n deliveries to a server that, in the middle of
// the first one, closes sending and waits for proceed, and the number of requests.
func deliveries(t *testing.T, n int) (db string, sending, proceed chan struct{}, requests *atomic.Int64) {
	t.Helper()
	sending, proceed, requests = make(chan struct{}), make(chan struct{}), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			close(sending)
			<-proceed
		}
	}))
	t.Cleanup(s.Close)
	db = filepath.Join(t.TempDir(), "db")
	for range n {
		got := clitest.Shell{}.RunProgram(t.Context(), t, program, "enqueue", "--allow-private", "--db", db, "-d", "1", s.URL)
		if got.Status != 0 {
			t.Fatalf("%+v", got)
		}
	}
	return db, sending, proceed, requests
}

// checkDelivered checks that each request was a delivery, and that the others wait.
func checkDelivered(t *testing.T, db string, n int, requests *atomic.Int64) {
	t.Helper()
	var stats struct{ Waiting, Running, Delivered int }
	out := clitest.Shell{}.RunProgram(t.Context(), t, program, "stats", "--json", "--db", db).Out
	if err := json.Unmarshal([]byte(out), &stats); err != nil || stats.Delivered != int(requests.Load()) ||
		stats.Running != 0 || stats.Waiting+stats.Delivered != n {
		t.Errorf("%v, %s; %d requests for %d deliveries", err, out, requests.Load(), n)
	}
}

// As in awsretry-deliver work | head: no delivery is made twice.
func TestWorkIntoClosedPipe(t *testing.T) {
	db, sending, proceed, requests := deliveries(t, 5)
	cmd := clitest.Process(t, nil, "work", "--allow-private", "--workers", "1", "--db", db)
	stdout, stderr := start(t, cmd)
	<-sending
	stdout.Close()
	close(proceed)
	text, err := io.ReadAll(stderr)
	cmd.Wait()
	const want = "awsretry-deliver work: standard output was closed: "
	if !strings.Contains(string(text), want) || err != nil || cmd.ProcessState.ExitCode() != cli.Failure {
		t.Errorf("%v, %q, %v; want %q", cmd.ProcessState, text, err, want)
	}
	checkDelivered(t, db, 5, requests)
}

// The first SIGTERM lets attempts end, and another one ends the process at once.
func TestSecondSignal(t *testing.T) {
	db, sending, proceed, _ := deliveries(t, 1)
	defer close(proceed)
	cmd := clitest.Process(t, nil, "work", "--allow-private", "--db", db)
	_, stderr := start(t, cmd)
	<-sending
	cmd.Process.Signal(syscall.SIGTERM)
	if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.Contains(line, "end on their own") {
		t.Fatalf("standard error has %q, %v", line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for range 50 {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			if s := cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGTERM {
				t.Error(cmd.ProcessState)
			}
			return
		case <-time.After(100 * time.Millisecond): // the first one may not have changed what the next one does
		}
	}
	t.Error("it does not end")
}

// The end of the terminal is like Ctrl-C, except under nohup.
func TestWorkHangup(t *testing.T) {
	own := make(chan os.Signal, 1)
	signal.Notify(own, syscall.SIGHUP) // so that no process inherits that it is ignored
	defer signal.Stop(own)
	for _, c := range []struct {
		before  []string // the command in the command line
		status  int
		verdict string
	}{
		{nil, cli.Failure, "✗ interrupted: 1 delivered, "},
		{nohup, 0, "✓ 2 delivered, "},
	} {
		t.Run(c.verdict, func(t *testing.T) {
			db, sending, proceed, requests := deliveries(t, 2)
			cmd := clitest.Process(t, c.before, "work", "--allow-private", "--workers", "1", "--until-empty", "--db", db)
			stdout, stderr := start(t, cmd)
			<-sending
			cmd.Process.Signal(syscall.SIGHUP)
			if c.before == nil {
				line, err := bufio.NewReader(stderr).ReadString('\n')
				if err != nil || !strings.Contains(line, "end on their own") {
					t.Errorf("standard error has %q, %v", line, err)
				}
			}
			close(proceed)
			text, err := io.ReadAll(stdout)
			cmd.Wait()
			if err != nil || !strings.Contains(string(text), "\n"+c.verdict) || cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("%v, %v, want status %d and %q:\n%s", cmd.ProcessState, err, c.status, c.verdict, text)
			}
			checkDelivered(t, db, 2, requests)
		})
	}
}
