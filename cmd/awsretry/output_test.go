package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cutOff says that more is coming than comes.
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
		replies []reply // nil: a success after a retry
		stdout  string
		status  int
		content string // of the file afterwards; "": it is not there
		mode    os.FileMode
		stderr  string
	}{
		{name: "new", content: "hello", stderr: "5 bytes written to "},
		{name: "replaced", make: write("old and longer", 0o640), content: "hello", mode: 0o640, stderr: "5 bytes written to "},
		{name: "cut off", url: cutOff(t), status: 1, stderr: "the body was cut off after 9 bytes"},
		{name: "cut off over another", make: write("old", 0o600), url: cutOff(t), status: 1, content: "old", mode: 0o600,
			stderr: "nothing was written to "},
		{name: "failure", replies: []reply{unavailable}, status: 22, stdout: unavailable.body, stderr: "nothing is written to "},
		{name: "failure over a good one", make: write("good", 0o600), replies: []reply{unavailable}, status: 22, stdout: unavailable.body,
			content: "good", mode: 0o600, stderr: "which only a successful 2xx replaces: the body goes to standard output"},
		{name: "not modified", make: write("good", 0o600), replies: []reply{{status: 304}}, content: "good", mode: 0o600, stderr: "only a successful 2xx"},
		{name: "redirect", make: write("good", 0o600), replies: []reply{{status: 302, header: map[string]string{"Location": "/login"}, body: "log in"}},
			stdout: "log in", content: "good", mode: 0o600, stderr: "only a successful 2xx"},
		{name: "redirect without a file", replies: []reply{{status: 302, body: "log in"}}, stdout: "log in", stderr: "nothing is written to "},
		{name: "no answer", make: write("old", 0o600), url: "http://127.0.0.1:1/", status: 1, content: "old", mode: 0o600, stderr: "no answer"},
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
				c.replies = []reply{unavailable, fine}
			}
			if url == "" {
				url = serve(t, c.replies...).URL
			}
			got := shell{}.run(t, get("-o", path, url)...)
			if got.status != c.status || got.stdout != c.stdout || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("status %d, standard output %q, standard error\n%s\nwant %d, %q, and %q", got.status, got.stdout, got.stderr, c.status, c.stdout, c.stderr)
			}
			content, err := os.ReadFile(path)
			if string(content) != c.content || os.IsNotExist(err) != (c.content == "") {
				t.Errorf("the file holds %q, %v; want %q", content, err, c.content)
			}
			if info, err := os.Stat(path); err == nil && c.mode != 0 && info.Mode() != c.mode {
				t.Errorf("the file's mode is %v, want %v", info.Mode(), c.mode)
			}
			if saved := strings.Contains(got.stderr, " written to "+path+"\n"); saved != strings.Contains(c.stderr, "5 bytes written to ") {
				t.Errorf("standard error says that the file is written, %v:\n%s", saved, got.stderr)
			}
			files, err := os.ReadDir(folder)
			if want := min(len(c.content), 1); err != nil || len(files) != want {
				t.Errorf("the folder holds %v, %v; want %d", files, err, want)
			}
		})
	}
}

func write(content string, mode os.FileMode) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(content), mode) }
}

