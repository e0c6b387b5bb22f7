package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"example.com/awsretry"
)

// The transcripts of the commands config and get show which setting is in force.
func TestFields(t *testing.T) {
	delay := func(t *awsretry.Transport, retry int) time.Duration {
		return t.Backoff.Delay(retry, awsretry.Transient, 0)
	}
	for _, c := range []struct {
		args  string
		check func(*awsretry.Transport) bool
	}{
		{"", func(t *awsretry.Transport) bool {
			return t.Backoff == nil && t.Policy == nil && t.MaxRetryAfter == 0 &&
				t.Quota.Capacity == 0 && t.RateLimit.Pacing == awsretry.CubicPacing
		}},
		{"--attempt-timeout 1.5 --max-retry-after 2m --idempotent-only --sdk-headers",
			func(t *awsretry.Transport) bool {
				return t.AttemptTimeout == 1500*time.Millisecond && t.MaxRetryAfter == 2*time.Minute &&
					t.Policy != nil && t.SDKHeaders
			}},
		{"--max-retry-after Ignore", func(t *awsretry.Transport) bool { return t.MaxRetryAfter < 0 }},
		{"--mode adaptive --pacing scaled", func(t *awsretry.Transport) bool {
			return t.RateLimit.Pacing == awsretry.ScaledPacing
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
			var f Flags
			set := pflag.NewFlagSet("", pflag.ContinueOnError)
			f.Register(set)
			if err := set.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			home := map[string]string{"HOME": t.TempDir()}
			got, _, err := f.Transport(func(name string) string { return home[name] })
			if err != nil || !c.check(got) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
