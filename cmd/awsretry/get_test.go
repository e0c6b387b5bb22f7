package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A reply is what a service answers to one request.
type reply struct {
	status int // 0: the connection is closed without an answer
	header map[string]string
	body   string
}

var (
	unavailable = reply{status: 503, body: `<Error><Code>ServiceUnavailable</Code></Error>`}
	throttling  = reply{status: 400, body: `{"__type":"com.amazon#ThrottlingException"}`, header: map[string]string{"X-Amzn-Requestid": "id-17"}}
	invalid     = reply{status: 400, body: `{"__type":"ValidationException"}`, header: map[string]string{"X-Amzn-Requestid": "id-18"}}
	closed      = reply{}
	fine        = reply{status: 200, body: "hello"}
)

// A service gives its replies in order, the last one ever after, and keeps what it was sent.
type service struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, replies ...reply) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		reply := replies[min(len(s.requests), len(replies)-1)]
		s.requests = append(s.requests, r)
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		if reply.status == 0 {
			panic(http.ErrAbortHandler)
		}
		for name, value := range reply.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(reply.status)
		io.WriteString(w, reply.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// get is a command line with short pauses.
func get(args ...string) []string {
	return append([]string{"get", "--base-delay", "1ms", "--max-delay", "2ms"}, args...)
}

func TestGetExitStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		replies  []reply
		args     []string
		status   int
		requests int
		stdout   string
		stderr   []string
	}{
		{"success", []reply{fine}, nil, 0, 1, "hello", []string{"✓ 200 OK after 1 attempt"}},
		{"saved by retries", []reply{closed, unavailable, fine}, nil, 0, 3, "hello",
			[]string{"retry in", "ServiceUnavailable", "✓ 200 OK after 3 attempts"}},
		{"error is left", []reply{unavailable}, nil, 22, 3, unavailable.body,
			[]string{"stop: attempts used up", "✗ 503 Service Unavailable (ServiceUnavailable) after 3 attempts", "--max-attempts"}},
		{"throttled", []reply{throttling}, []string{"--max-attempts", "2"}, 22, 2, throttling.body,
			[]string{"throttled", "ThrottlingException", "request id id-17"}},
		{"bad request", []reply{invalid}, nil, 22, 1, invalid.body,
			[]string{"stop: not retryable", "ValidationException", "request id id-18", "has to change"}},
		{"no retries", []reply{unavailable}, []string{"--max-attempts", "1"}, 22, 1, unavailable.body,
			[]string{"no retries\n", "no retry is allowed (--max-attempts 1)"}},
		{"redirect", []reply{{status: 302, header: map[string]string{"Location": "/there?key=secret"}}}, nil, 0, 1, "",
			[]string{"302", "/there\n", "✓ 302 Found"}},
		{"long Retry-After", []reply{{status: 429, header: map[string]string{"Retry-After": "90"}}}, nil, 22, 1, "",
			[]string{"Retry-After: 90", "stop: pause too long", "--max-retry-after"}},
		{"ignored Retry-After", []reply{{status: 429, header: map[string]string{"Retry-After": "90"}}, fine},
			[]string{"--max-retry-after", "ignore"}, 0, 2, "hello", nil},
		{"small bucket", []reply{unavailable}, []string{"--quota", "7", "--max-attempts", "5"}, 22, 2, unavailable.body,
			[]string{"stop: too few tokens", "--quota"}},
		{"no bucket", []reply{throttling}, []string{"--quota", "-1", "--max-attempts", "60"}, 22, 60, throttling.body, nil},
		{"pause after the deadline", []reply{{status: 429, header: map[string]string{"Retry-After": "50"}}},
			[]string{"--timeout", "20"}, 22, 1, "", []string{"stop: deadline is near", "outlast --timeout"}},
		{"fail fast", []reply{throttling}, []string{"--mode", "adaptive", "--fail-fast"}, 22, 1, throttling.body,
			[]string{"stop: rate limited", "--fail-fast"}},
		{"outer loop", []reply{unavailable}, []string{"-H", "amz-sdk-request: attempt=1; max=3"}, 22, 1, unavailable.body,
			[]string{"stop: caller retries", "Amz-Sdk-Request"}},
		{"idempotent only", []reply{unavailable}, []string{"--idempotent-only", "-X", "POST"}, 22, 1, unavailable.body, nil},
		{"idempotent only, throttled", []reply{throttling, fine}, []string{"--idempotent-only", "-X", "POST"}, 0, 2, "hello", nil},
		{"error in a 200", []reply{{status: 200, body: `<Error><Code>AccessDenied</Code></Error>`}},
			[]string{"-X", "PUT", "-H", "X-Amz-Copy-Source: /a/b"}, 22, 1, `<Error><Code>AccessDenied</Code></Error>`, []string{"(AccessDenied)"}},
		{"control characters", []reply{{status: 400, header: map[string]string{"X-Amzn-Requestid": "a\u009b31mb"}}}, nil, 22, 1, "",
			[]string{"request id a\uFFFD31mb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.replies...)
			got := shell{}.run(t, get(append(c.args, s.URL+"/orders?key=secret")...)...)
			if got.status != c.status || got.stdout != c.stdout {
				t.Errorf("status %d, standard output %q; want %d, %q", got.status, got.stdout, c.status, c.stdout)
			}
			if n := len(s.received()); n != c.requests {
				t.Errorf("%d requests came, want %d", n, c.requests)
			}
			for _, want := range append(c.stderr, " "+s.URL+"/orders\n") {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("standard error lacks %q:\n%s", want, got.stderr)
				}
			}
			if strings.ContainsAny(got.stderr, "\x1b\u009b") || strings.Contains(got.stderr, "secret") {
				t.Errorf("standard error has colours or the query:\n%s", got.stderr)
			}
			if rows := len(row.FindAllString(got.stderr, -1)); rows != c.requests {
				t.Errorf("%d attempts are printed, want %d:\n%s", rows, c.requests, got.stderr)
			}
		})
	}
}

