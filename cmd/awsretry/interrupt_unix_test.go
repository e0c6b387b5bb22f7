//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newPipe makes a named pipe and sees to it that nobody is left waiting for its other end.
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

// Opening a named pipe waits for its other end, and reading it for its writer; neither outlasts the first Ctrl-C.
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
