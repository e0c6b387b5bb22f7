package get

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/internal/httpfake"
)

// object is what a fragile service has.
var object = bytes.Repeat([]byte("0123456789"), 100)

// A fragile is a service whose responses break off after 400 bytes.
type fragile struct {
	etag     string // "": the strong one
	changes  bool   // the object is another one at the second request
	fails    int    // status of every request but the first; 0: none
	hangsUp  int32  // a request that gets no response; 0: none
	unsized  bool   // the first response has no Content-Length
	requests atomic.Int32
}

func (f *fragile) start(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

func (f *fragile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := f.requests.Add(1)
	etag := f.etag
	switch {
	case r.Header.Get("Accept-Encoding") != "identity": // net/http would decompress the response
		w.WriteHeader(http.StatusNotAcceptable)
		return
	case n == f.hangsUp:
		panic(http.ErrAbortHandler)
	case f.fails > 0 && n > 1:
		w.WriteHeader(f.fails)
		return
	case f.changes && n > 1:
		etag = `"v2"`
	case etag == "":
		etag = `"v1"`
	}
	w.Header().Set("Content-Type", "text/plain")
	if f.unsized && n == 1 {
		w.Header().Set("Etag", etag)
		w.Write(object[:400])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Etag", etag)
	http.ServeContent(httpfake.CutAfter(w, 400), r, "", time.Time{}, bytes.NewReader(object))
}

func TestResume(t *testing.T) {
	for _, c := range []struct {
		name     string
		service  *fragile
		args     []string
		status   int
		requests int32
		stderr   []string
	}{
		{"two breaks", &fragile{}, nil, 0, 3, []string{
			"     broke off at 400 B of 1.0 kB: unexpected EOF\n", "from byte 400\n",
			"     broke off at 800 B of 1.0 kB: unexpected EOF\n", "from byte 800\n",
			"✓ 200 OK after 3 attempts", "1,000 bytes written to ", ", 2 breaks\n",
		}},
		{"the caller's range", &fragile{}, []string{"-H", "Range: bytes=0-999"}, 0, 3, []string{
			"broke off at 400 B: unexpected EOF\n", "✓ 206 Partial Content after 3 attempts",
		}},
		{"no response with the rest", &fragile{hangsUp: 2}, nil, 0, 4, []string{
			"✓ 200 OK after 4 attempts", ", 2 breaks\n", "from byte 400, EOF\n",
		}},
		{"another object", &fragile{changes: true}, nil, cli.Failure, 2, []string{
			"✗ the body was cut off after 400 bytes, and nothing was written to ", ": the object has changed",
		}},
		{"no strong ETag", &fragile{etag: `W/"v1"`}, nil, cli.Failure, 1, []string{
			"warning: if the body breaks off, it is not continued: its ETag is weak\n",
			"✗ the body was cut off after 400 bytes, and nothing was written to ",
			": unexpected EOF; the body is not continued: its ETag is weak\n",
		}},
		{"no retries", &fragile{}, []string{"--max-attempts", "1"}, cli.Failure, 1, []string{
			"it is not continued: no retry is allowed",
		}},
		{"the service fails", &fragile{fails: 503}, nil, cli.Failure, 3, []string{
			"503", "from byte 400\n", "✗ the body was cut off after 400 bytes", "all attempts are used up",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := clitest.File(t, "out", "old")
			got := clitest.Shell{}.Run(t, New, quick(append(c.args, "--resume", "-o", path, c.service.start(t))...)...)
			want := string(object)
			if c.status != 0 {
				want = "old"
			}
			wantFile(t, path, want)
			got.Check(t, c.status, "", c.stderr...)
			if n := c.service.requests.Load(); n != c.requests {
				t.Errorf("got %d requests, want %d", n, c.requests)
			}
		})
	}
}

// A bar is drawn on a terminal, and for a file.
func TestResumeBar(t *testing.T) {
	terminal := clitest.Shell{Terminals: []string{"stderr"}}
	dumb := clitest.Shell{Terminals: terminal.Terminals, Env: map[string]string{"TERM": "dumb"}}
	file := []string{"-o", os.DevNull}
	for name, c := range map[string]struct {
		shell   clitest.Shell
		args    []string
		unsized bool
		bar     string // a part of it; "": none
	}{
		"terminal":        {terminal, file, false, "░"},
		"unknown length":  {terminal, file, true, " 0 B)"},
		"no terminal":     {clitest.Shell{}, file, false, ""},
		"dumb terminal":   {dumb, file, false, ""},
		"standard output": {terminal, nil, false, ""},
		"JSON":            {terminal, append(file, "--json"), false, ""},
	} {
		url := (&fragile{unsized: c.unsized}).start(t)
		got := c.shell.Run(t, New, quick(append(c.args, "--resume", url)...)...)
		if got.Status != 0 {
			t.Errorf("%s: status %d: %q", name, got.Status, got.Err)
		}
		if c.bar == "" {
			if strings.ContainsAny(got.Err, "░\r") {
				t.Errorf("%s: there is a bar: %q", name, got.Err)
			}
			continue
		}
		if !strings.Contains(got.Err, c.bar) {
			t.Errorf("%s: there is no %q: %q", name, c.bar, got.Err)
		}
		if !strings.Contains(got.Err, "\x1b[2K\r     \x1b[33mbroke off") {
			t.Errorf("%s: the bar is not removed before a line: %q", name, got.Err)
		}
	}
}

func TestResumeInterrupted(t *testing.T) {
	const want = "the body was cut off after 400 bytes, and nothing was written to "
	for before, args := range map[string][]string{"✗ ": nil, `{"error":"`: {"--json"}} {
		path := clitest.File(t, "out", "old")
		ctx, cancel := context.WithCancelCause(t.Context())
		watch := clitest.NewWatch("unexpected EOF", func() { cancel(errors.New("interrupt signal received")) })
		args = append([]string{"get", "--resume", "--base-delay", "1m", "--max-delay", "1m", "--jitter", "none",
			"-o", path, (&fragile{}).start(t)}, args...)
		got := clitest.Shell{Err: watch}.RunContext(ctx, t, New, args...)
		got.Err = watch.String()
		got.Check(t, cli.Interrupted, "", before+want, "interrupted")
		wantFile(t, path, "old")
	}
}

// A terminal that has gone away does not end the download.
func TestResumeWithoutTerminal(t *testing.T) {
	url := (&fragile{}).start(t)
	path := filepath.Join(t.TempDir(), "copy")
	shell := clitest.Shell{Terminals: []string{"stderr"}, Err: &goneTerminal{left: 1}}
	got := shell.Run(t, New, quick("--resume", "-o", path, url)...)
	if info, err := os.Stat(path); err != nil || info.Size() == 0 || got.Status != 0 {
		t.Errorf("status %d, %v", got.Status, err)
	}
}

// A goneTerminal fails after a number of writes.
type goneTerminal struct{ left int }

func (g *goneTerminal) Write(p []byte) (int, error) {
	if g.left--; g.left < 0 {
		return 0, errors.New("input/output error")
	}
	return len(p), nil
}
