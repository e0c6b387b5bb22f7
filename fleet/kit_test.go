package fleet

import "context"

// Renewal returns a function that renews the lease of one process in one
// partition. The process sends a little.
func Renewal(f *Fleet, partition, process string) func(context.Context) error {
	key := f.config.Prefix + ":{" + partition + "}"
	r := request{
		id: process, lease: f.config.Lease, capacity: 500, seedTokens: 500, sums: sums{accepted: 2, trips: 20, tripsOf: 2},
		rate: -1, wanted: 3, held: 10, expiry: f.config.Expiry,
		settings: "Lease 400ms and 500 retry tokens", pacing: "scaled",
	}
	return func(ctx context.Context) error {
		got, err := f.renew(ctx, key, &r)
		r.last, r.cutSeen = got, got.cut
		if r.rate = -1; got.leader {
			r.rate = 100
		}
		return err
	}
}