// row is an attempt's line.
var row = regexp.MustCompile(`(?m)^ *\d+  \S+ +(success|permanent|transient|timeout|throttled) `)

func TestGetWithoutAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close() // nobody listens there now
	refused := "http://" + listener.Addr().String() + "/?key=secret"
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	for _, c := range []struct {
		name   string
		args   []string
		stderr []string
	}{
		{"refused", []string{refused}, []string{"refused  transient", "connection refused", "✗ no answer after 3 attempts", "--max-attempts"}},
		{"attempts time out", []string{"--attempt-timeout", "30ms", slow.URL}, []string{"timeout  timeout", "✗ no answer after 3 attempts", "AttemptTimeout"}},
		{"time-out of all", []string{"--timeout", "50ms", slow.URL}, []string{"ended", "stop: canceled", "✗ no answer after 1 attempt", "--timeout, 50ms, is over"}},
		{"another protocol", []string{"https" + strings.TrimPrefix(slow.URL, "http")}, []string{"tls", "stop: not retryable", "✗ no answer after 1 attempt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shell{}.run(t, get(c.args...)...)
			if got.status != exitFailure || got.stdout != "" || strings.Contains(got.stderr, "secret") {
				t.Errorf("status %d, standard output %q, standard error:\n%s", got.status, got.stdout, got.stderr)
			}
			for _, want := range c.stderr {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("standard error lacks %q:\n%s", want, got.stderr)
				}
			}
		})
	}
}

func TestGetInterrupted(t *testing.T) {
	s := serve(t, reply{status: 503, header: map[string]string{"Retry-After": "30"}})
	for _, asJSON := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		got := shell{}.runContext(t, ctx, get(s.URL, fmt.Sprintf("--json=%t", asJSON))...)
		cancel()
		want := "✗ interrupted after 1 attempt"
		if asJSON {
			want = `{"error":"interrupted"}`
		}
		if got.status != exitFailure || !strings.Contains(got.stderr, want) {
			t.Errorf("status %d, standard error lacks %q:\n%s", got.status, want, got.stderr)
		}
	}
}

func TestGetTable(t *testing.T) {
	s := serve(t, throttling, unavailable, fine)
	got := shell{}.run(t, get("--jitter", "none", s.URL+"/orders")...)
	masked := strings.ReplaceAll(got.stderr, s.URL, "http://HOST")
	masked = regexp.MustCompile(`(?m)^(  \d.{22}).{7}`).ReplaceAllString(masked, "$1   TIME") // the column keeps its width
	masked = regexp.MustCompile(`, [\d.]+ m?s\n`).ReplaceAllString(masked, ", TIME\n")
	golden(t, "get.txt", masked)
}

