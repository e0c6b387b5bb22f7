//go:build unix

package awsretry

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Files that are not regular are refused at once. Opening a named pipe would
// wait for its writer.
func TestConfigFileThatIsNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	defer listener.Close()
	for path, kind := range map[string]string{pipe: "a pipe", linkTo(t, pipe): "a pipe", socket: "a socket", dir: "a directory", "/dev/zero": "a device"} {
		want := "awsretry: open " + path + ": it is " + kind + "; a config or credentials file must be a regular file"
		refused := make(chan error, 1)
		go func() {
			_, err := Source{ConfigFile: path, CredentialsFile: path + "none", Getenv: func(string) string { return "" }}.Resolve()
			refused <- err
		}()
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %s", err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("reading %s, %s, takes for ever", path, kind)
		}
	}
}
