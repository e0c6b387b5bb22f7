package fleet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/protocol"
)

func TestValidate(t *testing.T) {
	client := clientFunc(func(context.Context, string, protocol.Request) ([]string, error) { return reply(nil), nil })
	for name, test := range map[string]struct {
		client fleet.Client
		config fleet.Config
		want   string // of the error; "" for none
	}{
		"zero":           {client, fleet.Config{}, ""},
		"longest":        {client, fleet.Config{Prefix: "a:b", Lease: time.Minute, Expiry: 7 * 24 * time.Hour}, ""},
		"no client":      {nil, fleet.Config{}, "the client is nil"},
		"short lease":    {client, fleet.Config{Lease: 49 * time.Millisecond}, "it must be from 50ms to 1m0s"},
		"long lease":     {client, fleet.Config{Lease: time.Minute + 1}, "Config.Lease is"},
		"short expiry":   {client, fleet.Config{Expiry: time.Second}, "Config.Expiry is 1s; it must be above a second"},
		"below lease":    {client, fleet.Config{Lease: time.Minute, Expiry: time.Minute}, "Config.Expiry is 1m0s"},
		"long expiry":    {client, fleet.Config{Expiry: 8 * 24 * time.Hour}, "and at most 168h0m0s"},
		"endless expiry": {client, fleet.Config{Expiry: 1<<63 - 1}, "Config.Expiry is"},
		"hash tag":       {client, fleet.Config{Prefix: "x{y}"}, `Config.Prefix is "x{y}"; it must not contain { or }`},
		"end of a tag":   {client, fleet.Config{Prefix: "}"}, "Config.Prefix is"},
	} {
		t.Run(name, func(t *testing.T) {
			shared, err := fleet.New(test.client, test.config)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("New returned %v, want %q", err, test.want)
			}
			if (shared == nil) != (err != nil) || (shared.Validate() == nil) != (err == nil) {
				t.Errorf("New returned %v with the error %v; Validate returned %v", shared, err, shared.Validate())
			}
		})
	}
}
