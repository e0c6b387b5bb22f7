package interop

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A childProcess is a server that ends when its standard input does.
type childProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of its standard output
	stderr *childOutput
}

// A childOutput is what a child has written so far.
type childOutput struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (o *childOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *childOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startChild starts cmd. The process ends with the test.
func startChild(t testing.TB, cmd *exec.Cmd) *childProcess {
	t.Helper()
	p := &childProcess{cmd: cmd, lines: make(chan string, 16), stderr: new(childOutput)}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", cmd.Path, err)
	}
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(p.end)
	return p
}

// line returns the next line of the child's standard output.
func (p *childProcess) line(wait time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", errors.New("the process has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// end closes the child's standard input. It kills the child if that does not
// end it.
func (p *childProcess) end() {
	p.stdin.Close()
	timer := time.AfterFunc(3*time.Second, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	for range p.lines { // Wait closes the pipe
	}
	p.cmd.Wait()
}
