package fleet_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

func TestValidate(t *testing.T) {
	client := new(fleettest.Store)
	for _, test := range []struct {
		client fleet.Client
		config fleet.Config
		want   string // of the error; "" for none
	}{
		{client, fleet.Config{Prefix: "a", Lease: 50 * time.Millisecond, MaxRate: 0.1}, ""},
		{client, fleet.Config{Prefix: "a", Lease: time.Minute, Expiry: 7 * 24 * time.Hour, MaxRate: 1e6}, ""},
		{nil, fleet.Config{Prefix: "a"}, "the client is nil"},
		{client, fleet.Config{}, `Config.Prefix is ""; it must be one or more characters other than { and }`},
		{client, fleet.Config{Prefix: "x{"}, `Config.Prefix is "x{"; it must be one or more`},
		{client, fleet.Config{Prefix: "}"}, "Config.Prefix is"},
		{client, fleet.Config{Prefix: "a", Lease: 49 * time.Millisecond}, "it must be from 50ms to 1m0s"},
		{client, fleet.Config{Prefix: "a", Lease: time.Minute + 1}, "Config.Lease is"},
		{client, fleet.Config{Prefix: "a", Expiry: time.Second}, "Config.Expiry is 1s; it must be above a second"},
		{client, fleet.Config{Prefix: "a", Lease: time.Minute, Expiry: time.Minute}, "Config.Expiry is 1m0s"},
		{client, fleet.Config{Prefix: "a", Expiry: 7*24*time.Hour + 1}, "and at most 168h0m0s"},
		{client, fleet.Config{Prefix: "a", MaxRate: 0.09}, "Config.MaxRate is 0.09; it must be from 0.1 to 1e+06"},
		{client, fleet.Config{Prefix: "a", MaxRate: 1.1e6}, "Config.MaxRate is 1.1e+06"},
		{client, fleet.Config{Prefix: "a", MaxRate: math.NaN()}, "Config.MaxRate is NaN"},
	} {
		shared, err := fleet.New(test.client, test.config)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("New returned %v, want %q", err, test.want)
		}
		if (shared == nil) != (err != nil) || (shared.Validate(awsretry.Adaptive) == nil) != (err == nil) {
			t.Errorf("New returned %v with the error %v; Validate returned %v", shared, err, shared.Validate(awsretry.Adaptive))
		}
	}
}

// A rate is kept in adaptive mode only.
func TestMaxRateNeedsAdaptiveMode(t *testing.T) {
	shared := newFleet(t, &fleettest.Store{}, fleet.Config{MaxRate: 10})
	for mode, want := range map[awsretry.Mode]bool{awsretry.Standard: false, awsretry.Adaptive: true} {
		err := (&awsretry.Transport{Mode: mode, Shared: shared}).Validate()
		text := fmt.Sprintf("Config.MaxRate is 10, but Transport.Mode is %v", mode)
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// A Fleet that is not from New is an error, and does nothing.
func TestZeroFleet(t *testing.T) {
	shared := new(fleet.Fleet)
	err := (&awsretry.Transport{Shared: shared}).Validate()
	if err == nil || !strings.Contains(err.Error(), "New must make it") {
		t.Errorf("Validate returned %v", err)
	}
	shared.Join(nil)
	if err := shared.Close(); err != nil || shared.FirstRate() != 0 {
		t.Errorf("Close returned %v, and FirstRate %g", err, shared.FirstRate())
	}
}
