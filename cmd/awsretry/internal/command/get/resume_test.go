package get

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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
	whole    bool   // nothing breaks off
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
	if !f.whole {
		w = httpfake.CutAfter(w, 400)
	}
	serve(w, r, etag, object)
}

func TestResume(t *testing.T) {
	for _, c := range []struct {
		name     string
		service  *fragile
		args     []string
		status   int
		requests int32
		left     int // bytes that the next get continues
		stderr   []string
	}{
		{"two breaks", &fragile{}, nil, 0, 3, 0, []string{
			"     broke off at 400 B of 1.0 kB: unexpected EOF\n", "from byte 400\n",
			"     broke off at 800 B of 1.0 kB: unexpected EOF\n", "from byte 800\n",
			"✓ 200 OK after 3 attempts", "1,000 bytes written to ", ", 2 breaks\n",
		}},
		{"the caller's range", &fragile{}, []string{"-H", "Range: bytes=0-999"}, 0, 3, 0, []string{
			"broke off at 400 B: unexpected EOF\n", "✓ 206 Partial Content after 3 attempts",
		}},
		{"no response with the rest", &fragile{hangsUp: 2}, nil, 0, 4, 0, []string{
			"✓ 200 OK after 4 attempts", ", 2 breaks\n", "from byte 400, EOF\n",
		}},
		{"another object", &fragile{changes: true}, nil, cli.Failure, 2, 400, []string{
			"✗ the body was cut off after 400 bytes, and nothing was written to ", ": the object has changed",
		}},
		{"no strong ETag", &fragile{etag: `W/"v1"`}, nil, cli.Failure, 1, 0, []string{
			"warning: if the body breaks off, it is not continued: its ETag is weak\n",
			"✗ the body was cut off after 400 bytes, and nothing was written to ",
			": unexpected EOF; the body is not continued: its ETag is weak\n",
		}},
		{"no retries", &fragile{}, []string{"--max-attempts", "1"}, cli.Failure, 1, 400, []string{
			"it is not continued: no retry is allowed",
		}},
		{"the service fails", &fragile{fails: 503}, nil, cli.Failure, 3, 400, []string{
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
			wantFile(t, path, want, c.left)
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
		if got.Status != 0 || !strings.Contains(got.Err, c.bar) || c.bar == "" && strings.ContainsAny(got.Err, "░\r") {
			t.Errorf("%s: status %d, want 0 and the bar %q: %q", name, got.Status, c.bar, got.Err)
		}
		if c.bar != "" && !strings.Contains(got.Err, "\x1b[2K\r     \x1b[33mbroke off") {
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
		wantFile(t, path, "old", 400)
	}
}

// A get continues with what an earlier one has left, if that is the same version.
func TestResumeOfAnEarlierGet(t *testing.T) {
	const ranged = "bytes=400-"
	other := bytes.Repeat([]byte("abcdefghij"), 100)
	partOfOther := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Range")
		serve(w, r, `"v2"`, other)
	}
	noRest := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == ranged {
			w.Header().Set("Content-Range", "bytes */400")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		serve(w, r, `"v2"`, other)
	}
	same := func(w http.ResponseWriter, r *http.Request) { serve(w, r, `"v1"`, object) }
	for _, c := range []struct {
		name   string
		serve  http.HandlerFunc // the second get
		url    string           // of it, relative
		args   []string
		asked  []string // its Ranges
		want   []byte   // in the file afterwards
		left   int
		stderr string
	}{
		{"the same version", same, "", nil, []string{ranged}, object, 0, "continues at 400 B"},
		{"JSON", same, "", []string{"--json"}, []string{ranged}, object, 0, `{"continues_at_bytes":400}`},
		{"cut off again", func(w http.ResponseWriter, r *http.Request) { same(httpfake.CutAfter(w, 400), r) },
			"", nil, []string{ranged}, []byte("old"), 800, "cut off after 800 bytes"},
		{"another version", func(w http.ResponseWriter, r *http.Request) { serve(w, r, `"v2"`, other) },
			"", nil, []string{ranged}, other, 0, "the service sent another version"},
		{"a part of another version", partOfOther, "", nil, []string{ranged, ""}, other, 0, "not continued"},
		{"no rest", noRest, "", nil, []string{ranged, ""}, other, 0, "not continued"},
		{"another URL", same, "/?other", nil, []string{""}, object, 400, "1,000 bytes written"},
		{"a range of the user's", same, "", []string{"-H", "Range: bytes=0-999"}, []string{"bytes=0-999"}, object, 400, ""},
		{"a failure", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
			"", nil, []string{ranged}, []byte("old"), 400, "503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			handle, asked := (&fragile{}).ServeHTTP, []string(nil)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Header.Get("Range"))
				handle(w, r)
			}))
			t.Cleanup(server.Close)
			path := clitest.File(t, "out", "old")
			args := quick("--resume", "--max-attempts", "1", "-o", path)
			clitest.Shell{}.Run(t, New, append(args, server.URL)...).Check(t, cli.Failure, "")
			wantFile(t, path, "old", 400)
			handle, asked = c.serve, nil
			got := clitest.Shell{}.Run(t, New, append(append(args, c.args...), server.URL+c.url)...)
			if !slices.Equal(asked, c.asked) || !strings.Contains(got.Err, c.stderr) {
				t.Errorf("asked for %q, want %q and %q:\n%s", asked, c.asked, c.stderr, got.Err)
			}
			wantFile(t, path, string(c.want), c.left)
		})
	}
}

// serve responds with an object, or the part that the request asks for.
func serve(w http.ResponseWriter, r *http.Request, etag string, object []byte) {
	w.Header().Set("Etag", etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(object))
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

// partPath returns the path of what a get of url has left for the output file.
func partPath(path, url string) string {
	hash := sha256.Sum256([]byte(url))
	etag := base64.RawURLEncoding.EncodeToString([]byte("v1"))
	return path + "." + hex.EncodeToString(hash[:12]) + "." + etag + partSuffix
}

// What is where an earlier get has left a part decides on the next one.
func TestResumeFromAPart(t *testing.T) {
	left := func(size int) func(string) error {
		return func(path string) error { return os.WriteFile(path, object[:size], 0o600) }
	}
	other := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"v1"`)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	shorter := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		serve(httpfake.CutAfter(w, 400), r, `"v1"`, object)
	}
	secret := clitest.File(t, "secret", "secret")
	for _, c := range []struct {
		name  string
		plant func(path string) error
		serve http.HandlerFunc
		want  string // of the file
	}{
		{"the response is another", left(400), other(201, "other"), "other"},
		{"the response has nothing", left(400), other(204, ""), ""},
		{"a link", func(path string) error { return os.Symlink(secret, path) },
			(&fragile{whole: true}).ServeHTTP, string(object)},
		{"a file of another user", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("planted"), 0o644), os.Chown(path, os.Geteuid()+1, -1))
		}, (&fragile{whole: true}).ServeHTTP, string(object)},
		{"the service sends less", left(900), shorter, "old"}, // so the part of 900 bytes is left
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.serve)
			t.Cleanup(server.Close)
			path, remains := clitest.File(t, "out", "old"), 0
			if err := c.plant(partPath(path, server.URL)); err != nil {
				t.Skip(err)
			}
			got := clitest.Shell{}.Run(t, New, quick("--resume", "--max-attempts", "1", "-o", path, server.URL)...)
			if c.want == "old" {
				remains = 900
			}
			if failed := got.Status != 0; failed != (remains > 0) {
				t.Errorf("%+v", got)
			}
			wantFile(t, path, c.want, remains)
		})
	}
}
