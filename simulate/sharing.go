package simulate

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	sharing "example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/internal/retrier"
	"example.com/awsretry/simulate/scenario"
)

const prefix = "simulate" // of the keys

// sharingMaker makes clients in adaptive mode that share through one store in memory.
func sharingMaker(s scenario.Setting) maker {
	m := transports(s, awsretry.Adaptive, awsretry.Classic, 0)
	store := new(sharedStore)
	m.shared = store
	var fleets []*sharing.Fleet
	alone := m.make
	m.make = func(l link) http.RoundTripper {
		half := max(l.grid.delay(cmp.Or(time.Duration(s.StoreLatency), defaultStoreLatency)/2), l.grid.tick)
		lease := l.grid.delay(time.Duration(s.Lease) + l.grid.tick - 1) // 0 if it is 0
		client := &member{l, store, half}
		f, err := sharing.New(client, sharing.Config{Prefix: prefix, Lease: lease})
		if err != nil {
			panic(err) // package scenario has checked the lease
		}
		f.Schedule(retrier.Seal{}, client)
		fleets = append(fleets, f)
		transport := alone(l).(*awsretry.Transport)
		transport.Shared = f
		return transport
	}
	m.end = func() {
		store.ended.Store(true)
		for _, f := range fleets {
			f.Close()
		}
	}
	return m
}

// A sharedStore is the store of the clients of a run.
type sharedStore struct {
	fleettest.Store

	ended atomic.Bool // the run is over
}

// tokens returns how many retry tokens the store has. It is full before its
// first use.
func (s *sharedStore) tokens(capacity int) float64 {
	if tokens, ok := s.Tokens(prefix + ":{" + host + "}"); ok {
		return tokens
	}
	return float64(capacity)
}

// A member connects a client to the store, and decides when the client renews.
//
// A client renews its lease at its own instants, like a caller: those for the
// deadlines of the owner that starts its arriving calls, which has no deadlines.
// The lease and half the latency are whole ticks, so that the store also renews at
// such an instant, and the reply arrives at one. The bucket of send tokens may
// change at any of these instants; that happens first.
type member struct {
	link
	store *sharedStore
	half  time.Duration // of the store's latency
}

var errEnded = errors.New("simulate: the run is over")

// Eval implements fleet.Client.
func (m *member) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	if m.store.ended.Load() {
		return nil, errEnded
	}
	if err := m.sleep(ctx); err != nil {
		return nil, err
	}
	reply, err := m.store.Eval(ctx, script, keys, args)
	if err := m.sleep(ctx); err != nil {
		return nil, err
	}
	m.grid.settle()
	return reply, err
}

// sleep sleeps half the latency. It knows beforehand whether the context's
// deadline comes first.
func (m *member) sleep(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= m.half {
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(m.half)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// RenewIn returns a time from 5 % before the renewal
// is due to 5 % after. The result depends only on the time, because two signals at
// one instant may be merged.
func (m *member) RenewIn(d time.Duration) time.Duration {
	now := m.grid.now()
	part := unit(random(m.seed, forRenewal, uint64(now+d)))
	return m.grid.deadline(m.owner, now+d+time.Duration((part-0.5)/10*float64(d))) - now
}

// BeginRenewal waits until the others at this instant have acted.
func (m *member) BeginRenewal() {
	if !m.store.ended.Load() {
		m.grid.settle()
	}
}

// FirstToken depends only on the time, too.
func (m *member) FirstToken() float64 {
	return unit(random(m.seed, forFirstToken, uint64(m.grid.now())))
}
