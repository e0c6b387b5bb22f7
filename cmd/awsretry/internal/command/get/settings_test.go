package get

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

// The second line of the report is the settings, and they are in force.
func TestRules(t *testing.T) {
	revised := map[string]string{"AWS_NEW_RETRIES_2026": "true"}
	for _, c := range []struct {
		name     string
		env      map[string]string
		args     []string
		requests int
		rules    string
	}{
		{"default", nil, nil, 3, "standard mode, up to 3 attempts\n"},
		{"variable", map[string]string{"AWS_MAX_ATTEMPTS": "2"}, nil, 2, "standard mode, up to 2 attempts\n"},
		{"adaptive", nil, []string{"--mode", "adaptive"}, 3, "adaptive mode, up to 3 attempts\n"},
		{"scaled", nil, []string{"--mode", "adaptive", "--pacing", "scaled"}, 3,
			"adaptive mode, scaled pacing, up to 3 attempts\n"},
		{"no retries", nil, []string{"--max-attempts", "1"}, 1, "standard mode, no retries\n"},
		{"revision", revised, nil, 3, "standard mode, 2026 revision\n"},
		{"legacy mode, which has no revisions", revised, []string{"--mode", "legacy"}, 4,
			"legacy mode, up to 4 attempts\n"},
		{"partition", nil, []string{"--partition", "orders", "--attempt-timeout", "5s"}, 3,
			"standard mode, up to 3 attempts of 5s, partition \"orders\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clitest.Start(t, clitest.Reply{Status: 500})
			got := clitest.Shell{Env: c.env}.Run(t, New, quick(append(c.args, s.URL)...)...)
			if n := len(s.Bodies()); got.Status != cli.HTTPError || n != c.requests {
				t.Errorf("status %d, %d requests; want 22, %d", got.Status, n, c.requests)
			}
			if !strings.Contains(got.Err, "\n"+c.rules) {
				t.Errorf("standard error lacks %q:\n%s", c.rules, got.Err)
			}
		})
	}
}

func TestMissingConfigFile(t *testing.T) {
	s := clitest.Start(t, clitest.Fine)
	shell := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none")}}
	got := shell.Run(t, New, "get", s.URL)
	if got.Status != 0 || !strings.HasPrefix(got.Err, "awsretry get: warning: environment AWS_CONFIG_FILE is ") {
		t.Errorf("%+v, want status 0 and a warning", got)
	}
	got = shell.Run(t, New, "get", "--json", s.URL)
	line, _, _ := strings.Cut(got.Err, "\n")
	var warning struct{ Warning string }
	if err := json.Unmarshal([]byte(line), &warning); got.Status != 0 || err != nil ||
		!strings.Contains(warning.Warning, "there is no such file") {
		t.Errorf("%+v, want status 0 and a warning in JSON", got)
	}
}

func TestInvalidConfigFile(t *testing.T) {
	path := clitest.File(t, "config", "retry_mode = legacy\n")
	got := clitest.Shell{Env: map[string]string{"AWS_CONFIG_FILE": path}}.Run(t, New, "get", "http://127.0.0.1:1/")
	got.Check(t, cli.Failure, "", path, "has no [SECTION]")
}
