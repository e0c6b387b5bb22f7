package get

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// Only a complete 2xx response replaces a file.
func TestOutput(t *testing.T) {
	shorter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("only this"))
	}))
	defer shorter.Close()
	redirect := clitest.Reply{Status: 302, Header: map[string]string{"Location": "/login"}, Body: "log in"}
	for _, c := range []struct {
		name    string
		url     string
		status  int
		stdout  string
		content string // of the file afterwards
		stderr  string
	}{
		{"saved", clitest.Start(t, clitest.Unavailable, clitest.Fine).URL, 0, "", "hello", "5 bytes written to FILE\n"},
		{"cut off", shorter.URL, cli.Failure, "", "old",
			"✗ the body was cut off after 9 bytes, and nothing was written to FILE: unexpected EOF\n"},
		{"failure", clitest.Start(t, clitest.Invalid).URL, cli.HTTPError, clitest.Invalid.Body, "old",
			"nothing is written to FILE, which only a successful 2xx replaces: the body goes to standard output\n"},
		{"redirect", clitest.Start(t, redirect).URL, 0, "log in", "old", "nothing is written to FILE"},
		{"no response", "http://127.0.0.1:1/", cli.Failure, "", "old", "no response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := clitest.File(t, "out", "old")
			got := clitest.Shell{}.Run(t, New, quick("-o", path, c.url)...)
			got.Err = strings.ReplaceAll(got.Err, path, "FILE")
			got.Check(t, c.status, c.stdout, c.stderr)
			wantFile(t, path, c.content)
			if saved := strings.Contains(got.Err, " bytes written to "); saved != (c.content == "hello") {
				t.Errorf("standard error says that the file is written, %v:\n%s", saved, got.Err)
			}
		})
	}
}

// Ctrl-C and --timeout end a get wherever it waits.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := func() { cancel(errors.New("interrupt signal received")) }
	for _, c := range []struct {
		name   string
		shell  func() clitest.Shell
		args   []string
		reply  clitest.Reply
		status int
		want   string
	}{
		{"in a delay", nil, nil, clitest.Throttling, cli.Interrupted, "✗ interrupted after 1 attempt"},
		{"in a delay, JSON", nil, []string{"--json"}, clitest.Throttling, cli.Interrupted, `{"error":"interrupted"}`},
		{"reading the body", func() clitest.Shell { return clitest.Shell{In: &clitest.Stuck{Began: interrupt}} },
			[]string{"-d", "@-"}, clitest.Fine, cli.Interrupted, "✗ interrupted after 1 attempt"},
		{"writing the body", func() clitest.Shell { return clitest.Shell{Out: &clitest.Stuck{Began: interrupt}} },
			nil, clitest.Fine, cli.Interrupted, "the body could not be written: interrupted"},
		{"reading the body, time-out", func() clitest.Shell { return clitest.Shell{In: &clitest.Stuck{Began: func() {}}} },
			[]string{"-d", "@-", "--timeout", "20ms"}, clitest.Fine, cli.Failure, "the time of --timeout, 20ms, is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel = context.WithCancelCause(t.Context())
			watch, shell := clitest.NewWatch("throttled", interrupt), clitest.Shell{}
			if c.shell != nil {
				shell = c.shell()
			}
			shell.Err = watch
			args := append([]string{"get", "--base-delay", "1m", "--max-delay", "1m", "--jitter", "none",
				clitest.Start(t, c.reply).URL}, c.args...)
			got := shell.RunContext(ctx, t, New, args...)
			got.Err = watch.String()
			got.Check(t, c.status, "", c.want)
		})
	}
}

// wantFile checks the content of a file, and that its folder has no other.
func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if content := clitest.Must[[]byte](t)(os.ReadFile(path)); string(content) != want {
		t.Errorf("the file has %q, want %q", content, want)
	}
	if files := clitest.Must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(path))); len(files) != 1 {
		t.Errorf("the folder has %v", files)
	}
}
