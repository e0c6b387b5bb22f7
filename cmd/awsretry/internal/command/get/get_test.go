package get

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// quick returns a command line with short delays.
func quick(args ...string) []string {
	return append([]string{"get", "--base-delay", "1ms", "--max-delay", "2ms"}, args...)
}

// What the outcome is, why there is no further attempt, and what helps.
func TestOutcome(t *testing.T) {
	redirect := clitest.Reply{Status: 302, Header: map[string]string{"Location": "/there?key=secret"}}
	later := clitest.Reply{Status: 429, Header: map[string]string{"Retry-After": "90"}}
	denied := clitest.Reply{Status: 200, Body: `<Error><Code>AccessDenied</Code></Error>`}
	for _, c := range []struct {
		name     string
		reply    clitest.Reply
		args     []string
		status   int
		requests int
		stderr   []string
	}{
		{"error is left", clitest.Unavailable, nil, 22, 3, []string{"stop: attempts used up",
			"✗ 503 Service Unavailable (ServiceUnavailable) after 3", "--max-attempts"}},
		{"bad request", clitest.Invalid, nil, 22, 1,
			[]string{"stop: not retryable", "ValidationException", "request id id-18", "has to change"}},
		{"no retries", clitest.Unavailable, []string{"--max-attempts", "1"}, 22, 1,
			[]string{"no retries\n", "no retry is allowed (--max-attempts 1)"}},
		{"redirect", redirect, nil, 0, 1,
			[]string{"302", "/there\n", "✓ 302 Found", "\n  a redirect to http://", "/there, which get does not follow\n"}},
		{"long Retry-After", later, nil, 22, 1, []string{"Retry-After: 90", "stop: delay too long", "--max-retry-after"}},
		{"small bucket", clitest.Unavailable, []string{"--quota", "7", "--max-attempts", "5"}, 22, 2,
			[]string{"stop: too few tokens", "--quota"}},
		{"pause after the deadline", later, []string{"--timeout", "20", "--max-retry-after", "2m"}, 22, 1,
			[]string{"stop: deadline", "--timeout has passed, or would"}},
		{"fail fast", clitest.Throttling, []string{"--mode", "adaptive", "--fail-fast"}, 22, 1,
			[]string{"stop: rate limited", "--fail-fast"}},
		{"outer loop", clitest.Unavailable, []string{"-H", "amz-sdk-request: attempt=1; max=3"}, 22, 1,
			[]string{"stop: caller retries", "Amz-Sdk-Request"}},
		{"error in a 200", denied, []string{"-X", "PUT", "-H", "X-Amz-Copy-Source: /a/b"}, 22, 1,
			[]string{"(AccessDenied)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, c.reply)
			got := clitest.Shell{}.Run(t, New, quick(append(c.args, s.URL+"/orders?key=secret")...)...)
			got.Check(t, c.status, c.reply.Body, append(c.stderr, " "+s.URL+"/orders\n")...)
			if strings.Contains(got.Err, "\x1b") || strings.Contains(got.Err, "secret") {
				t.Errorf("standard error has colors or the query:\n%s", got.Err)
			}
			rows := len(regexp.MustCompile(`(?m)^ *\d+  [1-5]\d\d +\w+ `).FindAllString(got.Err, -1))
			if n := len(s.Bodies()); n != c.requests || rows != n {
				t.Errorf("got %d requests, and %d of them are printed, want %d:\n%s", n, rows, c.requests, got.Err)
			}
		})
	}
}

func TestNoResponse(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	const refused = "http://127.0.0.1:1/?key=secret"
	for _, c := range []struct {
		name   string
		args   []string
		stderr []string
	}{
		{"refused", []string{refused},
			[]string{"refused  transient", "connection refused", "✗ no response after 3 attempts", "--max-attempts"}},
		{"attempts time out", []string{"--attempt-timeout", "30ms", slow.URL},
			[]string{"timeout  timeout", "✗ no response after 3 attempts", "AttemptTimeout"}},
		{"time-out of all", []string{"--timeout", "50ms", slow.URL},
			[]string{"timeout", "stop: deadline", "✗ no response after 1 attempt", "--timeout, 50ms, is over"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{}.Run(t, New, quick(c.args...)...)
			got.Check(t, cli.Failure, "", c.stderr...)
			if strings.Contains(got.Err, "secret") {
				t.Errorf("standard error has the query:\n%s", got.Err)
			}
		})
	}
	// As JSON, the record of the last attempt says it all.
	got := clitest.Shell{}.Run(t, New, quick("--json", "--max-attempts", "2", refused)...)
	got.Check(t, cli.Failure, "", `"stop":"max_attempts"`)
	if strings.Count(got.Err, "\n") != 2 {
		t.Errorf("want the two attempts and nothing else:\n%s", got.Err)
	}
}

