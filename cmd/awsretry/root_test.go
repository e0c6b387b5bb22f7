package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A ran is what came of a command line.
type ran struct {
	status         int
	stdout, stderr string
}

// A shell runs command lines in this process.
type shell struct {
	env       map[string]string
	stdin     io.Reader
	terminals []string // of "stdout", "stderr"
	width     int      // of the terminals
}

func (s shell) run(t *testing.T, args ...string) ran {
	t.Helper()
	return s.runContext(t, t.Context(), args...)
}

func (s shell) runContext(t *testing.T, ctx context.Context, args ...string) ran {
	t.Helper()
	home := t.TempDir() // no file of the machine's is read
	var stdout, stderr bytes.Buffer
	if s.stdin == nil {
		s.stdin = strings.NewReader("")
	}
	status := run(ctx, args, process{
		stdin:  s.stdin,
		stdout: &stdout,
		stderr: &stderr,
		getenv: func(name string) string {
			if value, ok := s.env[name]; ok {
				return value
			}
			return map[string]string{"HOME": home, "TERM": "xterm"}[name]
		},
		isTerminal: func(w io.Writer) bool {
			for _, name := range s.terminals {
				if name == "stdout" && w == &stdout || name == "stderr" && w == &stderr {
					return true
				}
			}
			return false
		},
		width: func(io.Writer) int { return s.width },
	})
	return ran{status, stdout.String(), stderr.String()}
}

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// golden compares what was printed with a file in testdata.
func golden(t *testing.T, name, printed string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), printed); diff != "" {
		t.Errorf("%s to printed:\n%s", name, diff)
	}
}

func TestUsageErrors(t *testing.T) {
	const url = "http://127.0.0.1:1/x"
	folder := t.TempDir()
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want []string // in what is printed
	}{
		{"no such command", nil, []string{"fetch", url}, []string{`unknown command "fetch"`}},
		{"no such flag", nil, []string{"get", "--retries", "3", url}, []string{"unknown flag: --retries", "See awsretry get --help"}},
		{"no URL", nil, []string{"get"}, []string{"URL is missing"}},
		{"two URLs", nil, []string{"get", url, url + "2"}, []string{`"http://127.0.0.1:1/x2" is one too many`}},
		{"no scheme", nil, []string{"get", "example.com/x?key=secret"}, []string{`"example.com/x"`, "http:// or https://"}},
		{"other scheme", nil, []string{"get", "ftp://example.com/"}, []string{"http:// or https://"}},
		{"no host", nil, []string{"get", "http:///x"}, []string{"no host"}},
		{"bad port", nil, []string{"get", "http://example.com:x/?key=secret"}, []string{`"http://example.com:x/"`, "invalid port"}},
		{"mode", nil, []string{"get", "--mode", "eager", url}, []string{`"eager"`, "--mode", "standard, adaptive or legacy"}},
		{"attempts 0", nil, []string{"get", "--max-attempts", "0", url}, []string{`"0"`, "--max-attempts", "1 or more"}},
		{"attempts text", nil, []string{"get", "--max-attempts", "many", url}, []string{`"many"`, "1 or more"}},
		{"revision", nil, []string{"get", "--revision", "2025", url}, []string{"classic or 2026"}},
		{"time-out", nil, []string{"get", "--timeout", "soon", url}, []string{`"soon"`, "--timeout", "500ms"}},
		{"time-out 0", nil, []string{"get", "--attempt-timeout", "0", url}, []string{"--attempt-timeout", "above 0"}},
		{"time-out negative", nil, []string{"get", "--timeout=-1s", url}, []string{"above 0"}},
		{"time-out not a number", nil, []string{"get", "--timeout", "nan", url}, []string{"above 0"}},
		{"retry after", nil, []string{"get", "--max-retry-after", "never", url}, []string{"or ignore"}},
		{"quota 0", nil, []string{"get", "--quota", "0", url}, []string{"--quota", "-1 for no bucket"}},
		{"max delay alone", nil, []string{"get", "--max-delay", "1s", url}, []string{"--base-delay", "missing"}},
		{"delays crossed", nil, []string{"get", "--base-delay", "2s", "--max-delay", "1s", url}, []string{"--base-delay is 2s", "--max-delay, 1s"}},
		{"base delay above the default", nil, []string{"get", "--base-delay", "30s", url}, []string{"--max-delay, 20s"}},
		{"method", nil, []string{"get", "-X", "GET IT", url}, []string{"--method", `"GET IT"`}},
		{"header without colon", nil, []string{"get", "-H", "Accept", url}, []string{"--header", `"Accept"`, "Name: value"}},
		{"header name", nil, []string{"get", "-H", "A b: c", url}, []string{"--header", `"A b"`}},
		{"header value", nil, []string{"get", "-H", "A: b\nC: d", url}, []string{"--header A", "control character"}},
		{"header length", nil, []string{"get", "-H", "content-length: 3", url}, []string{"--header content-length", "--data"}},
		{"no such file", nil, []string{"get", "-d", "@" + filepath.Join(folder, "none"), url}, []string{"--data", "no such file"}},
		{"folder as file", nil, []string{"get", "-d", "@" + folder, url}, []string{"--data", "is a directory"}},
		{"folder as output", nil, []string{"get", "-o", folder, url}, []string{"--output", "is a directory"}},
		{"no such folder", nil, []string{"get", "-o", filepath.Join(folder, "none", "x"), url}, []string{"--output", "no such file"}},
		{"attempts variable", map[string]string{"AWS_MAX_ATTEMPTS": "0"}, []string{"get", url}, []string{"AWS_MAX_ATTEMPTS", `"0"`}},
		{"mode variable", map[string]string{"AWS_RETRY_MODE": "eager"}, []string{"config"}, []string{"AWS_RETRY_MODE", `"eager"`}},
		{"profile", nil, []string{"get", "--profile", "none", url}, []string{`"none"`, "profile"}},
		{"config with argument", nil, []string{"config", "x"}, []string{`"x" is one too many`}},
		{"demo with argument", nil, []string{"demo", "x"}, []string{`"x" is one too many`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shell{env: c.env}.run(t, c.args...)
			if got.status != exitUsage || got.stdout != "" {
				t.Errorf("status %d, standard output %q; want status 2 and no output", got.status, got.stdout)
			}
			if !strings.HasPrefix(got.stderr, "awsretry") || strings.Contains(got.stderr, ": awsretry: ") {
				t.Errorf("%q does not begin with the command's name, once", got.stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("%q does not say %q", got.stderr, want)
				}
			}
			if strings.Contains(got.stderr, "secret") {
				t.Errorf("%q shows the query", got.stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"awsretry get", "awsretry config", "awsretry demo", "version"}},
		{[]string{"--help"}, []string{"Available Commands"}},
		{[]string{"get", "--help"}, []string{"Exit status: 0 success; 22", "\nRequest:\n", "\nRetries:\n", "--max-attempts N", "\nExamples:\n"}},
		{[]string{"config", "--help"}, []string{"AWS_CONFIG_FILE", "--profile PROFILE"}},
		{[]string{"demo", "-h"}, []string{"loopback"}},
		{[]string{"version"}, []string{"awsretry " + version() + " go1."}},
		{[]string{"--version"}, []string{"awsretry " + version() + "\n"}},
	} {
		got := shell{}.run(t, c.args...)
		if got.status != 0 || got.stderr != "" {
			t.Errorf("%q: status %d, standard error %q", c.args, got.status, got.stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("%q prints %q without %q", c.args, got.stdout, want)
			}
		}
	}
}
