package simulate

import (
	"net/http"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	sharing "example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// sharing makes clients in adaptive mode that share through one store in memory.
//
// A client renews its lease at instants of its own, like a caller: those for the
// deadlines of the owner that starts its arriving calls, which has no deadlines.
// The store's latency is a number of whole ticks, so that a renewal also ends at
// such an instant.
func (s Setting) sharing() maker {
	m := s.transports(awsretry.Adaptive, awsretry.Classic, 0)
	store := new(fleettest.Store)
	latency := orElse(time.Duration(s.StoreLatency), defaultStoreLatency)
	var fleets []*sharing.Fleet
	alone := m.make
	m.make = func(l link) http.RoundTripper {
		store.Latency = 2 * max(l.grid.delay(latency/2), l.grid.tick)
		f := sharing.New(store, sharing.Config{Jitter: l.renewals()})
		fleets = append(fleets, f)
		transport := alone(l).(*awsretry.Transport)
		transport.Shared = f
		return transport
	}
	m.end = func() {
		for _, f := range fleets {
			f.Close()
		}
	}
	return m
}

// renewals returns when the client makes its renewals: from 5 % before they are
// due to 5 % after that, at its next instant.
func (l link) renewals() awsretry.Jitter {
	var drawn atomic.Uint64
	return func(due time.Duration) time.Duration {
		due += time.Duration((unit(random(l.seed, forRenewal, drawn.Add(1))) - 0.5) / 10 * float64(due))
		now := l.grid.now()
		return l.grid.deadline(l.owner, now+due) - now
	}
}
