package settings

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/clitest"
)

// parse returns the Transport of a command line and an environment.
func parse(t *testing.T, env map[string]string, args ...string) (*awsretry.Transport, awsretry.Settings, error) {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(set, func(string) string { return "" })
	if err := set.Parse(args); err != nil {
		return nil, awsretry.Settings{}, err
	}
	home := t.TempDir()
	return f.Transport(func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	})
}

// withConfig returns an environment with a config file.
func withConfig(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	text := "[default]\nretry_mode = legacy\n\n[profile busy]\nretry_mode = adaptive\nmax_attempts = 8\n"
	all := map[string]string{"AWS_CONFIG_FILE": clitest.File(t, "config", text)}
	maps.Copy(all, env)
	return all
}

func TestPrecedence(t *testing.T) {
	revised := map[string]string{"AWS_NEW_RETRIES_2026": "true"}
	for _, c := range []struct {
		name     string
		env      map[string]string
		args     []string
		mode     awsretry.Mode
		attempts int
		revision awsretry.Revision
	}{
		{"profile", nil, []string{"--profile", "busy"}, awsretry.Adaptive, 8, awsretry.Classic},
		{"variable over file", map[string]string{"AWS_MAX_ATTEMPTS": "2"}, nil, awsretry.Legacy, 2, awsretry.Classic},
		{"flag over variable", map[string]string{"AWS_MAX_ATTEMPTS": "2"}, []string{"--max-attempts", "5"},
			awsretry.Legacy, 5, awsretry.Classic},
		{"the default of the flag's mode", nil, []string{"--mode", "STANDARD"}, awsretry.Standard, 3, awsretry.Classic},
		{"an invalid variable under a flag", map[string]string{"AWS_RETRY_MODE": "eager"},
			[]string{"--mode", "standard"},
			awsretry.Standard, 3, awsretry.Classic},
		{"revision variable", revised, []string{"--mode", "standard"}, awsretry.Standard, 3, awsretry.Revision2026},
		{"revision flag over variable", revised, []string{"--mode", "standard", "--revision", "classic"},
			awsretry.Standard, 3, awsretry.Classic},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport, got, err := parse(t, withConfig(t, c.env), c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got.Mode != c.mode || got.MaxAttempts != c.attempts || got.Revision != c.revision ||
				transport.Mode != c.mode {
				t.Errorf("got %+v, want %s, %d and %v", got, c.mode, c.attempts, c.revision)
			}
		})
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		check func(*awsretry.Transport) bool
	}{
		{"defaults", nil, func(t *awsretry.Transport) bool {
			return t.Backoff == nil && t.Policy == nil && t.Partition == nil && t.MaxRetryAfter == 0 &&
				t.Quota.Capacity == 0
		}},
		{"attempt time-out", []string{"--attempt-timeout", "1.5"},
			func(t *awsretry.Transport) bool { return t.AttemptTimeout == 1500*time.Millisecond }},
		{"Retry-After", []string{"--max-retry-after", "2m"},
			func(t *awsretry.Transport) bool { return t.MaxRetryAfter == 2*time.Minute }},
		{"Retry-After ignored", []string{"--max-retry-after", "Ignore"},
			func(t *awsretry.Transport) bool { return t.MaxRetryAfter < 0 }},
		{"quota", []string{"--quota", "7"}, func(t *awsretry.Transport) bool { return t.Quota.Capacity == 7 }},
		{"no quota", []string{"--quota", "-1"}, func(t *awsretry.Transport) bool { return t.Quota.Capacity < 0 }},
		{"partition", []string{"--partition", "orders"},
			func(t *awsretry.Transport) bool { return t.Partition(&http.Request{}) == "orders" }},
		{"idempotent only", []string{"--idempotent-only"}, func(t *awsretry.Transport) bool { return t.Policy != nil }},
		{"fail fast", []string{"--fail-fast", "--mode", "adaptive"},
			func(t *awsretry.Transport) bool { return t.RateLimit.FailFast }},
		{"pacing", []string{"--pacing", "scaled", "--mode", "adaptive"},
			func(t *awsretry.Transport) bool { return t.RateLimit.Pacing == awsretry.ScaledPacing }},
		{"the AWS SDKs' pacing", []string{"--pacing", "Cubic", "--mode", "adaptive"},
			func(t *awsretry.Transport) bool { return t.RateLimit.Pacing == awsretry.CubicPacing }},
		{"SDK headers", []string{"--sdk-headers"}, func(t *awsretry.Transport) bool { return t.SDKHeaders }},
		{"base delay", []string{"--base-delay", "2s", "--jitter", "none"}, func(t *awsretry.Transport) bool {
			first, last := t.Backoff.Delay(0, awsretry.Transient, 0), t.Backoff.Delay(9, awsretry.Transient, 0)
			return first == 2*time.Second && last == 20*time.Second
		}},
		{"most delay", []string{"--base-delay", "2s", "--max-delay", "3s", "--jitter", "none"},
			func(t *awsretry.Transport) bool {
				return t.Backoff.Delay(9, awsretry.Transient, 0) == 3*time.Second
			}},
		{"equal jitter", []string{"--base-delay", "2s", "--jitter", "equal"}, func(t *awsretry.Transport) bool {
			d := t.Backoff.Delay(0, awsretry.Transient, 0)
			return time.Second <= d && d <= 2*time.Second
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport, _, err := parse(t, nil, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(transport) {
				t.Errorf("got %+v", transport)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want []string
	}{
		{"mode", nil, []string{"--mode", "eager"}, []string{`"eager"`, "--mode", "standard, adaptive or legacy"}},
		{"revision", nil, []string{"--revision", "2025"}, []string{"classic or 2026"}},
		{"attempts 0", nil, []string{"--max-attempts", "0"},
			[]string{`"0"`, "--max-attempts", "1 or more (1: never retry)"}},
		{"attempt time-out 0", nil, []string{"--attempt-timeout", "0"}, []string{"--attempt-timeout", "above 0"}},
		{"Retry-After", nil, []string{"--max-retry-after", "never"}, []string{"or ignore"}},
		{"quota 0", nil, []string{"--quota", "0"}, []string{"--quota", "-1 for no bucket"}},
		{"empty partition", nil, []string{"--partition", " "}, []string{"--partition", "it must not be empty"}},
		{"max delay alone", nil, []string{"--max-delay", "1s"}, []string{"--base-delay", "missing"}},
		{"delays crossed", nil, []string{"--base-delay", "2s", "--max-delay", "1s"},
			[]string{"--base-delay is 2s", "--max-delay, 1s"}},
		{"base delay above the default", nil, []string{"--base-delay", "30s"}, []string{"--max-delay, 20s"}},
		{"quota in legacy mode", nil, []string{"--mode", "legacy", "--quota", "5"},
			[]string{"--quota is 5; it must be left out, or -1, in legacy mode (flag --mode), " +
				"which has no retry token bucket"}},
		{"quota in the environment's legacy mode", map[string]string{"AWS_RETRY_MODE": "legacy"},
			[]string{"--quota", "5"},
			[]string{"--quota is 5", "in legacy mode (environment AWS_RETRY_MODE)"}},
		{"revision in legacy mode", nil, []string{"--mode", "legacy", "--revision", "2026"},
			[]string{"--revision is 2026", "classic", "no revisions"}},
		{"fail fast in the default mode", nil, []string{"--fail-fast"},
			[]string{"--fail-fast is for adaptive mode only, and the mode is standard (the default)"}},
		{"pacing", nil, []string{"--mode", "adaptive", "--pacing", "linear"},
			[]string{`"linear"`, "--pacing", "it must be cubic or scaled"}},
		{"pacing in the default mode", nil, []string{"--pacing", "cubic"},
			[]string{"--pacing is for adaptive mode only, and the mode is standard (the default)"}},
		{"fail fast in legacy mode", nil, []string{"--fail-fast", "--mode", "legacy"},
			[]string{"--fail-fast", "legacy (flag --mode)"}},
		{"attempts variable", map[string]string{"AWS_MAX_ATTEMPTS": "0"}, nil, []string{"AWS_MAX_ATTEMPTS", `"0"`}},
		{"profile", nil, []string{"--profile", "none"}, []string{`Profile is "none"; it must be a profile`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := parse(t, c.env, c.args...)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestMissingFiles(t *testing.T) {
	folder := t.TempDir()
	none, there := filepath.Join(folder, "none"), filepath.Join(folder, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const config, credentials = "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"
	for _, c := range []struct {
		name string
		env  map[string]string
		want []string // variables
	}{
		{"none set", nil, nil},
		{"config file", map[string]string{config: none}, []string{config}},
		{"both", map[string]string{config: none, credentials: none}, []string{config, credentials}},
		{"in a file", map[string]string{config: filepath.Join(there, "config")}, []string{config}},
		{"there", map[string]string{config: there, credentials: os.DevNull}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			warnings := MissingFiles(func(name string) string { return c.env[name] })
			if len(warnings) != len(c.want) {
				t.Fatalf("%d warnings, want %d: %q", len(warnings), len(c.want), warnings)
			}
			for i, variable := range c.want {
				want := "environment " + variable + " is \"" + c.env[variable] + "\"; there is no such file"
				if !strings.Contains(warnings[i], want) {
					t.Errorf("%q does not say %q", warnings[i], want)
				}
			}
		})
	}
}
