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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
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
	unsized  bool   // the first response does not tell its length
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
	w.Header().Set("Etag", etag)
	w.Header().Set("Content-Type", "text/plain")
	if f.unsized && n == 1 {
		w.Write(object[:400])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if !f.whole {
		w = &shortWriter{w, 400}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(object))
}

// A shortWriter fails when nothing is left of the bytes that it may write, so
// that the server closes the connection.
type shortWriter struct {
	http.ResponseWriter
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	w.left -= n
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
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
		{"no break", &fragile{whole: true}, nil, 0, 1, 0, []string{", 0 breaks\n"}},
		{"the caller's range", &fragile{}, []string{"-H", "Range: bytes=0-999"}, 0, 3, 0, []string{
			"broke off at 400 B: unexpected EOF\n", "✓ 206 Partial Content after 3 attempts",
		}},
		{"no response at first", &fragile{hangsUp: 1}, nil, 0, 4, 0, []string{"✓ 200 OK after 4 attempts", ", 2 breaks\n"}},
		{"no response with the rest", &fragile{hangsUp: 2}, nil, 0, 4, 0, []string{
			"✓ 200 OK after 4 attempts", ", 2 breaks\n", "from byte 400, EOF\n",
		}},
		{"unknown length", &fragile{unsized: true}, nil, 0, 3, 0, []string{
			"broke off at 400 B: unexpected EOF\n", "broke off at 800 B: unexpected EOF\n", ", 2 breaks\n",
		}},
		{"another object", &fragile{changes: true}, nil, cli.Failure, 2, 400, []string{
			"✗ the body was cut off after 400 bytes, and nothing was written to ", ": the object has changed",
		}},
		{"no strong ETag", &fragile{etag: `W/"v1"`}, nil, cli.Failure, 1, 0, []string{
			"warning: if the body breaks off, it is not continued: its ETag is weak\n",
			"✗ the body was cut off after 400 bytes, and nothing was written to ",
			": unexpected EOF; the body is not continued: its ETag is weak\n",
		}},
		{"ETag without quotes", &fragile{etag: "v1"}, nil, cli.Failure, 1, 0, []string{
			"warning: if the body breaks off, it is not continued: its ETag is not in quotes\n",
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
			url := c.service.start(t)
			got := clitest.Shell{}.Run(t, New, quick(append(c.args, "--resume", "-o", path, url)...)...)
			want := object
			if c.status != 0 {
				want = []byte("old")
			}
			wantFile(t, path, string(want), c.left)
			got.Check(t, c.status, "", c.stderr...)
			if n := c.service.requests.Load(); n != c.requests {
				t.Errorf("got %d requests, want %d", n, c.requests)
			}
		})
	}
}

// wantFile fails unless the file has the content, and nothing else is in its
// folder but what is left of the object.
func wantFile(t *testing.T, path, want string, left int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil || string(content) != want {
		t.Errorf("the file has %q, %v; want %q", content, err, want)
	}
	parts, _ := filepath.Glob(path + ".*.part")
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1+len(parts) || len(parts) != min(left, 1) {
		t.Errorf("the folder has %v, %v", files, err)
	}
	for _, part := range parts {
		if content, err := os.ReadFile(part); err != nil || !bytes.Equal(content, object[:left]) {
			t.Errorf("%s has %d bytes, %v; want %d", part, len(content), err, left)
		}
	}
}

// A bar is drawn on a terminal, and for a file.
func TestResumeBar(t *testing.T) {
	terminal := clitest.Shell{Terminals: []string{"stderr"}}
	dumb := clitest.Shell{Terminals: terminal.Terminals, Env: map[string]string{"TERM": "dumb"}}
	file := []string{"-o", os.DevNull}
	for _, c := range []struct {
		name    string
		shell   clitest.Shell
		args    []string
		unsized bool
		bar     string // a part of it; "": none
	}{
		{"terminal", terminal, file, false, "░"},
		{"unknown length", terminal, file, true, " 0 B)"},
		{"no terminal", clitest.Shell{}, file, false, ""},
		{"dumb terminal", dumb, file, false, ""},
		{"standard output", terminal, nil, false, ""},
		{"JSON", terminal, append(file, "--json"), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := (&fragile{unsized: c.unsized}).start(t)
			got := c.shell.Run(t, New, quick(append(c.args, "--resume", url)...)...)
			if got.Status != 0 || !strings.Contains(got.Err, c.bar) ||
				c.bar == "" && strings.ContainsAny(got.Err, "░\r") {
				t.Errorf("status %d, want 0 and the bar %q: %q", got.Status, c.bar, got.Err)
			}
			if c.bar != "" && !strings.Contains(got.Err, "\x1b[2K\r     \x1b[33mbroke off") {
				t.Errorf("the bar is not removed before a line: %q", got.Err)
			}
		})
	}
}

func TestResumeInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"for people", nil, "✗ the body was cut off after 400 bytes, and nothing was written to "},
		{"JSON", []string{"--json"}, `{"error":"the body was cut off after 400 bytes, and nothing was written to `},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := clitest.File(t, "out", "old")
			ctx, cancel := context.WithCancelCause(t.Context())
			watch := clitest.NewWatch("unexpected EOF", func() { cancel(errors.New("interrupt signal received")) })
			args := append([]string{"get", "--resume", "--base-delay", "1m", "--max-delay", "1m", "--jitter", "none",
				"-o", path, (&fragile{}).start(t)}, c.args...)
			got := clitest.Shell{Err: watch}.RunContext(ctx, t, New, args...)
			wantFile(t, path, "old", 400)
			if text := watch.String(); got.Status != cli.Interrupted || !strings.Contains(text, c.want) ||
				!strings.Contains(text, "interrupted") {
				t.Errorf("status %d, want 1 and %q:\n%s", got.Status, c.want, text)
			}
		})
	}
}

// A get goes on with what an earlier one has left, if that is the same version.
func TestResumeOfAnEarlierGet(t *testing.T) {
	other := bytes.Repeat([]byte("abcdefghij"), 100)
	for _, c := range []struct {
		name   string
		etag   string // of the other object that there is then; "": the same object
		status int    // of the response to a Range; 0: as it should be
		cut    bool   // the second get is cut off too
		url    string // of the second get, relative
		args   []string
		asked  []string // the Ranges of the second get
		want   []byte
		stderr string
	}{
		{"the same version", "", 0, false, "", nil, []string{"bytes=400-"}, object, "continues at 400 B"},
		{"JSON", "", 0, false, "", []string{"--json"}, []string{"bytes=400-"}, object, `{"continues_at_bytes":400}`},
		{"cut off again", "", 0, true, "", nil, []string{"bytes=400-"}, nil, "cut off after 800 bytes"},
		{"another version", `"v2"`, 0, false, "", nil, []string{"bytes=400-"}, other, "the service sent another version"},
		{"a part of another version", `"v2"`, 206, false, "", nil, []string{"bytes=400-", ""}, other, "not continued"},
		{"no rest", `"v2"`, 416, false, "", nil, []string{"bytes=400-", ""}, other, "not continued"},
		{"another URL", "", 0, false, "/?other", nil, []string{""}, object, "1,000 bytes written"},
		{
			"a range of the user's", "", 0, false, "", []string{"-H", "Range: bytes=0-999"},
			[]string{"bytes=0-999"}, object, "",
		},
		{"a failure", "", 503, false, "", nil, []string{"bytes=400-"}, nil, "503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cut, second := true, false
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				content := object
				w.Header().Set("Etag", `"v1"`)
				if second {
					asked = append(asked, r.Header.Get("Range"))
					if c.etag != "" {
						content = other
						w.Header().Set("Etag", c.etag)
					}
					if r.Header.Get("Range") == "bytes=400-" {
						switch c.status {
						case 206:
							r.Header.Del("If-Range")
						case 416:
							w.Header().Set("Content-Range", "bytes */400")
							fallthrough
						case 503:
							w.WriteHeader(c.status)
							return
						}
					}
				}
				if cut {
					w = &shortWriter{w, 400}
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			}))
			t.Cleanup(server.Close)
			path := clitest.File(t, "out", "old")
			args := quick("--resume", "--max-attempts", "1", "-o", path)
			got := clitest.Shell{}.Run(t, New, append(args, server.URL)...)
			if wantFile(t, path, "old", 400); got.Status != cli.Failure {
				t.Fatalf("%+v", got)
			}
			cut, second = c.cut, true
			got = clitest.Shell{}.Run(t, New, append(append(args, c.args...), server.URL+c.url)...)
			if strings.Join(asked, ",") != strings.Join(c.asked, ",") || !strings.Contains(got.Err, c.stderr) {
				t.Errorf("asked for %q, want %q and %q:\n%s", asked, c.asked, c.stderr, got.Err)
			}
			switch {
			case c.want == nil && c.cut:
				wantFile(t, path, "old", 800)
			case c.want == nil:
				wantFile(t, path, "old", 400)
			case c.url != "" || c.args != nil && c.args[0] == "-H": // what is of another request stays
				wantFile(t, path, string(c.want), 400)
			default:
				wantFile(t, path, string(c.want), 0)
			}
		})
	}
}

func TestResumeUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-X", "PUT"}, `--resume is for GET, and --method is "PUT"`},
		{[]string{"-X", "HEAD"}, `--resume is for GET, and --method is "HEAD"`},
		{[]string{"-d", "x"}, "--resume is for a GET without a body, and --data gives it one"},
		{[]string{"-X", "GET", "-d", "x"}, "--resume is for a GET without a body"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var service fragile
			got := clitest.Shell{}.Run(t, New, append([]string{"get", "--resume", service.start(t)}, c.args...)...)
			if got.Status != cli.Usage || !strings.Contains(got.Err, c.want) || service.requests.Load() > 0 {
				t.Errorf("%+v, want a usage error with %q, and nothing sent", got, c.want)
			}
		})
	}
}

// A terminal that has gone away does not end the download.
func TestResumeWithoutTerminal(t *testing.T) {
	url := (&fragile{}).start(t)
	path := filepath.Join(t.TempDir(), "copy")
	got := clitest.Shell{Terminals: []string{"stderr"}, Err: &goneTerminal{left: 1}}.Run(t, New, quick("--resume", "-o", path, url)...)
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
func partPath(t *testing.T, path, url, etag string) string {
	t.Helper()
	u, err := cli.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(u.String()))
	return path + "." + hex.EncodeToString(hash[:12]) + "." + base64.RawURLEncoding.EncodeToString([]byte(etag)) + partSuffix
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
		w.Header().Set("Etag", `"v1"`)
		http.ServeContent(&shortWriter{w, 400}, r, "", time.Time{}, bytes.NewReader(object))
	}
	secret := clitest.File(t, "secret", "secret")
	for _, c := range []struct {
		name   string
		plant  func(path string) error
		serve  http.HandlerFunc
		status int
		want   string // of the file
		left   int64
	}{
		{"the response is another", left(400), other(201, "other"), 0, "other", 0},
		{"the response has nothing", left(400), other(204, ""), 0, "", 0},
		{"the service sends less", left(900), shorter, cli.Failure, "", 900},
		{"a link", func(path string) error { return os.Symlink(secret, path) },
			(&fragile{whole: true}).ServeHTTP, 0, string(object), 0},
		{"a file of another user", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("planted"), 0o644), os.Chown(path, os.Geteuid()+1, -1))
		}, (&fragile{whole: true}).ServeHTTP, 0, string(object), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(c.serve)
			t.Cleanup(server.Close)
			path := filepath.Join(t.TempDir(), "out")
			part := partPath(t, path, server.URL, "v1")
			if err := c.plant(part); err != nil {
				t.Skip(err)
			}
			got := clitest.Shell{}.Run(t, New, quick("--resume", "--max-attempts", "1", "-o", path, server.URL)...)
			content, err := os.ReadFile(path)
			if got.Status != c.status || string(content) != c.want || (err == nil) != (c.status == 0) {
				t.Errorf("status %d, the file has %.20q, %v; want %d, %.20q:\n%s",
					got.Status, content, err, c.status, c.want, got.Err)
			}
			if info, err := os.Lstat(part); c.left > 0 && (err != nil || info.Size() != c.left) {
				t.Errorf("%v, %v is left, want %d bytes", info, err, c.left)
			}
		})
	}
}
