package fleet_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/protocol"
)

func TestValidate(t *testing.T) {
	client := clientFunc(func(context.Context, string, protocol.Request) ([]string, error) { return reply(nil), nil })
	for name, test := range map[string]struct {
		client fleet.Client
		config fleet.Config
		want   string // of the error; "" for none
	}{
		"zero":           {client, fleet.Config{}, `Config.Prefix is ""; it must not be empty`},
		"least":          {client, fleet.Config{Prefix: "a"}, ""},
		"longest":        {client, fleet.Config{Prefix: "a:b", Lease: time.Minute, Expiry: 7 * 24 * time.Hour}, ""},
		"no client":      {nil, fleet.Config{Prefix: "a"}, "the client is nil"},
		"short lease":    {client, fleet.Config{Prefix: "a", Lease: 49 * time.Millisecond}, "it must be from 50ms to 1m0s"},
		"long lease":     {client, fleet.Config{Prefix: "a", Lease: time.Minute + 1}, "Config.Lease is"},
		"short expiry":   {client, fleet.Config{Prefix: "a", Expiry: time.Second}, "Config.Expiry is 1s; it must be above a second"},
		"below lease":    {client, fleet.Config{Prefix: "a", Lease: time.Minute, Expiry: time.Minute}, "Config.Expiry is 1m0s"},
		"long expiry":    {client, fleet.Config{Prefix: "a", Expiry: 8 * 24 * time.Hour}, "and at most 168h0m0s"},
		"endless expiry": {client, fleet.Config{Prefix: "a", Expiry: 1<<63 - 1}, "Config.Expiry is"},
		"max rate":       {client, fleet.Config{Prefix: "a", MaxRate: 1e6}, ""},
		"low rate":       {client, fleet.Config{Prefix: "a", MaxRate: 0.01}, "Config.MaxRate is 0.01; it must be from 0.1 to 1e+06"},
		"high rate":      {client, fleet.Config{Prefix: "a", MaxRate: math.Inf(1)}, "Config.MaxRate is +Inf"},
		"no rate":        {client, fleet.Config{Prefix: "a", MaxRate: math.NaN()}, "Config.MaxRate is NaN"},
		"hash tag":       {client, fleet.Config{Prefix: "x{y}"}, `Config.Prefix is "x{y}"; it must not be empty or contain { or }`},
		"end of a tag":   {client, fleet.Config{Prefix: "}"}, "Config.Prefix is"},
	} {
		t.Run(name, func(t *testing.T) {
			shared, err := fleet.New(test.client, test.config)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("New returned %v, want %q", err, test.want)
			}
			if (shared == nil) != (err != nil) || (shared.Validate(awsretry.Adaptive) == nil) != (err == nil) {
				t.Errorf("New returned %v with the error %v; Validate returned %v", shared, err, shared.Validate(awsretry.Adaptive))
			}
		})
	}
}

// A rate is kept in adaptive mode only.
func TestMaxRateNeedsAdaptiveMode(t *testing.T) {
	shared := newFleet(t, &fleettest.Store{}, fleet.Config{Prefix: "a", MaxRate: 10})
	for mode, want := range map[awsretry.Mode]bool{awsretry.Standard: false, awsretry.Legacy: false, awsretry.Adaptive: true} {
		err := (&awsretry.Transport{Mode: mode, Shared: shared}).Validate()
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("Config.MaxRate is 10, but Transport.Mode is %v", mode)) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
