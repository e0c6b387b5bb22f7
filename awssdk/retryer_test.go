package awssdk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
)

// Each field that makes no sense is named, as a field of Config.
func TestInvalidConfig(t *testing.T) {
	for _, tt := range []struct {
		config Config
		want   []string
	}{
		{Config{Mode: "fast"}, []string{"awssdk: Config.Mode", `"fast"`, "standard"}},
		{Config{Revision: 7}, []string{"awssdk: Config.Revision", "7"}},
		{Config{MaxAttempts: -1, Revision: -2}, []string{"awssdk: Config.MaxAttempts is -1", "awssdk: Config.Revision is -2"}},
		{Config{Quota: awsretry.QuotaConfig{Wait: true}}, []string{"awssdk: Config.", "RefillPerSecond"}},
		{Config{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Beta: 2}}, []string{"awssdk: Config.", "Beta"}},
		{Config{Backoff: awsretry.Exponential{Initial: -time.Second}}, []string{"awssdk: Config.", "Initial"}},
	} {
		r, err := NewRetryer(tt.config)
		if err == nil || r != nil {
			t.Errorf("%+v: no error", tt.config)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not have %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "Transport") {
			t.Errorf("%q names a field of another type", err)
		}
	}
}

func TestDefaultAttempts(t *testing.T) {
	for _, tt := range []struct {
		config   Config
		attempts int
	}{
		{Config{}, 3},
		{Config{Mode: awsretry.Adaptive}, 3},
		{Config{Mode: awsretry.Legacy}, 4},
		{Config{Revision: awsretry.Revision2026}, 3},
		{Config{Revision: awsretry.Revision2026, MaxAttempts: 2}, 2},
		{Config{Revision: awsretry.Revision2026, Mode: awsretry.Legacy}, 4},
	} {
		r := mustRetryer(t, tt.config)
		if got := r.MaxAttempts(); got != tt.attempts {
			t.Errorf("%+v: %d, want %d", tt.config, got, tt.attempts)
		}
		for name := range r.Partitions() {
			t.Errorf("%+v: there is a partition %q", tt.config, name)
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte("[profile batch]\nretry_mode = adaptive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"AWS_MAX_ATTEMPTS": "7", "AWS_NEW_RETRIES_2026": "true", "AWS_CONFIG_FILE": file}
	c, err := Load(awsretry.Source{Profile: "batch", Getenv: func(name string) string { return env[name] }})
	if err != nil || c.Mode != awsretry.Adaptive || c.MaxAttempts != 7 || c.Revision != awsretry.Revision2026 {
		t.Errorf("%+v, %v", c, err)
	}
	env["AWS_MAX_ATTEMPTS"] = "0"
	if _, err := Load(awsretry.Source{Profile: "batch", Getenv: func(name string) string { return env[name] }}); err == nil ||
		!strings.Contains(err.Error(), "AWS_MAX_ATTEMPTS") {
		t.Errorf("%v", err)
	}
}
