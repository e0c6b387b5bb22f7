package get

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"example.com/awsretry/cmd/internal/clitest"
	"example.com/awsretry/internal/httpfake"
)

// quick returns a command line with short delays.
func quick(args ...string) []string {
	return append([]string{"get", "--base-delay", "1ms", "--max-delay", "2ms"}, args...)
}

// get prints the settings in force, each attempt, the outcome, why there is no
// further attempt, and what helps.
func TestTranscript(t *testing.T) {
	reply := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/fine", reply(200, "hello"))
	mux.Handle("/redirect", reply(302, "", "Location", "/there?key=secret"))
	mux.Handle("/invalid", reply(400, `{"__type":"ValidationException"}`, "X-Amzn-Requestid", "id-18"))
	mux.Handle("/throttling", reply(400, `{"__type":"com.amazon#ThrottlingException"}`, "X-Amzn-Requestid", "id-17"))
	mux.Handle("/later", reply(429, "", "Retry-After", "90"))
	mux.Handle("/failing", reply(500, ""))
	mux.Handle("/unavailable", reply(503, "<Error><Code>ServiceUnavailable</Code></Error>"))
	mux.Handle("/denied", reply(200, "<Error><Code>AccessDenied</Code></Error>"))
	mux.HandleFunc("/closed", func(_ http.ResponseWriter, r *http.Request) {
		io.ReadAll(r.Body)
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	defer server.Close()
	mended := []clitest.Reply{clitest.Throttling, clitest.Unavailable, clitest.Fine}
	again := clitest.Start(t, append(mended, mended...)...)
	const config = "[default]\nretry_mode = legacy\n\n[profile busy]\nretry_mode = adaptive\nmax_attempts = 8\n"
	vars := map[string]string{"URL": server.URL, "MENDED": again.URL, "CONFIG": clitest.File(t, "config", config)}
	clitest.Shell{Mask: mask}.Transcript(t, "get.txt", vars, New)
}

// mask replaces the times in a report.
func mask(printed string) string {
	for pattern, with := range map[string]string{
		`(?m)^(  \d.{22}).{7}`:          "$1   TIME", // the column keeps its width
		`, [\d.]+[mµ]?s\n`:              ", TIME\n",
		`\d\.\d/s`:                      "N.N/s",
		`"time":"[^"]*"`:                `"time":"TIME"`,
		`"(elapsed|delay)_ms":[\d.]+`:   `"${1}_ms":"TIME"`,
		`"call":"\w+"`:                  `"call":"CALL"`,
		`"partition":"127.0.0.1:\d\d+"`: `"partition":"HOST"`,
	} {
		printed = regexp.MustCompile(pattern).ReplaceAllString(printed, with)
	}
	return printed
}

// The reports of a body that continues.
func TestReport(t *testing.T) {
	for golden, flags := range map[string][]string{"resume.txt": nil, "resume.jsonl": {"--json"}} {
		url := (&fragile{}).start(t)
		got := clitest.Shell{}.Run(t, New, quick(append(flags, "--resume", "--jitter", "none", url+"/orders?secret")...)...)
		if got.Status != 0 || got.Out != string(object) {
			t.Errorf("status %d, standard output %q", got.Status, got.Out)
		}
		clitest.Golden(t, golden, mask(strings.ReplaceAll(got.Err, url, "http://HOST")))
	}
}

// TestTranscript finds no colors without a terminal, and package term tests what
// else determines them.
func TestPalette(t *testing.T) {
	s := clitest.Start(t, clitest.Unavailable, clitest.Throttling)
	got := clitest.Shell{Terminals: []string{"stderr"}}.Run(t, New, quick("--max-attempts", "2", s.URL)...)
	for what, want := range map[string]string{
		"a transient failure": "\x1b[33m503\x1b[0m",
		"throttling":          "\x1b[35m400\x1b[0m",
		"giving up":           "\x1b[31mstop: attempts used up\x1b[0m",
	} {
		if !strings.Contains(got.Err, want) {
			t.Errorf("%s is not %q in %q", what, want, got.Err)
		}
	}
}

// On a terminal, empty lines separate the body from the report.
func TestTerminal(t *testing.T) {
	s := clitest.Start(t, clitest.Fine)
	var screen bytes.Buffer
	terminals, env := []string{"stdout", "stderr"}, map[string]string{"NO_COLOR": "1"}
	clitest.Shell{Out: &screen, Err: &screen, Terminals: terminals, Env: env}.Run(t, New, "get", s.URL)
	if !regexp.MustCompile(`✓ 200 OK after 1 attempt, \S+s\n\nhello\n$`).MatchString(screen.String()) {
		t.Errorf("the screen shows %q", screen.String())
	}
}

// A terminal shows harmless for hostile. Package term tests more cases.
const hostile, harmless = "\x1b[31mred\x07 \x9b2J tab\there\r\n", "\uFFFD[31mred\uFFFD \uFFFD2J tab\there\n"

// With --json, what net/http logs of a response without a request is a warning.
func TestNetHTTPLogs(t *testing.T) {
	requests := 0 // one after the other
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests > 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
	}))
	defer server.Close()
	var stderr httpfake.Buffer
	got := clitest.Shell{Err: &stderr}.Run(t, New, "get", "--json", "--base-delay", "300ms", "--jitter", "none", server.URL)
	for line := range strings.Lines(stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line that is not JSON: %s", line)
		}
	}
	if got.Status != 0 || !strings.Contains(stderr.String(), `{"warning":"Unsolicited response received`) {
		t.Errorf("status %d, standard error\n%s", got.Status, stderr.String())
	}
}

// No control character from a server reaches a terminal, whether in the body or
// in a header. A pipe gets the body unchanged.
func TestHostileServer(t *testing.T) {
	const c1 = "\u009b31m" // in a header net/http lets no C0 through
	s := clitest.Start(t, clitest.Reply{Status: 400, Body: hostile, Header: map[string]string{
		"X-Amzn-Errortype": "Evil" + c1 + "Exception", "X-Amzn-Requestid": "id" + c1, "Retry-After": "1" + c1,
		"Location": "/there" + c1, "Content-Type": "text/plain" + c1,
	}})
	redirect := clitest.Start(t, clitest.Reply{Status: 302, Header: map[string]string{"Location": "/there" + c1 + "?q"}})
	terminals := []string{"stdout", "stderr"}
	for _, c := range []struct {
		name   string
		shell  clitest.Shell
		args   []string
		stdout string
	}{
		{"terminal", clitest.Shell{Terminals: terminals}, []string{s.URL}, harmless},
		{"piped body", clitest.Shell{Terminals: terminals[1:]}, []string{s.URL}, hostile},
		{"JSON", clitest.Shell{Terminals: terminals}, []string{"--json", s.URL}, harmless},
		{"redirect", clitest.Shell{Terminals: terminals}, []string{redirect.URL}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.shell.Env = map[string]string{"NO_COLOR": "1"}
			got := c.shell.Run(t, New, quick(c.args...)...)
			if got.Out != c.stdout {
				t.Errorf("standard output is %q, want %q", got.Out, c.stdout)
			}
			if i := strings.IndexFunc(got.Err, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
				t.Errorf("a control character at %d of %q", i, got.Err)
			}
		})
	}
}
