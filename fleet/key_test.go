package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/storetest"
)

// A key without an epoch, and one with many fields of somebody else, do no
// harm, and the fields stay.
func TestForeignFields(t *testing.T) {
	server := storetest.Start(t)
	stores := map[string]fleet.Client{"memory": &fleettest.Store{}, "server": dial(t, server.Addr)}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			key := []string{"awsretry:{" + host + "}"}
			eval := func(script string, args ...string) []string {
				t.Helper()
				r, err := store.Eval(t.Context(), script, key, args)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			var faults faultLog
			shared := fleet.New(store, fleet.Config{Lease: time.Second, OnError: faults.add})
			defer shared.Close()
			eval("redis.call('HSET', KEYS[1], 'format', '1') return {}")
			for i := range 5000 / 100 {
				var fields []string
				for j := range 100 {
					fields = append(fields, fmt.Sprint("field", 100*i+j), fmt.Sprint(j))
				}
				eval("redis.call('HSET', KEYS[1], unpack(ARGV)) return {}", fields...)
			}
			tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
			send(t, tr)
			eventually(t, "a lease", func() bool {
				state, _ := tr.State(host)
				return state.Leased
			})
			for _, fault := range faults.all() {
				if !strings.Contains(fault, "deadline exceeded") { // on a busy machine
					t.Errorf("the error is %q", fault)
				}
			}
			got := eval("return redis.call('HMGET', KEYS[1], 'field4999', 'epoch')")
			if len(got) != 2 || got[0] != "99" || got[1] == "" {
				t.Errorf("a field and the epoch are %q", got)
			}
		})
	}
}

// Every field that the script writes is one that it reads.
func TestFieldsAreKnown(t *testing.T) {
	synctest.Test(t, testFieldsAreKnown)
}

func testFieldsAreKnown(t *testing.T) {
	var keys []string
	store := keysOf{&fleettest.Store{}, &keys}
	if err := fleet.RandomRenewals(t.Context(), store, 1, 20); err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(fleet.Script[strings.Index(fleet.Script, "local names = {"):], "}")
	for _, key := range keys {
		fields, err := store.Client.Eval(t.Context(), "return redis.call('HGETALL', KEYS[1])", []string{key}, nil)
		if err != nil || len(fields) < 2*20 {
			t.Fatalf("the key has %q (%v)", fields, err)
		}
		for field := range slices.Chunk(fields, 2) {
			if !strings.Contains(list, "'"+field[0]+"'") {
				t.Errorf("the script does not read the field %s that it writes", field[0])
			}
		}
	}
}

// A keysOf collects the keys of scripts.
type keysOf struct {
	fleet.Client
	keys *[]string
}

func (k keysOf) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	if !slices.Contains(*k.keys, keys[0]) {
		*k.keys = append(*k.keys, keys[0])
	}
	return k.Client.Eval(ctx, script, keys, args)
}
