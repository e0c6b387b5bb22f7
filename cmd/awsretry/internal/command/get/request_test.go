package get

import (
	"io"
	"os"
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
		{"empty data", []string{"-d", ""}, "POST", map[string]string{"Content-Length": "0"}, ""},
		{"data and method", []string{"-X", "PUT", "--data", "x"}, "PUT", nil, "x"},
		{"headers",
			[]string{"-H", "X-A: 1, 2", "-H", "user-agent: mine", "-H", "host: other.example", "-H", "Empty:"}, "GET",
			map[string]string{"X-A": "1, 2", "User-Agent": "mine", "Host": "other.example", "Empty": ""}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, clitest.Fine)
			address := strings.Replace(s.URL, "http://", "http://me:hidden@", 1)
			got := clitest.Shell{}.Run(t, New, append([]string{"get", address}, c.args...)...)
			if got.Status != 0 || strings.Contains(got.Err, "hidden") {
				t.Fatalf("%+v, want status 0 and no password", got)
			}
			req, body := s.Requests()[0], s.Bodies()[0]
			if req.Method != c.method || body != c.body {
				t.Errorf("got %s with %q, want %s with %q", req.Method, body, c.method, c.body)
			}
			if user, password, _ := req.BasicAuth(); user != "me" || password != "hidden" {
				t.Errorf("got the user %s:%s", user, password)
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

// However the body is given, each attempt gets the same bytes.
func TestBody(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 2<<20/16) // longer than what is buffered of a stream
	short := long[:100_000]
	file, empty := "@"+clitest.File(t, "long", long), "@"+clitest.File(t, "empty", "")
	opened := clitest.Must[*os.File](t)(os.Open(file[1:]))
	defer opened.Close()
	clitest.Must[int64](t)(opened.Seek(1<<20, io.SeekStart))
	for _, c := range []struct {
		name   string
		data   string
		stdin  io.Reader
		body   string
		length int // that is announced; -1: none
		times  int
		stderr string
	}{
		{"literal", short, nil, short, len(short), 3, "✓"},
		{"file", file, nil, long, len(long), 3, "✓"},
		{"empty file", empty, nil, "", 0, 3, "✓"},
		{"standard input", "@-", struct{ io.Reader }{strings.NewReader(short)}, short, -1, 3, "✓"},
		{"standard input from a file's middle", "@-", opened, long[1<<20:], len(long) - 1<<20, 3, "✓"},
		{"long standard input", "@-", struct{ io.Reader }{strings.NewReader(long)}, long, -1, 1, "-d @FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, clitest.Unavailable, clitest.Unavailable, clitest.Fine)
			got := clitest.Shell{In: c.stdin}.Run(t, New, quick("-d", c.data, s.URL)...)
			if !strings.Contains(got.Err, c.stderr) {
				t.Errorf("standard error lacks %q:\n%s", c.stderr, got.Err)
			}
			bodies := s.Bodies()
			if len(bodies) != c.times {
				t.Errorf("got %d requests, want %d", len(bodies), c.times)
			}
			for i, body := range bodies {
				if length := s.Requests()[i].ContentLength; body != c.body || length != int64(c.length) {
					t.Errorf("attempt %d had %d bytes of %d, want the same %d of %d",
						i+1, len(body), length, len(c.body), c.length)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	config := clitest.File(t, "config", "retry_mode = legacy\n") // without a section
	clitest.Shell{}.Transcript(t, "errors.txt", map[string]string{"CONFIG": config, "FOLDER": t.TempDir()}, New)
}
