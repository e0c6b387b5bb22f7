//go:build unix

package files

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	read := make(chan string, 1)
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
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := Create(ctx, path, io.Discard)
	if err != why {
		t.Errorf("got error %v, want %v", err, why)
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil { // ends the open that is waiting
		f.Close()
	}
}
