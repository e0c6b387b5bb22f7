package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
)

// A key without an epoch, and one with many fields of somebody else, do no
// harm, and the fields stay. A key of another format is an error.
func TestForeignFields(t *testing.T) {
	store := dial(t, storetest.Start(t).Addr)
	eval := func(script string, args ...string) ([]string, error) {
		return store.Eval(t.Context(), script, []string{"key"}, args)
	}
	set := func(fields ...string) {
		t.Helper()
		if _, err := eval("redis.call('HSET', KEYS[1], unpack(ARGV)) return {}", fields...); err != nil {
			t.Fatal(err)
		}
	}
	set("format", "1")
	for i := range 50 {
		var fields []string
		for j := range 100 {
			fields = append(fields, fmt.Sprint("field", 100*i+j), fmt.Sprint(j))
		}
		set(fields...)
	}
	if got, err := eval(fleet.Script, renewal(nil)...); err != nil || got[0] == "" {
		t.Fatalf("a renewal returned %q and %v", got, err)
	}
	got, err := eval("return redis.call('HMGET', KEYS[1], 'field4999', 'epoch')")
	if err != nil || len(got) != 2 || got[0] != "99" || got[1] == "" {
		t.Errorf("a field and the epoch are %q (%v)", got, err)
	}
	set("format", "3")
	if _, err := eval(fleet.Script, renewal(nil)...); err == nil || !strings.Contains(err.Error(), "has the format 3, not 1") {
		t.Errorf("a renewal of a key of another format returned %v", err)
	}
}
