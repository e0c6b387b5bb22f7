package settings

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/clitest"
)

// parse returns the Transport of a command line and an environment.
func parse(t *testing.T, env map[string]string, args string) (*awsretry.Transport, awsretry.Settings, error) {
	t.Helper()
	var f Flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(set, func(string) string { return "" })
	if err := set.Parse(strings.Fields(args)); err != nil {
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

func TestPrecedence(t *testing.T) {
	const text = "[default]\nretry_mode = legacy\n\n[profile busy]\nretry_mode = adaptive\nmax_attempts = 8\n"
	env := map[string]string{"AWS_CONFIG_FILE": clitest.File(t, "config", text), "AWS_NEW_RETRIES_2026": "true"}
	invalid := map[string]string{"AWS_RETRY_MODE": "eager", "AWS_MAX_ATTEMPTS": "many", "AWS_NEW_RETRIES_2026": "?"}
	for _, c := range []struct {
		env      map[string]string
		args     string
		mode     awsretry.Mode
		attempts int
		revision awsretry.Revision
	}{
		{env, "--profile busy", awsretry.Adaptive, 8, awsretry.Revision2026},
		{env, "--max-attempts 5", awsretry.Legacy, 5, awsretry.Revision2026},
		{env, "--mode STANDARD --revision classic", awsretry.Standard, 3, awsretry.Classic},
		{invalid, "--mode standard --max-attempts 2 --revision 2026", awsretry.Standard, 2, awsretry.Revision2026},
	} {
		t.Run(c.args, func(t *testing.T) {
			transport, got, err := parse(t, c.env, c.args)
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
	delay := func(t *awsretry.Transport, retry int) time.Duration {
		return t.Backoff.Delay(retry, awsretry.Transient, 0)
	}
	for _, c := range []struct {
		args  string
		check func(*awsretry.Transport) bool
	}{
		{"", func(t *awsretry.Transport) bool {
			return t.Backoff == nil && t.Policy == nil && t.Partition == nil && t.MaxRetryAfter == 0 &&
				t.Quota.Capacity == 0 && t.RateLimit.Pacing == awsretry.CubicPacing
		}},
		{"--attempt-timeout 1.5 --max-retry-after 2m --quota 7 --partition orders --idempotent-only --sdk-headers",
			func(t *awsretry.Transport) bool {
				return t.AttemptTimeout == 1500*time.Millisecond && t.MaxRetryAfter == 2*time.Minute &&
					t.Quota.Capacity == 7 && t.Partition(&http.Request{}) == "orders" && t.Policy != nil && t.SDKHeaders
			}},
		{"--max-retry-after Ignore --quota -1",
			func(t *awsretry.Transport) bool { return t.MaxRetryAfter < 0 && t.Quota.Capacity < 0 }},
		{"--mode adaptive --fail-fast --pacing scaled", func(t *awsretry.Transport) bool {
			return t.RateLimit.FailFast && t.RateLimit.Pacing == awsretry.ScaledPacing
		}},
		{"--mode adaptive --pacing Cubic",
			func(t *awsretry.Transport) bool { return t.RateLimit.Pacing == awsretry.CubicPacing }},
		{"--base-delay 2s --jitter none",
			func(t *awsretry.Transport) bool { return delay(t, 0) == 2*time.Second && delay(t, 9) == 20*time.Second }},
		{"--base-delay 2s --max-delay 3s --jitter equal", func(t *awsretry.Transport) bool {
			return time.Second <= delay(t, 0) && delay(t, 0) <= 2*time.Second && delay(t, 9) <= 3*time.Second
		}},
	} {
		t.Run(c.args, func(t *testing.T) {
			if got, _, err := parse(t, nil, c.args); err != nil || !c.check(got) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestMissingFiles(t *testing.T) {
	there := clitest.File(t, "there", "")
	none, inFile := there+".none", filepath.Join(there, "config")
	for variable, path := range map[string]string{"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": inFile} {
		for file, want := range map[string]int{path: 1, there: 0, "": 0} {
			got := MissingFiles(func(name string) string { return map[string]string{variable: file}[name] })
			if len(got) != want || want > 0 && !strings.HasPrefix(got[0], "environment "+variable+" is \""+path+"\"") {
				t.Errorf("%s=%s: %q, want %d warnings", variable, file, got, want)
			}
		}
	}
}
