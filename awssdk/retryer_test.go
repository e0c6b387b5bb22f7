package awssdk

import (
	"io"
	"slices"
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
		{Config{MaxAttempts: -1, Revision: -2}, []string{"awssdk: Config.MaxAttempts is -1", "awssdk: Config.Revision is -2"}},
		{Config{Quota: awsretry.QuotaConfig{Wait: true}}, []string{"awssdk: Config.", "RefillPerSecond"}},
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
		{Config{Mode: awsretry.Legacy}, 4},
		{Config{Revision: awsretry.Revision2026}, 3},
		{Config{Revision: awsretry.Revision2026, MaxAttempts: 2}, 2},
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

// The zero Revision is that of the SDK: its delays, and the tokens of its retries.
func TestZeroRevision(t *testing.T) {
	each(t, func(t *testing.T, apply bool) {
		r, err := NewRetryer(Config{
			Mode: awsretry.Adaptive, MaxAttempts: 4, Backoff: awsretry.Exponential{Jitter: awsretry.NoJitter},
		})
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(apply)
		busy := step{status: 500}
		asks := step{status: 500, header: map[string]string{"X-Amz-Retry-After": "60000"}}
		if err := c.call(t.Context(), r, step{err: sending(io.EOF)}, busy, asks, step{status: 200}); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 5200 * time.Millisecond}
		if got := c.delays(); !slices.Equal(got, want) {
			t.Errorf("the delays are %v, want %v", got, want)
		}
		if got := tokens(t, r, "S3 us-east-1"); got != 500-2*14 {
			t.Errorf("%d tokens, want %d", got, 500-2*14)
		}
		// The limiter learns of the retries too.
		c.call(t.Context(), r, busy, step{status: 429}, step{status: 404})
		if state, _ := r.State("S3 us-east-1"); !state.Limited {
			t.Errorf("a throttled retry is not seen: %+v", state)
		}
	})
}