func TestGetColours(t *testing.T) {
	terminal := []string{"stderr"}
	for _, c := range []struct {
		name    string
		shell   shell
		args    []string
		colours bool
	}{
		{"terminal", shell{terminals: terminal}, nil, true},
		{"no terminal", shell{}, nil, false},
		{"other terminal", shell{terminals: []string{"stdout"}}, nil, false},
		{"NO_COLOR", shell{terminals: terminal, env: map[string]string{"NO_COLOR": "1"}}, nil, false},
		{"empty NO_COLOR", shell{terminals: terminal, env: map[string]string{"NO_COLOR": ""}}, nil, true},
		{"dumb terminal", shell{terminals: terminal, env: map[string]string{"TERM": "dumb"}}, nil, false},
		{"JSON", shell{terminals: terminal}, []string{"--json"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, unavailable, fine)
			got := c.shell.run(t, get(append(c.args, s.URL)...)...)
			if colours := strings.Contains(got.stderr, "\x1b["); colours != c.colours {
				t.Errorf("colours: %t, want %t: %q", colours, c.colours, got.stderr)
			}
			if got.stdout != "hello" {
				t.Errorf("standard output is %q", got.stdout)
			}
		})
	}
}

func TestGetPaints(t *testing.T) {
	s := serve(t, unavailable, throttling)
	got := shell{terminals: []string{"stderr"}}.run(t, get("--max-attempts", "2", s.URL)...)
	for what, want := range map[string]string{
		"a transient failure": "\x1b[33m503    \x1b[0m",
		"throttling":          "\x1b[35m400    \x1b[0m",
		"giving up":           "\x1b[31mstop: attempts used up\x1b[0m",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%s is not %q in %q", what, want, got.stderr)
		}
	}
}

// On a terminal the body stands apart from what is said about it.
func TestGetOnTerminal(t *testing.T) {
	s := serve(t, fine)
	var screen bytes.Buffer
	run(t.Context(), []string{"get", s.URL}, process{
		stdin: strings.NewReader(""), stdout: &screen, stderr: &screen,
		getenv:     func(name string) string { return map[string]string{"HOME": t.TempDir(), "NO_COLOR": "1"}[name] },
		isTerminal: func(io.Writer) bool { return true },
	})
	if !regexp.MustCompile(`✓ 200 OK after 1 attempt, \S+ ms\n\nhello\n$`).MatchString(screen.String()) {
		t.Errorf("the screen shows %q", screen.String())
	}
}

