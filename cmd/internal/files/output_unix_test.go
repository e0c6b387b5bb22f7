//go:build unix

package files

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

func TestPipe(t *testing.T) {
	path, read := newPipe(t), make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(path)
		read <- string(text)
	}()
	if err := write(t, path, "text", (*Output).Keep); err != nil {
		t.Error(err)
	}
	if text := <-read; text != "text" {
		t.Errorf("the pipe has %q", text)
	}
}

// Opening a pipe without a reader waits, until the context ends.
func TestPipeWithoutReader(t *testing.T) {
	path := newPipe(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if _, err := Create(ctx, path, io.Discard); err != errInterrupted {
		t.Errorf("got error %v, want %v", err, errInterrupted)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil { // ends the open that is waiting
		f.Close()
	}
}

// A file in a folder that is read-only, even for root, is overwritten.
func TestNoFileBeside(t *testing.T) {
	const path = "/proc/self/comm" // of Linux
	before, err := os.ReadFile(path)
	if err != nil {
		t.Skip(err)
	}
	defer os.WriteFile(path, before, 0)
	if err := write(t, path, "outfile-test", (*Output).Keep); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "outfile-test\n" {
		t.Errorf("got %q, %v", got, err)
	}
}
