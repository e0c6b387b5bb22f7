package get

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

func TestRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		method string
		header map[string]string
		body   string
	}{
		{"default", nil, "GET", map[string]string{"User-Agent": "awsretry/" + cli.Version()}, ""},
		{"method", []string{"-X", "DELETE"}, "DELETE", nil, ""},
		{"data", []string{"-d", "a=1"}, "POST", map[string]string{"Content-Length": "3"}, "a=1"},
		{"empty data", []string{"-d", ""}, "POST", map[string]string{"Content-Length": "0"}, ""},
		{"data and method", []string{"-X", "PUT", "--data", "x"}, "PUT", nil, "x"},
		{"headers",
			[]string{"-H", "X-A: 1, 2", "-H", "user-agent: mine", "-H", "host: other.example", "-H", "Empty:"}, "GET",
			map[string]string{"X-A": "1, 2", "User-Agent": "mine", "Host": "other.example", "Empty": ""}, ""},
		{"SDK headers", []string{"--sdk-headers", "--max-attempts", "4"}, "GET",
			map[string]string{"Amz-Sdk-Request": "attempt=1; max=4"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, clitest.Fine)
			if got := (clitest.Shell{}).Run(t, New, quick(append(c.args, s.URL)...)...); got.Status != 0 {
				t.Fatalf("status %d, standard error:\n%s", got.Status, got.Err)
			}
			req, body := s.Requests()[0], s.Bodies()[0]
			if req.Method != c.method || body != c.body {
				t.Errorf("got %s with %q, want %s with %q", req.Method, body, c.method, c.body)
			}
			req.Header.Set("Host", req.Host)
			for name, want := range c.header {
				if got, ok := req.Header[name]; !ok || got[0] != want {
					t.Errorf("header %s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestUserOfURL(t *testing.T) {
	s := clitest.Start(t, clitest.Fine)
	got := clitest.Shell{}.Run(t, New, "get", strings.Replace(s.URL, "http://", "http://me:hidden@", 1))
	user, password, _ := s.Requests()[0].BasicAuth()
	if user != "me" || password != "hidden" || strings.Contains(got.Err, "hidden") {
		t.Errorf("got %s:%s, and standard error is\n%s", user, password, got.Err)
	}
}

// Every way to give a body gives each attempt the same bytes.
func TestBody(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 2<<20/16) // longer than what is buffered of a stream
	short := long[:100_000]
	write := func(content string) string { return clitest.File(t, "body", content) }
	openAt := func(name string, offset int64) io.Reader {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for _, c := range []struct {
		name   string
		data   string
		stdin  io.Reader
		body   string
		length int64 // that is announced; -1: none
		times  int
		status int
	}{
		{"literal", short, nil, short, int64(len(short)), 3, 0},
		{"file", "@" + write(long), nil, long, int64(len(long)), 3, 0},
		{"empty file", "@" + write(""), nil, "", 0, 3, 0},
		{"standard input", "@-", struct{ io.Reader }{strings.NewReader(short)}, short, -1, 3, 0},
		{"standard input from a file", "@-", openAt(write(long), 0), long, int64(len(long)), 3, 0},
		{"standard input from a file's middle", "@-", openAt(write(long), 1<<20), long[1<<20:],
			int64(len(long) - 1<<20),
			3, 0},
		{"long standard input", "@-", struct{ io.Reader }{strings.NewReader(long)}, long, -1, 1, 22},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, clitest.Unavailable, clitest.Unavailable, clitest.Fine)
			got := clitest.Shell{In: c.stdin}.Run(t, New, quick("-d", c.data, s.URL)...)
			if got.Status != c.status {
				t.Errorf("status %d, want %d; standard error:\n%s", got.Status, c.status, got.Err)
			}
			bodies := s.Bodies()
			if len(bodies) != c.times {
				t.Errorf("got %d requests, want %d", len(bodies), c.times)
			}
			for i, body := range bodies {
				if body != c.body {
					t.Errorf("attempt %d had %d bytes, want the same %d", i+1, len(body), len(c.body))
				}
				if length := s.Requests()[i].ContentLength; length != c.length {
					t.Errorf("attempt %d announced %d bytes, want %d", i+1, length, c.length)
				}
			}
			if c.status != 0 && !strings.Contains(got.Err, "-d @FILE") {
				t.Errorf("standard error does not say what helps:\n%s", got.Err)
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	const url = "http://127.0.0.1:1/x"
	folder := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		want []string
		file bool // a file is at fault, not the usage
	}{
		{"no URL", nil, []string{"URL is missing", "See awsretry get --help"}, false},
		{"an empty URL", []string{""}, []string{"awsretry get: URL is empty\n"}, false},
		{"two URLs", []string{url, url + "2"}, []string{`"http://127.0.0.1:1/x2" is one too many`}, false},
		{"no scheme", []string{"example.com/x?key=secret"}, []string{`"example.com/x"`, "http:// or https://"}, false},
		{"other scheme", []string{"ftp://example.com/"}, []string{"http:// or https://"}, false},
		{"no host", []string{"http:///x"}, []string{"no host"}, false},
		{"bad port", []string{"http://example.com:x/?key=secret"}, []string{`"http://example.com:x/"`, "invalid port"}, false},
		{"unknown flag", []string{"--retries", "3", url}, []string{"unknown flag: --retries"}, false},
		{"time-out", []string{"--timeout", "soon", url}, []string{`"soon"`, "--timeout", "500ms"}, false},
		{"negative time-out", []string{"--timeout=-1s", url}, []string{"above 0"}, false},
		{"a setting", []string{"--mode", "eager", url},
			[]string{`--mode is "eager"; it must be standard, adaptive or legacy`}, false},
		{"empty output", []string{"-o", "", url}, []string{`--output is ""; it must not be empty`}, false},
		{"empty method", []string{"-X", "", url}, []string{`--method is ""; it must not be empty`}, false},
		{"method", []string{"-X", "GET IT", url}, []string{"--method", `"GET IT"`}, false},
		{"header without colon", []string{"-H", "Accept", url}, []string{"--header", `"Accept"`, "Name: value"}, false},
		{"header name", []string{"-H", "A b: c", url}, []string{"--header", `"A b"`}, false},
		{"header value", []string{"-H", "A: b\nC: d", url}, []string{"--header A", "control character"}, false},
		{"header length", []string{"-H", "content-length: 3", url}, []string{"--header content-length", "--data"}, false},
		{"file without name", []string{"-d", "@", url}, []string{"--data: @ must be followed by the name of a file"}, false},
		{"no such file", []string{"-d", "@" + filepath.Join(folder, "none"), url}, []string{"--data", "no such file"}, true},
		{"folder as file", []string{"-d", "@" + folder, url}, []string{"--data", "is a directory"}, true},
		{"folder as output", []string{"-o", folder, url}, []string{"--output", "is a directory"}, true},
		{"no such folder", []string{"-o", filepath.Join(folder, "none", "x"), url},
			[]string{"--output", "no such file"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{}.Run(t, New, append([]string{"get"}, c.args...)...)
			status := cli.Usage
			if c.file {
				status = cli.Failure
			}
			got.Check(t, status, "", c.want...)
			if strings.Contains(got.Err, "secret") {
				t.Errorf("standard error has the query:\n%s", got.Err)
			}
		})
	}
}
