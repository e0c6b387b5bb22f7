package get

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

type replies []clitest.Reply

// quick returns a command line with short delays.
func quick(args ...string) []string {
	return append([]string{"get", "--base-delay", "1ms", "--max-delay", "2ms"}, args...)
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		replies  replies
		args     []string
		status   int
		requests int
		stdout   string
		stderr   []string
	}{
		{"success", replies{clitest.Fine}, nil, 0, 1, "hello", []string{"✓ 200 OK after 1 attempt"}},
		{"saved by retries", replies{clitest.Closed, clitest.Unavailable, clitest.Fine}, nil, 0, 3, "hello",
			[]string{"retry in", "ServiceUnavailable", "✓ 200 OK after 3 attempts"}},
		{"error is left", replies{clitest.Unavailable}, nil, 22, 3, clitest.Unavailable.Body,
			[]string{"stop: attempts used up", "✗ 503 Service Unavailable (ServiceUnavailable) after 3",
				"--max-attempts"}},
		{"throttled", replies{clitest.Throttling}, []string{"--max-attempts", "2"}, 22, 2, clitest.Throttling.Body,
			[]string{"throttled", "ThrottlingException", "request id id-17"}},
		{"bad request", replies{clitest.Invalid}, nil, 22, 1, clitest.Invalid.Body,
			[]string{"stop: not retryable", "ValidationException", "request id id-18", "has to change"}},
		{"no retries", replies{clitest.Unavailable}, []string{"--max-attempts", "1"}, 22, 1, clitest.Unavailable.Body,
			[]string{"no retries\n", "no retry is allowed (--max-attempts 1)"}},
		{"redirect", replies{{Status: 302, Header: map[string]string{"Location": "/there?key=secret"}}}, nil, 0, 1, "",
			[]string{"302", "/there\n", "✓ 302 Found", "\n  a redirect to http://", "/there, which get does not follow\n"}},
		{"long Retry-After", replies{{Status: 429, Header: map[string]string{"Retry-After": "90"}}}, nil, 22, 1, "",
			[]string{"Retry-After: 90", "stop: delay too long", "--max-retry-after"}},
		{"ignored Retry-After", replies{{Status: 429, Header: map[string]string{"Retry-After": "90"}}, clitest.Fine},
			[]string{"--max-retry-after", "ignore"}, 0, 2, "hello", nil},
		{"small bucket", replies{clitest.Unavailable}, []string{"--quota", "7", "--max-attempts", "5"}, 22, 2,
			clitest.Unavailable.Body,
			[]string{"stop: too few tokens", "--quota"}},
		{"no bucket", replies{clitest.Throttling}, []string{"--quota", "-1", "--max-attempts", "60"}, 22, 60,
			clitest.Throttling.Body, nil},
		{"pause after the deadline", replies{{Status: 429, Header: map[string]string{"Retry-After": "50"}}},
			[]string{"--timeout", "20"}, 22, 1, "", []string{"stop: deadline", "--timeout has passed, or would"}},
		{"fail fast", replies{clitest.Throttling}, []string{"--mode", "adaptive", "--fail-fast"}, 22, 1,
			clitest.Throttling.Body,
			[]string{"stop: rate limited", "--fail-fast"}},
		{"outer loop", replies{clitest.Unavailable}, []string{"-H", "amz-sdk-request: attempt=1; max=3"}, 22, 1,
			clitest.Unavailable.Body,
			[]string{"stop: caller retries", "Amz-Sdk-Request"}},
		{"idempotent only", replies{clitest.Unavailable}, []string{"--idempotent-only", "-X", "POST"}, 22, 1,
			clitest.Unavailable.Body, nil},
		{"idempotent only, throttled", replies{clitest.Throttling, clitest.Fine},
			[]string{"--idempotent-only", "-X", "POST"}, 0,
			2, "hello", nil},
		{"error in a 200", replies{{Status: 200, Body: `<Error><Code>AccessDenied</Code></Error>`}},
			[]string{"-X", "PUT", "-H", "X-Amz-Copy-Source: /a/b"}, 22, 1, `<Error><Code>AccessDenied</Code></Error>`,
			[]string{"(AccessDenied)"}},
		{"control characters",
			replies{{Status: 400, Header: map[string]string{"X-Amzn-Requestid": "a\u009b31mb"}}}, nil,
			22, 1, "",
			[]string{"request id a\uFFFD31mb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, c.replies...)
			got := clitest.Shell{}.Run(t, New, quick(append(c.args, s.URL+"/orders?key=secret")...)...)
			got.Check(t, c.status, c.stdout, append(c.stderr, " "+s.URL+"/orders\n")...)
			if n := len(s.Bodies()); n != c.requests {
				t.Errorf("got %d requests, want %d", n, c.requests)
			}
			if strings.ContainsAny(got.Err, "\x1b\u009b") || strings.Contains(got.Err, "secret") {
				t.Errorf("standard error has colors or the query:\n%s", got.Err)
			}
			if rows := len(row.FindAllString(got.Err, -1)); rows != c.requests {
				t.Errorf("%d attempts are printed, want %d:\n%s", rows, c.requests, got.Err)
			}
		})
	}
}

// row matches the row of an attempt.
var row = regexp.MustCompile(`(?m)^ *\d+  \S+ +(success|permanent|transient|timeout|throttled) `)

func TestNoResponse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // so the port refuses connections
	refused := "http://" + listener.Addr().String() + "/?key=secret"
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
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
		{"another protocol", []string{"https" + strings.TrimPrefix(slow.URL, "http")},
			[]string{"tls", "stop: not retryable", "✗ no response after 1 attempt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{}.Run(t, New, quick(c.args...)...)
			got.Check(t, cli.Failure, "", c.stderr...)
			if strings.Contains(got.Err, "secret") {
				t.Errorf("standard error has the query:\n%s", got.Err)
			}
		})
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

// TestExitStatus finds no colors where there is no terminal, and package term
// tests what else decides.
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

func TestJSONFailure(t *testing.T) {
	got := clitest.Shell{}.Run(t, New, quick("--json", "--max-attempts", "2", "http://127.0.0.1:1/")...)
	lines := strings.Split(strings.TrimSuffix(got.Err, "\n"), "\n")
	if got.Status != cli.Failure || len(lines) != 2 || !strings.Contains(lines[1], `"stop":"max_attempts"`) {
		t.Errorf("status %d, standard error:\n%s\nwant the two attempts and nothing else", got.Status, got.Err)
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
		{"piped", clitest.Shell{}, []string{s.URL}, hostile},
		{"JSON", clitest.Shell{Terminals: terminals}, []string{"--json", s.URL}, harmless},
		{"redirect", clitest.Shell{Terminals: terminals}, []string{redirect.URL}, ""},
		{"dash", clitest.Shell{Terminals: terminals}, []string{"-o", "-", s.URL}, harmless},
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
