package config

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
	"example.com/awsretry/cmd/internal/clitest"
)

const configFile = `[default]
retry_mode = legacy

[profile busy]
retry_mode   = adaptive
max_attempts = 8
`

// withConfig returns an environment whose config file is configFile.
func withConfig(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{"AWS_CONFIG_FILE": clitest.File(t, "config", configFile)}
	maps.Copy(all, env)
	return all
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		golden string
		env    map[string]string
		file   bool
		args   []string
	}{
		{"default.txt", nil, false, nil},
		{"file.txt", nil, true, nil},
		{"profile.txt", map[string]string{"AWS_PROFILE": "none"}, true, []string{"--profile", "busy"}},
		{"environment.txt",
			map[string]string{"AWS_PROFILE": "busy", "AWS_MAX_ATTEMPTS": "12", "AWS_NEW_RETRIES_2026": "TRUE"},
			true, nil},
		{"profile.json", nil, true, []string{"--profile", "busy", "--json"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			env := c.env
			if c.file {
				env = withConfig(t, c.env)
			}
			got := clitest.Shell{Env: env}.Run(t, New, append([]string{"config"}, c.args...)...)
			if got.Status != 0 || got.Err != "" {
				t.Fatalf("status %d, standard error:\n%s", got.Status, got.Err)
			}
			masked := got.Out
			if file := env["AWS_CONFIG_FILE"]; file != "" {
				masked = strings.ReplaceAll(masked, file, "CONFIG")
			}
			clitest.Golden(t, c.golden, masked)
		})
	}
}

func TestMissingFiles(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"config"}, {"config", "--json"}} {
		env := map[string]string{"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none}
		got := clitest.Shell{Env: env}.Run(t, New, args...)
		warnings := strings.Count(got.Err, "awsretry config: warning: environment AWS_")
		if got.Status != 0 || warnings != 2 || got.Out == "" {
			t.Errorf("%q: %+v, want status 0 and two warnings", args, got)
		}
	}
}

func TestErrors(t *testing.T) {
	write := func(text string) map[string]string {
		return map[string]string{"AWS_CONFIG_FILE": clitest.File(t, "config", text)}
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string
		fail bool // a file or the environment is at fault, not the usage
	}{
		{"unclosed section", write("[default\nretry_mode = legacy\n"), nil,
			"line 1, in [default], cannot be read: it has no ]", true},
		{"binary file", write("\x7fELF\x00\x01"), nil, "has no [SECTION]", true},
		{"no section", write("retry_mode = legacy\n"), nil, "has no [SECTION]", true},
		{"mode variable", map[string]string{"AWS_RETRY_MODE": "eager"}, nil, `environment AWS_RETRY_MODE is "eager"`, true},
		{"profile", nil, []string{"--profile", "none"}, `awsretry config: profile is "none"; it must be a profile`, true},
		{"profile variable", map[string]string{"AWS_PROFILE": "none"}, nil,
			`environment AWS_PROFILE is "none"; it must be a profile`, true},
		{"empty profile", nil, []string{"--profile", ""}, `--profile is ""; it must not be empty`, false},
		{"argument", nil, []string{"x"}, `"x" is one too many`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Shell{Env: c.env}.Run(t, New, append([]string{"config"}, c.args...)...)
			status := cli.Usage
			if c.fail {
				status = cli.Failure
			}
			got.Check(t, status, "", c.want, c.env["AWS_CONFIG_FILE"])
		})
	}
}
