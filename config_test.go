package awsretry_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

type (
	transport   = awsretry.Transport
	quota       = awsretry.QuotaConfig
	rate        = awsretry.RateLimitConfig
	exponential = awsretry.Exponential
)

func TestValidate(t *testing.T) {
	for _, tr := range []*transport{
		{},
		{Mode: awsretry.Legacy, MaxAttempts: 1, MaxRetryAfter: -1, MaxBodyBuffer: -1},
		{Quota: quota{Capacity: -1, SuccessIncrement: -1, RetryCost: -1, TimeoutCost: -1, ThrottlingCost: -1}},
		{Backoff: exponential{Factor: 1, ThrottlingInitial: time.Minute}}, // above Max, which caps it
		{Backoff: exponential{Max: time.Second / 2}},
		{Backoff: awsretry.Decorrelated{Max: time.Second / 2}},
		{Backoff: awsretry.BackoffFunc(noPause)},
	} {
		if err := tr.Validate(); err != nil {
			t.Errorf("%+v: %v", tr, err)
		}
	}
	cost := func(*http.Request, string) float64 { return 1 }
	for _, tt := range []struct {
		tr   *transport
		want []string // each is in the error, which RoundTrip returns too
	}{
		{&transport{Mode: "Standard"}, []string{"Mode", `"Standard"`, `"standard"`, `"adaptive"`, `"legacy"`}},
		{&transport{Revision: 2026}, []string{"Revision", "2026", "Revision2026"}},
		{&transport{MaxAttempts: -1, MaxPartitions: -2},
			[]string{"MaxAttempts is -1", "1 means", "MaxPartitions is -2", "1024"}},
		{&transport{AttemptTimeout: -time.Second}, []string{"AttemptTimeout", "-1s"}},
		{&transport{StallTimeout: -time.Second}, []string{"StallTimeout", "-1s"}},
		{&transport{Quota: quota{InitialCost: 501}}, []string{"Quota.InitialCost", "501", "500"}},
		{&transport{RateLimit: rate{Beta: 1.1}}, []string{"RateLimit.Beta", "1.1"}},
		{&transport{RateLimit: rate{Limits: awsretry.ReadLimits}},
			[]string{"RateLimit.Limits is set", "nil", `Mode "adaptive"`, `Mode is "standard"`}},
		{&transport{Mode: awsretry.Legacy, RateLimit: rate{Pacing: awsretry.ScaledPacing}},
			[]string{"RateLimit.Pacing is scaled", "must be cubic", `Mode "adaptive"`, `Mode is "legacy"`}},
		{&transport{RateLimit: rate{Cost: cost, Reserve: .5}},
			[]string{"RateLimit.Cost is set", "nil", `Mode "adaptive"`, "RateLimit.Reserve is 0.5"}},
		{&transport{Mode: awsretry.Adaptive, RateLimit: rate{Cost: cost, Reserve: .5}},
			[]string{"RateLimit.Cost is set", "RateLimit.Reserve is 0.5", "except with Limits"}},
		{&transport{Mode: awsretry.Adaptive, RateLimit: rate{Reserve: 1}}, []string{"RateLimit.Reserve is 1", "[0, 1)"}},
		{&transport{Backoff: exponential{Initial: -1}}, []string{"Backoff.Initial", "-1ns", "Max"}},
		{&transport{Backoff: exponential{Initial: time.Minute}}, []string{"Backoff.Initial", "1m0s", "20s"}},
		{&transport{Backoff: exponential{ThrottlingInitial: -time.Minute}}, []string{"Backoff.ThrottlingInitial", "-1m0s"}},
		{&transport{Backoff: &exponential{Factor: 0.5}}, []string{"Backoff.Factor", "0.5", "from 1 up"}},
		{&transport{Backoff: exponential{Factor: math.NaN()}}, []string{"Backoff.Factor", "NaN"}},
		{&transport{Backoff: awsretry.Decorrelated{Max: -1}}, []string{"Backoff.Max", "-1ns"}},
		{&transport{Backoff: awsretry.BackoffFunc(nil)}, []string{"Backoff", "nil"}},
		{&transport{Base: (*http.Transport)(nil)}, []string{"Base", "nil", "*http.Transport"}},
		{&transport{Base: &transport{}}, []string{"Base", "another awsretry.Transport"}},
	} {
		t.Run(strings.Join(tt.want, " "), func(t *testing.T) {
			err := tt.tr.Validate()
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range append(tt.want, "awsretry: ") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
			if _, got := tt.tr.RoundTrip(newRequest(t, "GET", nil)); got == nil || got.Error() != err.Error() {
				t.Errorf("RoundTrip returns %v, Validate %v", got, err)
			}
		})
	}
}

// A fault can be fixed after it was found.
func TestValidateAgain(t *testing.T) {
	tr := &transport{MaxAttempts: -1, Base: httpfake.Statuses(200)}
	if _, err := tr.RoundTrip(newRequest(t, "GET", nil)); err == nil {
		t.Error("no error")
	}
	tr.MaxAttempts = 1
	if _, err := tr.RoundTrip(newRequest(t, "GET", nil)); err != nil {
		t.Error(err)
	}
}

// The default Base is one for all Transports. It pings silent HTTP/2
// connections.
func TestDefaultBase(t *testing.T) {
	base := awsretry.BaseOf(&transport{}).(*http.Transport)
	c := base.HTTP2
	if c == nil || c.SendPingTimeout != 15*time.Second || c.PingTimeout != 5*time.Second || !base.ForceAttemptHTTP2 {
		t.Errorf("%+v", base)
	}
	if awsretry.BaseOf(&transport{}) != http.RoundTripper(base) {
		t.Error("it is not shared")
	}
	_, err := (&transport{}).RoundTrip(&http.Request{Method: "GET"}) // without URL and header
	e := new(awsretry.Error)
	if !errors.As(err, &e) || e.Attempts != 1 || e.Stop != awsretry.StopPermanent {
		t.Error(err)
	}
	(&transport{}).CloseIdleConnections()
}

func TestStrings(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		awsretry.DefaultRevision: "default", awsretry.Classic: "classic", awsretry.Revision2026: "2026",
		awsretry.Revision(3): "unknown revision",
		awsretry.CubicPacing: "cubic", awsretry.ScaledPacing: "scaled", awsretry.Pacing(7): "Pacing(7)",
		awsretry.Success: "success", awsretry.Permanent: "permanent", awsretry.Transient: "transient",
		awsretry.Timeout: "timeout", awsretry.Throttled: "throttled", awsretry.Class(99): "unknown class",
	} {
		if got := value.String(); got != want {
			t.Errorf("%T(%d) is %q, want %q", value, value, got, want)
		}
	}
}
