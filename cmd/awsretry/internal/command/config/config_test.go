package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const configFile = `[default]
retry_mode = legacy

[profile busy]
retry_mode   = adaptive
max_attempts = 8
`

// withConfig is an environment whose config file is configFile.
func withConfig(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(name, []byte(configFile), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"AWS_CONFIG_FILE": name}
	for k, v := range env {
		all[k] = v
	}
	return all
}

func TestConfigGolden(t *testing.T) {
	for _, c := range []struct {
		golden string
		env    map[string]string
		file   bool
		args   []string
	}{
		{"config-default.txt", nil, false, nil},
		{"config-file.txt", nil, true, nil},
		{"config-profile.txt", map[string]string{"AWS_PROFILE": "none"}, true, []string{"--profile", "busy"}},
		{"config-environment.txt", map[string]string{"AWS_PROFILE": "busy", "AWS_MAX_ATTEMPTS": "12", "AWS_NEW_RETRIES_2026": "TRUE"}, true, nil},
		{"config-profile.json", nil, true, []string{"--profile", "busy", "--json"}},
	} {
		t.Run(c.golden, func(t *testing.T) {
			env := c.env
			if c.file {
				env = withConfig(t, c.env)
			}
			got := shell{env: env}.run(t, append([]string{"config"}, c.args...)...)
			if got.status != 0 || got.stderr != "" {
				t.Fatalf("status %d, standard error:\n%s", got.status, got.stderr)
			}
			masked := got.stdout
			if file := env["AWS_CONFIG_FILE"]; file != "" {
				masked = strings.ReplaceAll(masked, file, "CONFIG")
			}
			golden(t, c.golden, masked)
		})
	}
}

func TestConfigColours(t *testing.T) {
	for _, c := range []struct {
		shell   shell
		args    []string
		colours bool
	}{
		{shell{terminals: []string{"stdout"}}, nil, true},
		{shell{terminals: []string{"stderr"}}, nil, false},
		{shell{terminals: []string{"stdout"}, env: map[string]string{"NO_COLOR": "x"}}, nil, false},
		{shell{terminals: []string{"stdout"}}, []string{"--json"}, false},
	} {
		got := c.shell.run(t, append([]string{"config"}, c.args...)...)
		if colours := strings.Contains(got.stdout, "\x1b["); colours != c.colours {
			t.Errorf("%+v %q: colours: %t, want %t", c.shell, c.args, colours, c.colours)
		}
	}
}

// What config says is what get does, and flags go before it.
func TestGetFollowsConfig(t *testing.T) {
	for _, c := range []struct {
		name     string
		env      map[string]string
		args     []string
		requests int
		rules    string
	}{
		{"default profile", nil, nil, 4, "legacy mode, up to 4 attempts\n"},
		{"profile", nil, []string{"--profile", "busy"}, 8, "adaptive mode, up to 8 attempts\n"},
		{"profile's variable", map[string]string{"AWS_PROFILE": "busy"}, nil, 8, "adaptive mode, up to 8 attempts\n"},
		{"variable over file", map[string]string{"AWS_MAX_ATTEMPTS": "2"}, nil, 2, "legacy mode, up to 2 attempts\n"},
		{"flag over variable", map[string]string{"AWS_MAX_ATTEMPTS": "2"}, []string{"--max-attempts", "5"}, 5, "legacy mode, up to 5 attempts\n"},
		{"flag's mode has its own default", nil, []string{"--mode", "STANDARD"}, 3, "standard mode, up to 3 attempts\n"},
		{"a value that is overridden is not judged", map[string]string{"AWS_RETRY_MODE": "eager"}, []string{"--mode", "standard"}, 3, "standard mode, up to 3 attempts\n"},
		{"revision", map[string]string{"AWS_NEW_RETRIES_2026": "true"}, []string{"--mode", "standard"}, 3, "standard mode, 2026 revision\n"},
		{"flag over the revision's variable", map[string]string{"AWS_NEW_RETRIES_2026": "true"}, []string{"--mode", "standard", "--revision", "classic"}, 3, "standard mode, up to 3 attempts\n"},
		{"partition", nil, []string{"--partition", "orders", "--attempt-timeout", "5s"}, 4, "legacy mode, up to 4 attempts of 5s, partition \"orders\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, reply{status: 500})
			got := shell{env: withConfig(t, c.env)}.run(t, get(append(c.args, s.URL)...)...)
			if n := len(s.received()); got.status != exitHTTPError || n != c.requests {
				t.Errorf("status %d, %d requests; want 22, %d", got.status, n, c.requests)
			}
			if !strings.Contains(got.stderr, c.rules) {
				t.Errorf("standard error lacks %q:\n%s", c.rules, got.stderr)
			}
		})
	}
}

