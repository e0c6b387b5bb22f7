package fleet

import (
	"testing"

	"example.com/awsretry/fleet/fleettest"
)

func BenchmarkMemory(b *testing.B) {
	r := request{id: "a process of the fleet", lease: defaultLease, capacity: 500, rate: -1, wanted: 10, expiry: defaultExpiry}
	f := New(&fleettest.Store{}, Config{})
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		got, err := f.renew(b.Context(), "awsretry:{host}", &r)
		if err != nil {
			b.Fatal(err)
		}
		r.last, r.lastWindow, r.cutSeen = got.now, got.window, got.cut
	}
}
