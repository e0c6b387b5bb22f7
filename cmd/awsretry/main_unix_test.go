//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
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

// As in get -o /dev/stdout >> log: an open file is continued, and not replaced.
func TestOutputToOpenFile(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	if err := os.Symlink("/dev/stdout", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/stderr", "/dev/fd/3", link} {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			continue // not on this system
		}
		t.Run(path, func(t *testing.T) {
			log := clitest.Must[*os.File](t)(os.OpenFile(
				clitest.File(t, "log", "before\n"), os.O_WRONLY|os.O_APPEND, 0))
			defer log.Close()
			cmd := clitest.Process(t, nil, "get", "--json", "-o", path, clitest.Start(t, clitest.Fine).URL)
			switch filepath.Base(path) {
			case "stderr":
				cmd.Stderr = log
			case "3":
				cmd.ExtraFiles = []*os.File{log}
			default:
				cmd.Stdout = log
			}
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
			text := string(clitest.Must[[]byte](t)(os.ReadFile(log.Name())))
			if !strings.HasPrefix(text, "before\n") || !strings.Contains(text, clitest.Fine.Body) {
				t.Errorf("the log has %q", text)
			}
		})
	}
}

// The end of the terminal leaves neither a temporary file nor a half one, however
// often the process hears of it.
func TestHangup(t *testing.T) {
	begun := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("half"))
		http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	defer s.Close()
	path := clitest.File(t, "out", "old")
	own := make(chan os.Signal, 1)
	signal.Notify(own, syscall.SIGHUP) // so that the process does not inherit that it is ignored
	defer signal.Stop(own)
	cmd := clitest.Process(t, nil, "get", "-o", path, s.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	for range 2 {
		cmd.Process.Signal(syscall.SIGHUP)
	}
	cmd.Wait()
	files := clitest.Must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(path)))
	text := clitest.Must[[]byte](t)(os.ReadFile(path))
	if status := cmd.ProcessState.ExitCode(); status != cli.Failure || len(files) != 1 || string(text) != "old" {
		t.Errorf("%v, the folder has %v, and the file %q", cmd.ProcessState, files, text)
	}
}
