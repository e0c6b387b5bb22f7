package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// RandomRenewals makes n renewals by several processes in several partitions,
// with random usage and random times in between.
func RandomRenewals(ctx context.Context, client Client, seed uint64, n int) error {
	random := rand.New(rand.NewPCG(seed, 0))
	f := New(client, Config{})
	defer f.Close()
	last := make(map[string]reply)
	for range n {
		time.Sleep(pick(random, 0, time.Duration(random.IntN(int(time.Second))), 30*time.Second))
		id := fmt.Sprintf("process%d", random.IntN(8))
		key := fmt.Sprintf("awsretry:{host%d}", random.IntN(2))
		had := last[key+id]
		r := request{
			id: id, lease: defaultLease, capacity: 500, seedRate: pick(random, 0, 50, 1e9), seedTokens: random.IntN(600),
			sums: sums{
				accepted: float64(random.IntN(100)), throttled: float64(random.IntN(10)),
				acceptedBefore: pick(random, 0, 0, 3.0), throttledBefore: pick(random, 0, 0, 5.0),
				trips: 1000 * random.Float64(), tripsOf: float64(random.IntN(100)),
			},
			rate: pick(random, -1, -1, 200*random.Float64()), cut: random.IntN(4) == 0,
			wanted: pick(random, 0, random.Float64(), 100*random.Float64()), last: had,
			returned: random.IntN(20), asked: random.IntN(40), held: random.IntN(30),
			leaving: random.IntN(20) == 0, gate: pick(random, 0, 0, time.Duration(random.IntN(int(time.Minute)))),
			expiry: time.Hour, cutSeen: pick(random, had.cut, had.cut, 0),
		}
		got, err := f.renew(ctx, key, &r)
		if err != nil {
			return err
		}
		last[key+id] = got
	}
	return nil
}

// pick returns one of three values, the last one seldom.
func pick[T any](random *rand.Rand, often, sometimes, seldom T) T {
	switch n := random.IntN(20); {
	case n < 10:
		return often
	case n < 19:
		return sometimes
	}
	return seldom
}

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