// The second line of the report is the settings, and they are in force.
func TestRules(t *testing.T) {
	revised := map[string]string{"AWS_NEW_RETRIES_2026": "true"}
	for _, c := range []struct {
		env      map[string]string
		args     string
		requests int
		rules    string
	}{
		{map[string]string{"AWS_MAX_ATTEMPTS": "2"}, "", 2, "standard mode, up to 2 attempts\n"},
		{nil, "--mode adaptive --pacing scaled", 3, "adaptive mode, scaled pacing, up to 3 attempts\n"},
		{revised, "", 3, "standard mode, 2026 revision\n"},
		{revised, "--mode legacy", 4, "legacy mode, up to 4 attempts\n"}, // which has no revisions
		{nil, "--partition orders --attempt-timeout 5s", 3,
			"standard mode, up to 3 attempts of 5s, partition \"orders\"\n"},
	} {
		t.Run(c.rules, func(t *testing.T) {
			s := clitest.Start(t, clitest.Reply{Status: 500})
			got := clitest.Shell{Env: c.env}.Run(t, New, quick(append(strings.Fields(c.args), s.URL)...)...)
			got.Check(t, cli.HTTPError, "", "\n"+c.rules)
			if n := len(s.Bodies()); n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

func TestMissingConfigFile(t *testing.T) {
	s := clitest.Start(t, clitest.Fine)
	shell := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none")}}
	got := shell.Run(t, New, "get", s.URL)
	got.Check(t, 0, "hello", "awsretry get: warning: environment AWS_CONFIG_FILE is ")
	got = shell.Run(t, New, "get", "--json", s.URL)
	var warning struct{ Warning string }
	line, _, _ := strings.Cut(got.Err, "\n")
	if err := json.Unmarshal([]byte(line), &warning); err != nil || !strings.Contains(warning.Warning, "no such file") {
		t.Errorf("%+v, want a warning in JSON", got)
	}
}

// What get prints, for people and as JSON.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		golden string
		url    func(*testing.T) string
		args   []string
	}{
		{"get.txt", mended, nil},
		{"get.jsonl", mended, []string{"--json"}},
		{"resume.txt", (&fragile{}).start, []string{"--resume"}},
		{"resume.jsonl", (&fragile{}).start, []string{"--resume", "--json"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			url := c.url(t)
			got := clitest.Shell{}.Run(t, New, quick(append(c.args, "--jitter", "none", url+"/orders?key=secret")...)...)
			if got.Status != 0 || got.Out != "hello" && got.Out != string(object) {
				t.Errorf("status %d, standard output %q", got.Status, got.Out)
			}
			masked := strings.ReplaceAll(got.Err, url, "http://HOST")
			for pattern, with := range map[string]string{
				`(?m)^(  \d.{22}).{7}`:   "$1   TIME", // the column keeps its width
				`, [\d.]+[mµ]?s\n`:       ", TIME\n",
				`"start":"\d{4}-[^"]*Z"`: `"start":"TIME"`,
				`"elapsed_ms":[\d.]+`:    `"elapsed_ms":"TIME"`,
				`"delay_ms":[\d.]+`:      `"delay_ms":"TIME"`,
			} {
				masked = regexp.MustCompile(pattern).ReplaceAllString(masked, with)
			}
			clitest.Golden(t, c.golden, masked)
		})
	}
}

// mended returns the URL of a service that throttles, fails, and works.
func mended(t *testing.T) string {
	return clitest.Start(t, clitest.Throttling, clitest.Unavailable, clitest.Fine).URL
}

// TestOutcome finds no colors where there is no terminal, and package term tests
// what else decides.
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

// On a terminal, hostile is shown as harmless. Package term tests more of it.
const hostile, harmless = "\x1b[31mred\x07 \x9b2J tab\there\r\n", "\uFFFD[31mred\uFFFD \uFFFD2J tab\there\n"

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
