//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newPipe makes a named pipe. At the end of the test it wakes everybody who
// still waits for the other end.
func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			time.Sleep(time.Millisecond) // the others' opens return while both ends are there
			f.Close()
		}
	})
	return path
}

// Opening a named pipe waits for its other end, and reading it for its writer;
// neither outlasts the first Ctrl-C.
func TestInterruptedAtPipe(t *testing.T) {
	s := serve(t, fine)
	for _, c := range []struct {
		name   string
		writer bool // somebody has opened the pipe for writing, and writes nothing
		args   func(pipe string) []string
	}{
		{"opening the body", false, func(pipe string) []string { return []string{"get", "-d", "@" + pipe, s.URL} }},
		{"reading the body", true, func(pipe string) []string { return []string{"get", "-d", "@" + pipe, s.URL} }},
		{"opening the output", false, func(pipe string) []string { return []string{"get", "-o", pipe, s.URL} }},
		{"opening the picture", false, func(pipe string) []string { return []string{"schedule", "--svg", pipe, "--aws-managed"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			pipe := newPipe(t)
			if c.writer {
				w, err := os.OpenFile(pipe, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			got := shell{}.runContext(t, ctx, c.args(pipe)...)
			if elapsed := time.Since(start); got.status != exitFailure || !strings.Contains(got.stderr, "interrupted") || elapsed > 5*time.Second {
				t.Errorf("%+v after %v", got, elapsed)
			}
		})
	}
}

func TestGetBodyFromPipe(t *testing.T) {
	pipe := newPipe(t)
	go os.WriteFile(pipe, []byte("through a pipe"), 0)
	s := serve(t, unavailable, fine)
	got := shell{}.run(t, get("-d", "@"+pipe, s.URL)...)
	if bodies := s.received(); got.status != 0 || len(bodies) != 2 || bodies[0] != "through a pipe" || bodies[1] != bodies[0] {
		t.Errorf("%q came, %+v", bodies, got)
	}
}

// A pipe gets the body of a failure too: there is no file to keep.
func TestOutputToPipe(t *testing.T) {
	for _, answer := range []reply{fine, invalid} {
		pipe := newPipe(t)
		read := make(chan string, 1)
		go func() {
			text, _ := os.ReadFile(pipe)
			read <- string(text)
		}()
		got := shell{}.run(t, get("-o", pipe, serve(t, answer).URL)...)
		if text := <-read; text != answer.body || got.stdout != "" {
			t.Errorf("the pipe brings %q, want %q: %+v", text, answer.body, got)
		}
	}
}

const childArgs = "AWSRETRY_TEST_ARGS"

// TestChild is the command, for tests that need a process.
func TestChild(t *testing.T) {
	args, ok := os.LookupEnv(childArgs)
	if !ok {
		t.Skip("it is run by other tests")
	}
	os.Args = append([]string{"awsretry"}, strings.Split(args, "\n")...)
	main()
}

func child(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), childArgs+"="+strings.Join(args, "\n"))
	return cmd
}

func TestCtrlCWhileReading(t *testing.T) {
	received := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body.Read(make([]byte, 1))
		close(received)
	}))
	defer s.Close()
	cmd := child(t, "get", "-d", "@-", s.URL)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "some, and no more for now") // the other end stays open
	<-received
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != exitFailure || !strings.Contains(stderr.String(), "✗ interrupted after 1 attempt") {
		t.Errorf("status %d, standard error\n%s", status, &stderr)
	}
}

// As in get -o FILE URL 2>&1 | head -1: no temporary file remains.
func TestOutputWithClosedStandardError(t *testing.T) {
	folder := t.TempDir()
	closed, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	cmd := child(t, "get", "-o", filepath.Join(folder, "out"), serve(t, fine).URL)
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	stderr.Close()
	files, _ := os.ReadDir(folder)
	if len(files) != 1 || files[0].Name() != "out" {
		t.Errorf("the folder holds %v", files)
	}
}
