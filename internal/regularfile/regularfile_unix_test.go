//go:build unix

package regularfile

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What is not regular is refused at once: opening a named pipe would block
// until something writes to it.
func TestOpenDoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	pipe, socket, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer listener.Close()
	for _, path := range []string{pipe, link, socket, "/dev/zero"} {
		refused := make(chan struct{})
		go func() {
			defer close(refused)
			checkFails(t, path, ErrNotRegular)
		}()
		select {
		case <-refused:
		case <-time.After(time.Minute):
			t.Fatalf("Open of %s blocks", path)
		}
	}
}
