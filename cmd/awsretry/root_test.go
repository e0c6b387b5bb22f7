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
		{"an empty URL", nil, []string{"get", ""}, []string{"awsretry get: URL is empty\n"}},
		{"an empty scenario", nil, []string{"simulate", ""}, []string{"awsretry simulate: SCENARIO|FILE is empty\n"}},
		{"an empty name of a policy", nil, []string{"schedule", ""}, []string{"awsretry schedule: POLICY.json is empty\n"}},
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
		{"attempts beyond an int", nil, []string{"get", "--max-attempts", "99999999999999999999", url},
			[]string{`--max-attempts is "99999999999999999999"; it must be a whole number, 1 to `, "(1: never retry)"}},
		{"attempts, said like the others", nil, []string{"get", "--max-attempts", "0", url}, []string{`--max-attempts is "0"; it must be a whole number, 1 or more`}},
		{"shorthand", nil, []string{"get", "-X", "", url}, []string{`--method is ""; it must not be empty`}},
		{"truth", nil, []string{"get", "--fail-fast=perhaps", url}, []string{`--fail-fast is "perhaps"; it must be true or false`}},
		{"quota in legacy mode", nil, []string{"get", "--mode", "legacy", "--quota", "5", url},
			[]string{"--quota is 5; it must be left out, or -1, in legacy mode (flag --mode), which has no retry token bucket"}},
		{"quota in the environment's legacy mode", map[string]string{"AWS_RETRY_MODE": "legacy"}, []string{"get", "--quota", "5", url},
			[]string{"--quota is 5", "in legacy mode (environment AWS_RETRY_MODE)"}},
		{"revision in legacy mode", nil, []string{"get", "--mode", "legacy", "--revision", "2026", url}, []string{"--revision is 2026", "classic", "no revisions"}},
		{"fail fast in the default mode", nil, []string{"get", "--fail-fast", url},
			[]string{"--fail-fast is for adaptive mode only, and the mode is standard (the default)"}},
		{"fail fast in legacy mode", nil, []string{"get", "--fail-fast", "--mode", "legacy", url}, []string{"--fail-fast", "legacy (flag --mode)"}},
		{"empty output", nil, []string{"get", "-o", "", url}, []string{`--output is ""; it must not be empty`}},
		{"empty profile", nil, []string{"config", "--profile", ""}, []string{`--profile is ""; it must not be empty`}},
		{"empty partition", nil, []string{"get", "--partition", " ", url}, []string{`--partition is " "; it must not be empty`}},
		{"empty picture", nil, []string{"schedule", "--aws-managed", "--svg", ""}, []string{`--svg is ""; it must not be empty`}},
		{"file without name", nil, []string{"get", "-d", "@", url}, []string{"--data: @ must be followed by the name of a file"}},
		{"port", nil, []string{"demo", "--serve", "--port", "70000"}, []string{`--port is "70000"; it must be a whole number, 1 to 65535`}},
		{"port alone", nil, []string{"demo", "--port", "8080"}, []string{"--port is for --serve, which is missing"}},
		{"time alone", nil, []string{"demo", "--for", "1m"}, []string{"--for is for --serve, which is missing"}},
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
		{"profile", nil, []string{"get", "--profile", "none", url}, []string{`--profile is "none"; it must be a profile`}},
		{"config's profile", nil, []string{"config", "--profile", "none"}, []string{`--profile is "none"; it must be a profile`}},
		{"profile variable", map[string]string{"AWS_PROFILE": "none"}, []string{"config"}, []string{`environment AWS_PROFILE is "none"; it must be a profile`}},
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