func TestConfigJSONIsJSON(t *testing.T) {
	got := shell{env: withConfig(t, nil)}.run(t, "config", "--json", "--profile", "busy")
	var settings map[string]struct {
		Value any
		From  string
	}
	if err := json.Unmarshal([]byte(got.stdout), &settings); err != nil {
		t.Fatal(err)
	}
	if s := settings["max_attempts"]; s.Value != 8.0 || !strings.Contains(s.From, "[profile busy] max_attempts") {
		t.Errorf("max_attempts is %v", s)
	}
}

// A variable that names a file which does not exist leads to a warning.
func TestMissingConfigFile(t *testing.T) {
	folder := t.TempDir()
	none := filepath.Join(folder, "none")
	if err := os.WriteFile(filepath.Join(folder, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, fine)
	const config, credentials = "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want []string // the variables that there is a warning of
	}{
		{"none set", nil, []string{"config"}, nil},
		{"config file", map[string]string{config: none}, []string{"config"}, []string{config}},
		{"both", map[string]string{config: none, credentials: none}, []string{"config", "--json"}, []string{config, credentials}},
		{"below a file", map[string]string{config: filepath.Join(folder, "there", "config")}, []string{"config"}, []string{config}},
		{"there", map[string]string{config: filepath.Join(folder, "there"), credentials: os.DevNull}, []string{"config"}, nil},
		{"get", map[string]string{config: none}, get(s.URL), []string{config}},
		{"get, JSON", map[string]string{config: none}, get("--json", s.URL), []string{config}},
		{"simulate", map[string]string{config: none}, quick("--settings", "profile=default"), []string{config}},
		{"simulate without profile", map[string]string{config: none}, quick(), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := shell{env: c.env}.run(t, c.args...)
			if got.status != 0 {
				t.Errorf("%+v", got)
			}
			if n := strings.Count(got.stderr, "warning"); n != len(c.want) {
				t.Errorf("%d warnings, want %d: %s", n, len(c.want), got.stderr)
			}
			for _, variable := range c.want {
				want := "environment " + variable + " is " + strconv.Quote(c.env[variable]) + "; there is no such file"
				if !strings.Contains(strings.ReplaceAll(got.stderr, `\"`, `"`), want) {
					t.Errorf("standard error lacks %q:\n%s", want, got.stderr)
				}
			}
			if strings.Contains(strings.Join(c.args, " "), "--json") {
				for line := range strings.Lines(got.stderr) {
					if c.args[0] == "get" && !json.Valid([]byte(line)) {
						t.Errorf("no JSON: %s", line)
					}
				}
			}
		})
	}
}

// A config file that makes no sense is an error in every command that reads it.
func TestConfigFileThatMakesNoSense(t *testing.T) {
	folder := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"unclosed": {"[default\nretry_mode = legacy\n", "line 1, in [default], cannot be read: it has no ]"},
		"binary":   {"\x7fELF\x00\x01", "has a NUL byte"},
		"bare":     {"retry_mode = legacy\n", "has no [SECTION]"},
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"config"}, {"get", "http://127.0.0.1:1/"}} {
			got := shell{env: map[string]string{"AWS_CONFIG_FILE": path}}.run(t, args...)
			if got.status != exitUsage || !strings.Contains(got.stderr, path) || !strings.Contains(got.stderr, c.want) {
				t.Errorf("%s: %+v, want %q", name, got, c.want)
			}
		}
	}
}

// Legacy mode has no revisions, so get does not speak of one.
func TestLegacyModeHasNoRevision(t *testing.T) {
	got := shell{env: map[string]string{"AWS_NEW_RETRIES_2026": "true"}}.run(t, get("--mode", "legacy", serve(t, fine).URL)...)
	if !strings.Contains(got.stderr, "\nlegacy mode, up to 4 attempts\n") {
		t.Error(got.stderr)
	}
}
