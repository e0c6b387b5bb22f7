package statuspage

import (
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
)

func valuesOf(t *awsretry.Transport) map[string]setting {
	all := make(map[string]setting)
	for _, s := range settingsOf(t) {
		all[s.Name] = s
	}
	return all
}

// A Transport without settings shows none, and each field that is set is shown by the
// name that the page for settings has.
func TestEachSettingIsShown(t *testing.T) {
	if all := settingsOf(&awsretry.Transport{Mode: awsretry.Adaptive}); len(all) != 0 {
		t.Errorf("%v", all)
	}
	page, err := os.ReadFile("../docs/SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	var check func(prefix string, of reflect.Type, path []int)
	check = func(prefix string, of reflect.Type, path []int) {
		for i := range of.NumField() {
			field, at := of.Field(i), append(slices.Clone(path), i)
			switch {
			case !field.IsExported() || field.Name == "Mode":
				continue
			case field.Type.Kind() == reflect.Struct:
				check(prefix+field.Name+".", field.Type, at)
				continue
			}
			tr := &awsretry.Transport{Mode: awsretry.Adaptive}
			setField(t, reflect.ValueOf(tr).Elem().FieldByIndex(at))
			got := settingsOf(tr)
			if len(got) != 1 || got[0].Name != prefix+field.Name || got[0].Value == "" {
				t.Errorf("%s%s is set, and the page shows %v", prefix, field.Name, got)
			}
			if !strings.Contains(string(page), "\n| `"+field.Name+"` |") {
				t.Errorf("SETTINGS lacks %s", field.Name)
			}
			fields++
		}
	}
	check("", reflect.TypeFor[awsretry.Transport](), nil)
	if fields < 44 {
		t.Errorf("only %d fields", fields)
	}
}

// setField sets a field to a value that is not its zero value.
func setField(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Interface:
		for _, value := range []any{&http.Transport{}, awsretry.Decorrelated{}, shared{}} {
			if reflect.TypeOf(value).Implements(v.Type()) {
				v.Set(reflect.ValueOf(value))
			}
		}
	}
	if v.IsZero() {
		t.Fatalf("no value for a %v", v.Type())
	}
}

type shared struct{ awsretry.Shared }

// A setting without an effect in the mode is not shown.
func TestSettingsOfOtherModes(t *testing.T) {
	quota, rate := awsretry.QuotaConfig{Capacity: 7}, awsretry.RateLimitConfig{Beta: 0.5}
	for mode, want := range map[awsretry.Mode][]setting{
		"":                {{"Quota.Capacity", "7"}},
		awsretry.Legacy:   {},
		awsretry.Adaptive: {{"Quota.Capacity", "7"}, {"RateLimit.Beta", "0.5"}},
	} {
		if got := settingsOf(&awsretry.Transport{Mode: mode, Quota: quota, RateLimit: rate}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", mode, got, want)
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
		"Base": "*http.Transport", "Revision": "2026", "MaxAttempts": "5", "AttemptTimeout": "1.5s",
		"Backoff":       "exponential Initial 2s, Jitter awsretry.NoJitter",
		"MaxRetryAfter": "off", "Quota.Capacity": "off", "Quota.RetryCost": "7",
		"Quota.Share": "0.2", "RateLimit.Pacing": "scaled", "RateLimit.Limits": "awsretry.ReadLimits", "RateLimit.MaxWait": "1s",
		"Resume": "true", "IdempotencyKey": "awsretry.RandomKey", "Observe": "statuspage.(*Page).Observe",
	} {
		if got[name].Value != want {
			t.Errorf("%s is %q, want %q", name, got[name].Value, want)
		}
	}
	if policy := got["Policy"].Value; !strings.HasSuffix(policy, ".IdempotentOnly") { // where it was inlined, if it was
		t.Errorf("Policy is %q", policy)
	}
	for want, backoff := range map[string]awsretry.Backoff{
		"decorrelated Max 1m0s":                      awsretry.Decorrelated{Max: time.Minute},
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
