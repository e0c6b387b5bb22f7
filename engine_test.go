package awsretry_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
)

func TestValidate(t *testing.T) {
	type transport = awsretry.Transport
	type quota = awsretry.QuotaConfig
	type rate = awsretry.RateLimitConfig
	type exponential = awsretry.Exponential
	tests := []struct {
		tr   *transport
		want []string // each is in the error; none: no error
	}{
		{&transport{}, nil},
		{&transport{Mode: awsretry.Legacy, MaxAttempts: 1, MaxRetryAfter: -1, MaxBodyBuffer: -1}, nil},
		{&transport{Quota: quota{Capacity: -1, RetryCost: -1, TimeoutCost: -1, ThrottlingCost: -1, SuccessIncrement: -1}}, nil},
		{&transport{Quota: quota{RefillPerSecond: 1, Wait: true, InitialCost: 500}}, nil},
		{&transport{Backoff: exponential{Factor: 1}}, nil},
		{&transport{Backoff: exponential{ThrottlingInitial: time.Minute}}, nil}, // Max caps it
		{&transport{Backoff: awsretry.Decorrelated{}}, nil},
		{&transport{Backoff: awsretry.BackoffFunc(noPause)}, nil},

		{&transport{Mode: "Standard"}, []string{"Mode", `"Standard"`, `"standard"`, `"adaptive"`, `"legacy"`}},
		{&transport{Revision: 2026}, []string{"Revision", "2026", "Revision2026"}},
		{&transport{MaxAttempts: -1}, []string{"MaxAttempts", "-1", "1 means"}},
		{&transport{AttemptTimeout: -time.Second}, []string{"AttemptTimeout", "-1s"}},
		{&transport{MaxPartitions: -1}, []string{"MaxPartitions", "-1", "1024"}},
		{&transport{Quota: quota{RefillPerSecond: -1}}, []string{"Quota.RefillPerSecond", "-1"}},
		{&transport{Quota: quota{RefillPerSecond: math.NaN()}}, []string{"Quota.RefillPerSecond", "NaN"}},
		{&transport{Quota: quota{RefillPerSecond: math.Inf(1)}}, []string{"Quota.RefillPerSecond", "Inf"}},
		{&transport{Quota: quota{InitialCost: -1}}, []string{"Quota.InitialCost", "-1"}},
		{&transport{Quota: quota{InitialCost: 501}}, []string{"Quota.InitialCost", "501", "500"}},
		{&transport{Quota: quota{Wait: true}}, []string{"Quota.Wait", "RefillPerSecond"}},
		{&transport{RateLimit: rate{Beta: 1.1}}, []string{"RateLimit.Beta", "1.1"}},
		{&transport{RateLimit: rate{Beta: -0.1}}, []string{"RateLimit.Beta", "-0.1"}},
		{&transport{RateLimit: rate{Beta: math.NaN()}}, []string{"RateLimit.Beta", "NaN"}},
		{&transport{RateLimit: rate{Smoothing: 2}}, []string{"RateLimit.Smoothing", "2"}},
		{&transport{RateLimit: rate{ScaleConstant: -1}}, []string{"RateLimit.ScaleConstant", "-1"}},
		{&transport{RateLimit: rate{MinFillRate: -1}}, []string{"RateLimit.MinFillRate", "-1"}},
		{&transport{RateLimit: rate{MinCapacity: 0.5}}, []string{"RateLimit.MinCapacity", "0.5"}},
		{&transport{RateLimit: rate{MeasureInterval: -1}}, []string{"RateLimit.MeasureInterval", "-1"}},
		{&transport{RateLimit: rate{MaxWait: -1}}, []string{"RateLimit.MaxWait", "-1"}},
		{&transport{Backoff: exponential{Initial: -1}}, []string{"Backoff.Initial", "-1ns", "Max"}},
		{&transport{Backoff: exponential{Initial: time.Minute}}, []string{"Backoff.Initial", "1m0s", "20s"}},
		{&transport{Backoff: exponential{ThrottlingInitial: -time.Minute}}, []string{"Backoff.ThrottlingInitial", "-1m0s"}},
		{&transport{Backoff: exponential{Max: -1}}, []string{"Backoff.Max", "-1ns"}},
		{&transport{Backoff: &exponential{Factor: 0.5}}, []string{"Backoff.Factor", "0.5", "from 1 up"}},
		{&transport{Backoff: exponential{Factor: math.NaN()}}, []string{"Backoff.Factor", "NaN"}},
		{&transport{Backoff: awsretry.Decorrelated{Initial: time.Minute}}, []string{"Backoff.Initial", "1m0s"}},
		{&transport{Backoff: awsretry.Decorrelated{Max: -1}}, []string{"Backoff.Max", "-1ns"}},
		{&transport{Backoff: awsretry.BackoffFunc(nil)}, []string{"Backoff", "nil"}},
		{&transport{Backoff: (*exponential)(nil)}, []string{"Backoff", "nil"}},
		{&transport{Base: (*http.Transport)(nil)}, []string{"Base", "nil", "*http.Transport"}},
		{&transport{Base: &transport{}}, []string{"Base", "another awsretry.Transport"}},
		{&transport{Base: &wrapper{Base: &transport{}}}, []string{"Base", "another awsretry.Transport"}},
		{&transport{MaxAttempts: -1, MaxPartitions: -2}, []string{"MaxAttempts", "-1", "MaxPartitions", "-2"}},
	}
	for _, tt := range tests {
		err := tt.tr.Validate()
		if (err != nil) != (tt.want != nil) {
			t.Errorf("%v: %v", tt.want, err)
			continue
		}
		if err == nil {
			continue
		}
		for _, part := range append(tt.want, "awsretry: ") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if _, got := get(t, tt.tr); got == nil || got.Error() != err.Error() {
			t.Errorf("RoundTrip returns %v, Validate %v", got, err)
		}
	}
}

// wrapper is middleware that shows what it wraps.
type wrapper struct{ Base http.RoundTripper }

func (w wrapper) RoundTrip(r *http.Request) (*http.Response, error) { return w.Base.RoundTrip(r) }

func TestValidateAsksTheFieldsAnew(t *testing.T) {
	tr := &awsretry.Transport{MaxAttempts: -1, Base: answering(200)}
	if tr.Validate() == nil {
		t.Fatal("no error")
	}
	tr.MaxAttempts = 1
	if err := tr.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, tr); err != nil {
		t.Fatal(err)
	}
}

func TestDefaultBaseIsShared(t *testing.T) {
	if _, err := (&awsretry.Transport{}).RoundTrip(&http.Request{Method: "GET"}); err == nil {
		t.Error("a request without URL and header was sent")
	} else if e := new(awsretry.Error); !errors.As(err, &e) || e.Attempts != 1 || e.Stop != awsretry.StopPermanent {
		t.Errorf("got %v", err)
	}
	(&awsretry.Transport{}).CloseIdleConnections()
}

func TestRevisionString(t *testing.T) {
	for r, want := range map[awsretry.Revision]string{
		awsretry.Classic: "classic", awsretry.Revision2026: "2026", 2: "unknown revision", -1: "unknown revision",
	} {
		if got := r.String(); got != want {
			t.Errorf("%d is %q, want %q", int(r), got, want)
		}
	}
}
