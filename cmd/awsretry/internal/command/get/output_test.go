package get

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

// cutOff returns the URL of a service whose body is shorter than it announces.
func cutOff(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("only this"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestOutput(t *testing.T) {
	for _, c := range []struct {
		name    string
		make    func(path string) error
		url     string  // "": the replies
		replies replies // nil: a success after a retry
		stdout  string
		status  int
		content string // of the file afterwards; "": it is not there
		mode    os.FileMode
		stderr  string
	}{
		{name: "new", content: "hello", stderr: "5 bytes written to "},
		{name: "replaced", make: write("old and longer", 0o640), content: "hello", mode: 0o640,
			stderr: "5 bytes written to "},
		{name: "cut off", url: cutOff(t), status: 1, stderr: "the body was cut off after 9 bytes"},
		{name: "cut off over another", make: write("old", 0o600), url: cutOff(t), status: 1,
			content: "old", mode: 0o600,
			stderr: "nothing was written to "},
		{name: "failure", replies: replies{clitest.Unavailable}, status: 22, stdout: clitest.Unavailable.Body,
			stderr: "nothing is written to "},
		{name: "failure over a good one", make: write("good", 0o600), replies: replies{clitest.Unavailable}, status: 22,
			stdout:  clitest.Unavailable.Body,
			content: "good", mode: 0o600,
			stderr: "which only a successful 2xx replaces: the body goes to standard output"},
		{name: "not modified", make: write("good", 0o600), replies: replies{{Status: 304}},
			content: "good", mode: 0o600,
			stderr: "only a successful 2xx"},
		{name: "redirect", make: write("good", 0o600),
			replies: replies{{Status: 302, Header: map[string]string{"Location": "/login"}, Body: "log in"}},
			stdout:  "log in", content: "good", mode: 0o600, stderr: "only a successful 2xx"},
		{name: "redirect without a file", replies: replies{{Status: 302, Body: "log in"}}, stdout: "log in",
			stderr: "nothing is written to "},
		{name: "no response", make: write("old", 0o600), url: "http://127.0.0.1:1/", status: 1, content: "old",
			mode: 0o600, stderr: "no response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, "out")
			if c.make != nil {
				if err := c.make(path); err != nil {
					t.Fatal(err)
				}
			}
			url := c.url
			if c.replies == nil {
				c.replies = replies{clitest.Unavailable, clitest.Fine}
			}
			if url == "" {
				url = clitest.Start(t, c.replies...).URL
			}
			got := clitest.Shell{}.Run(t, New, quick("-o", path, url)...)
			got.Check(t, c.status, c.stdout, c.stderr)
			content, err := os.ReadFile(path)
			if string(content) != c.content || os.IsNotExist(err) != (c.content == "") {
				t.Errorf("the file has %q, %v; want %q", content, err, c.content)
			}
			if info, err := os.Stat(path); err == nil && c.mode != 0 && info.Mode() != c.mode {
				t.Errorf("the file's mode is %v, want %v", info.Mode(), c.mode)
			}
			saved := strings.Contains(got.Err, " written to "+path+"\n")
			if saved != strings.Contains(c.stderr, "5 bytes written to ") {
				t.Errorf("standard error says that the file is written, %v:\n%s", saved, got.Err)
			}
			files, err := os.ReadDir(folder)
			if want := min(len(c.content), 1); err != nil || len(files) != want {
				t.Errorf("the folder has %v, %v; want %d", files, err, want)
			}
		})
	}
}

func write(content string, mode os.FileMode) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(content), mode) }
}
