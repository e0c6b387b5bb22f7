package statuspage

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/respbody"
)

func valuesOf(t *awsretry.Transport) map[string]setting {
	all := make(map[string]setting)
	for _, s := range settingsOf(t) {
		all[s.Name] = s
	}
	return all
}

// Every field of a Transport has a value that says something, and is documented.
func TestSettingsAreComplete(t *testing.T) {
	page, err := os.ReadFile("../docs/SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	all := settingsOf(&awsretry.Transport{Mode: awsretry.Adaptive})
	if len(all) < 45 {
		t.Errorf("only %d settings", len(all))
	}
	for _, s := range all {
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		if !strings.Contains(string(page), "\n| `"+name+"` |") || s.Value == "" || strings.Contains(s.Value, "nil") || s.Default != (name != "Mode") {
			t.Errorf("%+v", s)
		}
	}
	known := valuesOf(&awsretry.Transport{Mode: awsretry.Adaptive})
	for name := range defaultsOf(&awsretry.Transport{}) {
		if _, ok := known[name]; !ok {
			t.Errorf("there is no setting %s", name)
		}
	}
}

func TestSettingValues(t *testing.T) {
	own := &awsretry.Transport{
		Base: http.DefaultTransport, Mode: awsretry.Adaptive, Revision: awsretry.Revision2026, MaxAttempts: 5,
		AttemptTimeout: 1500 * time.Millisecond, Policy: awsretry.IdempotentOnly(nil),
		Backoff: awsretry.Exponential{Initial: 2 * time.Second, Jitter: awsretry.NoJitter}, MaxRetryAfter: -1,
		Quota:     awsretry.QuotaConfig{Capacity: -1, RetryCost: 7, Share: 0.2},
		RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing, Limits: awsretry.ReadLimits, MaxWait: time.Second},
		Resume:    true, IdempotencyKey: awsretry.RandomKey, Observe: New().Observe,
	}
	got := valuesOf(own)
	for name, want := range map[string]string{
		"Base": "*http.Transport", "Mode": "adaptive", "Revision": "2026", "MaxAttempts": "5", "AttemptTimeout": "1.5s",
		"Backoff":       "exponential Initial 2s, Jitter awsretry.NoJitter",
		"MaxRetryAfter": "off", "Quota.Capacity": "off", "Quota.RetryCost": "7", "Quota.ThrottlingCost": "5",
		"Quota.Share": "0.2", "RateLimit.Pacing": "scaled", "RateLimit.Limits": "awsretry.ReadLimits", "RateLimit.MaxWait": "1s",
		"RateLimit.Beta": "0.9", "Resume": "true", "IdempotencyKey": "awsretry.RandomKey", "Observe": "statuspage.(*Page).Observe",
	} {
		if got[name].Value != want {
			t.Errorf("%s is %q, want %q", name, got[name].Value, want)
		}
	}
	if policy := got["Policy"].Value; !strings.HasSuffix(policy, ".IdempotentOnly") { // where it was inlined, if it was
		t.Errorf("Policy is %q", policy)
	}
	for want, backoff := range map[string]awsretry.Backoff{
		"decorrelated from 1s to 1m0s":               awsretry.Decorrelated{Max: time.Minute},
		"*statuspage.myBackoff":                      &myBackoff{},
		"exponential ThrottlingInitial 1s, Factor 3": awsretry.Exponential{ThrottlingInitial: time.Second, Factor: 3},
	} {
		if got := valuesOf(&awsretry.Transport{Backoff: backoff})["Backoff"].Value; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f := awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return 0 })
	if got := valuesOf(&awsretry.Transport{Backoff: f})["Backoff"].Value; got != "statuspage.TestSettingValues" {
		t.Errorf("a BackoffFunc is %q", got)
	}
}

type myBackoff struct{ awsretry.Backoff }

// The defaults are those of a Transport.
func TestDefaults(t *testing.T) {
	timeout := fmt.Errorf("slow: %w", new(respbody.TimeoutError))
	for name, tr := range map[string]*awsretry.Transport{
		"classic": {}, "2026": {Revision: awsretry.Revision2026}, "legacy": {Mode: awsretry.Legacy},
	} {
		t.Run(name, func(t *testing.T) {
			settings := valuesOf(tr)
			for cost, outcome := range map[string]func(*http.Request) (*http.Response, error){
				"Quota.RetryCost":      httpfake.Statuses(503),
				"Quota.ThrottlingCost": httpfake.Statuses(429),
				"Quota.TimeoutCost":    func(*http.Request) (*http.Response, error) { return nil, timeout },
			} {
				synctest.Test(t, func(t *testing.T) {
					used := &awsretry.Transport{Revision: tr.Revision, Mode: tr.Mode, Base: httpfake.Base(outcome)}
					attempts := 0
					used.Observe = func(a awsretry.Attempt) { attempts, _ = a.MaxAttempts, a }
					if resp, err := used.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)); err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if n, _, _ := strings.Cut(settings["MaxAttempts"].Value, ";"); n != fmt.Sprint(attempts) {
						t.Errorf("MaxAttempts is %s, and there were %d", n, attempts)
					}
					state, _ := used.State("service.example")
					if tr.Mode == awsretry.Legacy {
						return // which has no bucket
					}
					if got := settings["Quota.Capacity"].Value; got != fmt.Sprint(state.Capacity) {
						t.Errorf("the capacity is %d, not %s", state.Capacity, got)
					}
					if each := (state.Capacity - state.Tokens) / (attempts - 1); settings[cost].Value != fmt.Sprint(each) {
						t.Errorf("%s is %s, and a retry took %d", cost, settings[cost].Value, each)
					}
				})
			}
		})
	}
}
