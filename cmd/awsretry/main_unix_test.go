//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, "awsretry", main) }

func TestCtrlCWhileReading(t *testing.T) {
	received := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body.Read(make([]byte, 1))
		close(received)
	}))
	defer s.Close()
	cmd := clitest.Process(t, nil, "get", "-d", "@-", s.URL)
	stdin := clitest.Must[io.WriteCloser](t)(cmd.StdinPipe())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "some, and no more for now") // the pipe stays open
	<-received
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != cli.Interrupted ||
		!strings.Contains(stderr.String(), "✗ interrupted after 1 attempt") {
		t.Errorf("status %d, standard error\n%s", status, &stderr)
	}
}

// As in get -o FILE URL 2>&1 | head -1: no temporary file is left.
func TestOutputWithClosedStandardError(t *testing.T) {
	folder := t.TempDir()
	closed, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	defer stderr.Close()
	cmd := clitest.Process(t, nil, "get", "-o", filepath.Join(folder, "out"), clitest.Start(t, clitest.Fine).URL)
	cmd.Stderr = stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	files, _ := os.ReadDir(folder)
	if len(files) != 1 || files[0].Name() != "out" {
		t.Errorf("the folder has %v, want out", files)
	}
}
