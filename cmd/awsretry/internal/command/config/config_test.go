package config

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/clitest"
)

const configFile = `[default]
retry_mode = legacy

[profile busy]
retry_mode   = adaptive
max_attempts = 8
`

func TestGolden(t *testing.T) {
	file := clitest.File(t, "config", configFile)
	for _, c := range []struct {
		golden string
		env    map[string]string // and the file
		args   []string
	}{
		{"default.txt", map[string]string{"AWS_CONFIG_FILE": ""}, nil},
		{"file.txt", nil, nil},
		{"profile.txt", map[string]string{"AWS_PROFILE": "none"}, []string{"--profile", "busy"}},
		{"environment.txt",
			map[string]string{"AWS_PROFILE": "busy", "AWS_MAX_ATTEMPTS": "12", "AWS_NEW_RETRIES_2026": "TRUE"}, nil},
		{"profile.json", nil, []string{"--profile", "busy", "--json"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			env := map[string]string{"AWS_CONFIG_FILE": file}
			maps.Copy(env, c.env)
			got := clitest.Shell{Env: env}.Run(t, New, append([]string{"config"}, c.args...)...)
			if got.Status != 0 || got.Err != "" {
				t.Fatalf("status %d, standard error:\n%s", got.Status, got.Err)
			}
			clitest.Golden(t, c.golden, strings.ReplaceAll(got.Out, file, "CONFIG"))
		})
	}
}

func TestMissingFiles(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	env := map[string]string{"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none}
	got := clitest.Shell{Env: env}.Run(t, New, "config", "--json")
	warnings := strings.Count(got.Err, "awsretry config: warning: environment AWS_")
	if got.Status != 0 || warnings != 2 || got.Out == "" {
		t.Errorf("%+v, want status 0 and two warnings", got)
	}
}

func TestErrors(t *testing.T) {
	file := clitest.File(t, "config", "retry_mode = legacy\n") // without a section
	clitest.Shell{}.Transcript(t, "errors.txt", map[string]string{"CONFIG": file}, New)
}