func TestOutputThroughLink(t *testing.T) {
	folder := t.TempDir()
	target, link := filepath.Join(folder, "target"), filepath.Join(folder, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	if got := (shell{}).run(t, get("-o", link, serve(t, fine).URL)...); got.status != 0 {
		t.Fatalf("status %d, standard error:\n%s", got.status, got.stderr)
	}
	info, err := os.Lstat(link)
	content, _ := os.ReadFile(target)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || string(content) != "hello" {
		t.Errorf("the link is %v, %v, its target holds %q", info, err, content)
	}
}

// A link stays a link also where its file does not exist yet.
func TestOutputThroughLinkToNothing(t *testing.T) {
	for name, test := range map[string]struct{ link, target, file string }{
		"absolute":        {"link", "/store/today", "store/today"}, // within the folder
		"relative":        {"link", "store/today", "store/today"},
		"out of a link":   {"latest/link", "../today", "store/today"}, // latest leads to store/new
		"to another link": {"link", "other", "store/today"},           // other leads to store/today
		"to no folder":    {"link", "none/today", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			folder, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			if filepath.IsAbs(test.target) {
				test.target = filepath.Join(folder, test.target)
			}
			err = errors.Join(os.MkdirAll("store/new", 0o700), os.Symlink("store/new", "latest"), os.Symlink("store/today", "other"),
				os.Symlink(test.target, test.link))
			if err != nil {
				t.Skip(err)
			}
			got := shell{}.run(t, get("-o", test.link, serve(t, fine).URL)...)
			if want := map[bool]int{true: exitUsage}[test.file == ""]; got.status != want {
				t.Errorf("status %d, want %d, standard error:\n%s", got.status, want, got.stderr)
			}
			if info, err := os.Lstat(test.link); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("the link is %v, %v", info, err)
			}
			if test.file == "" {
				return
			}
			if content, err := os.ReadFile(test.file); string(content) != "hello" {
				t.Errorf("%s holds %q, %v", test.file, content, err)
			}
		})
	}
}

func TestOutputToDevice(t *testing.T) {
	if _, err := os.Stat(os.DevNull); err != nil {
		t.Skip(err)
	}
	got := shell{}.run(t, get("-o", os.DevNull, serve(t, fine).URL)...)
	info, err := os.Stat(os.DevNull)
	if got.status != 0 || err != nil || info.Mode().IsRegular() {
		t.Errorf("status %d, and %s is %v, %v:\n%s", got.status, os.DevNull, info, err, got.stderr)
	}
}

// A file that cannot be replaced is overwritten. If that fails too, the body
// stays in the temporary file.
func TestOutputThatCannotBeReplaced(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "out")
	if err := os.WriteFile(path, []byte("old and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *output {
		o, err := openOutput(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		o.rename = func(string, string) error { return syscall.EBUSY }
		io.WriteString(o, "new")
		return o
	}
	if err := open().keep(); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(path); string(content) != "new" || err != nil {
		t.Errorf("the file holds %q, %v", content, err)
	}
	if files, _ := os.ReadDir(folder); len(files) != 1 {
		t.Errorf("the folder holds %v", files)
	}

	o := open()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	err := o.keep()
	var left *leftError
	if !errors.As(err, &left) {
		t.Fatalf("got error %v", err)
	}
	if content, readErr := os.ReadFile(left.part); string(content) != "new" || !strings.Contains(err.Error(), "the body is in "+left.part) {
		t.Errorf("the body is %q, %v: %v", content, readErr, err)
	}
}

// A file in a read-only folder can still be written.
func TestOutputInFolderThatIsReadOnly(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("the folder is not read-only for this user, or on this system")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "out")
	if err := os.WriteFile(path, []byte("old and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(folder, 0o700)
	got := shell{}.run(t, get("-o", path, serve(t, fine).URL)...)
	if content, err := os.ReadFile(path); got.status != 0 || string(content) != "hello" {
		t.Errorf("the file holds %q, %v: %+v", content, err, got)
	}
}

// A fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputFails(t *testing.T) {
	home := t.TempDir()
	for _, args := range [][]string{
		{"get", serve(t, fine).URL},
		{"config"},
		{"config", "--json"},
		{"version"},
		{"demo"},
	} {
		var stderr strings.Builder
		status := run(t.Context(), args, process{
			stdin: strings.NewReader(""), stdout: fullDisk{}, stderr: &stderr,
			getenv:     func(name string) string { return map[string]string{"HOME": home}[name] },
			isTerminal: func(io.Writer) bool { return false },
		})
		if status != exitFailure || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: status %d, standard error:\n%s", args, status, &stderr)
		}
	}
}