func TestGetJSON(t *testing.T) {
	s := serve(t, closed, throttling, fine)
	got := shell{env: map[string]string{"AWS_RETRY_MODE": "adaptive"}}.run(t, get("--json", s.URL+"/orders?key=secret")...)
	if got.status != 0 || got.stdout != "hello" {
		t.Errorf("status %d, standard output %q", got.status, got.stdout)
	}
	var records []map[string]any
	decoder := json.NewDecoder(strings.NewReader(got.stderr))
	for decoder.More() {
		var r map[string]any
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if lines := strings.Count(got.stderr, "\n"); lines != 3 || len(records) != 3 {
		t.Fatalf("%d lines, %d objects; want 3 of each:\n%s", lines, len(records), got.stderr)
	}
	for _, r := range records {
		if start, err := time.Parse(time.RFC3339Nano, fmt.Sprint(r["start"])); err != nil || time.Since(start) > time.Minute {
			t.Errorf("start is %v", r["start"])
		}
		delete(r, "start")
		for _, name := range []string{"elapsed_ms", "delay_ms", "waited_ms", "send_rate"} {
			if number, ok := r[name].(float64); ok && number >= 0 {
				r[name] = "number"
			}
		}
	}
	url := s.URL + "/orders"
	want := []map[string]any{
		{"attempt": 1.0, "method": "GET", "url": url, "error": "EOF", "class": "transient", "elapsed_ms": "number",
			"delay_ms": "number", "tokens": 495.0},
		{"attempt": 2.0, "method": "GET", "url": url, "status": 400.0, "code": "ThrottlingException", "class": "throttled",
			"request_id": "id-17", "elapsed_ms": "number", "delay_ms": "number", "tokens": 485.0, "send_rate": "number"},
		{"attempt": 3.0, "method": "GET", "url": url, "status": 200.0, "class": "success", "elapsed_ms": "number",
			"waited_ms": "number", "tokens": 495.0, "send_rate": "number", "stop": "success"},
	}
	for i := range records {
		delete(records[i], "waited_ms") // it is there where it is above a microsecond
		delete(want[i], "waited_ms")
	}
	if diff := cmp.Diff(want, records); diff != "" {
		t.Errorf("want to got:\n%s", diff)
	}
}

func TestGetJSONFailure(t *testing.T) {
	got := shell{}.run(t, get("--json", "--max-attempts", "2", "http://127.0.0.1:1/")...)
	lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
	if got.status != exitFailure || len(lines) != 2 || !strings.Contains(lines[1], `"stop":"max_attempts"`) {
		t.Errorf("status %d, standard error:\n%s\nwant the two attempts and nothing else", got.status, got.stderr)
	}
}

func TestGetRequest(t *testing.T) {
	s := serve(t, fine)
	for _, c := range []struct {
		name   string
		args   []string
		method string
		header map[string]string
		body   string
	}{
		{"default", nil, "GET", map[string]string{"User-Agent": "awsretry/" + version()}, ""},
		{"method", []string{"-X", "DELETE"}, "DELETE", nil, ""},
		{"data", []string{"-d", "a=1"}, "POST", map[string]string{"Content-Length": "3"}, "a=1"},
		{"empty data", []string{"-d", ""}, "POST", map[string]string{"Content-Length": "0"}, ""},
		{"data and method", []string{"-X", "PUT", "--data", "x"}, "PUT", nil, "x"},
		{"headers", []string{"-H", "X-A: 1, 2", "-H", "user-agent: mine", "-H", "host: other.example", "-H", "Empty:"}, "GET",
			map[string]string{"X-A": "1, 2", "User-Agent": "mine", "Host": "other.example", "Empty": ""}, ""},
		{"SDK headers", []string{"--sdk-headers", "--max-attempts", "4"}, "GET", map[string]string{"Amz-Sdk-Request": "attempt=1; max=4"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (shell{}).run(t, get(append(c.args, s.URL)...)...); got.status != 0 {
				t.Fatalf("status %d, standard error:\n%s", got.status, got.stderr)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			req, body := s.requests[len(s.requests)-1], s.bodies[len(s.bodies)-1]
			if req.Method != c.method || body != c.body {
				t.Errorf("%s with %q came, want %s with %q", req.Method, body, c.method, c.body)
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

func TestGetUserOfURL(t *testing.T) {
	s := serve(t, fine)
	got := shell{}.run(t, "get", strings.Replace(s.URL, "http://", "http://me:hidden@", 1))
	user, password, _ := s.requests[0].BasicAuth()
	if user != "me" || password != "hidden" || strings.Contains(got.stderr, "hidden") {
		t.Errorf("%s:%s came, and standard error is\n%s", user, password, got.stderr)
	}
}

// Every way to give a body gives each attempt the same bytes.
func TestGetReplaysBody(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 2<<20/16) // longer than what is kept of a stream
	short := long[:100_000]
	write := func(content string) string {
		name := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
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
		{"standard input from a file's middle", "@-", openAt(write(long), 1<<20), long[1<<20:], int64(len(long) - 1<<20), 3, 0},
		{"long standard input", "@-", struct{ io.Reader }{strings.NewReader(long)}, long, -1, 1, 22},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, unavailable, unavailable, fine)
			got := shell{stdin: c.stdin}.run(t, get("-d", c.data, s.URL)...)
			if got.status != c.status {
				t.Errorf("status %d, want %d; standard error:\n%s", got.status, c.status, got.stderr)
			}
			bodies := s.received()
			if len(bodies) != c.times {
				t.Errorf("%d requests came, want %d", len(bodies), c.times)
			}
			for i, body := range bodies {
				if body != c.body {
					t.Errorf("attempt %d brought %d bytes, want the same %d", i+1, len(body), len(c.body))
				}
				if length := s.requests[i].ContentLength; length != c.length {
					t.Errorf("attempt %d announced %d bytes, want %d", i+1, length, c.length)
				}
			}
			if c.status != 0 && !strings.Contains(got.stderr, "-d @FILE") {
				t.Errorf("standard error does not say what helps:\n%s", got.stderr)
			}
		})
	}
}
