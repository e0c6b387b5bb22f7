package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/httpfake"
)

// A Retry-After holds back the other processes too, and does not last longer
// because processes with a slow store report it to each other.
func TestRetryAfterIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{Latency: 300 * time.Millisecond}
		var transports [3]*awsretry.Transport
		var throttled atomic.Bool
		for i := range transports {
			shared := newFleet(t, store, fleet.Config{Lease: time.Second})
			defer shared.Close()
			transports[i] = &awsretry.Transport{
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					if !throttled.CompareAndSwap(true, false) {
						return httpfake.Empty(200, req), nil
					}
					return httpfake.Response(req, 429, http.NoBody, "Retry-After", "3"), nil
				}),
				Shared: shared, ShareRetryAfter: true, RetryAfterSpread: -1, MaxAttempts: 1,
			}
			send(t, transports[i])
		}
		time.Sleep(time.Second)
		throttled.Store(true)
		send(t, transports[0])
		time.Sleep(time.Second) // all processes know of it
		end := time.Now().Add(2 * time.Second)
		for i, tr := range transports {
			send(t, tr)
			if late := time.Since(end); late < -100*time.Millisecond || late > 600*time.Millisecond {
				t.Errorf("process %d sends %v after the Retry-After", i, late)
			}
		}
	})
}

// sendToHosts makes a request in each of n new partitions, with pauses.
func sendToHosts(t *testing.T, tr *awsretry.Transport, n int, pause time.Duration) {
	for i := range n {
		send(t, tr, "host"+strconv.Itoa(i)+".test")
		time.Sleep(pause)
	}
}

// The members of partitions that a Transport drops end at once, also during a
// renewal and however long the lease is, and return their retry tokens.
func TestPartitionsAreDropped(t *testing.T) {
	for _, lease := range []time.Duration{400 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var left atomic.Int64
			var renewed sync.Map // keys
			shared := newFleet(t, clientFunc(func(_ context.Context, key string, r protocol.Request) ([]string, error) {
				time.Sleep(50 * time.Millisecond)
				if r.Leaving {
					left.Add(1)
				}
				renewed.Store(key, true)
				return reply(nil), nil
			}), fleet.Config{Lease: lease})
			tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared, MaxPartitions: 3}
			sendToHosts(t, tr, 20, 100*time.Millisecond)
			if n := left.Load(); n != 17 {
				t.Errorf("%d members have left, want 17", n)
			}
			renewed.Clear()
			time.Sleep(10 * lease)
			runtime.KeepAlive(tr)
			running := 0
			renewed.Range(func(any, any) bool { running++; return true })
			shared.Close()
			if running != 3 || left.Load() != 20 {
				t.Errorf("%d partitions are renewed, want 3; %d were left at the end", running, left.Load())
			}
		})
	}
}

// Made-up names of partitions load the store with 100 new keys a second, after
// the first 100.
func TestManyNewPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys sync.Map
		var n atomic.Int64
		shared := newFleet(t, clientFunc(func(_ context.Context, key string, _ protocol.Request) ([]string, error) {
			if _, known := keys.LoadOrStore(key, true); !known {
				n.Add(1)
			}
			return reply(nil), nil
		}), fleet.Config{})
		defer shared.Close()
		sendToHosts(t, &awsretry.Transport{Base: respond(200, 0), Shared: shared}, 1000, time.Millisecond)
		if n := n.Load(); n < 150 || n > 201 {
			t.Errorf("%d keys in a second, want 150 to 200", n)
		}
	})
}

// The members of a Transport end when it is garbage.
func TestTransportIsDropped(t *testing.T) {
	var joined, left atomic.Bool
	shared := newFleet(t, clientFunc(func(_ context.Context, _ string, r protocol.Request) ([]string, error) {
		joined.Store(true)
		if r.Leaving {
			left.Store(true)
		}
		return reply(nil), nil
	}), fleet.Config{Lease: 50 * time.Millisecond})
	defer shared.Close()
	tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
	send(t, tr)
	eventually(t, "the member joins", joined.Load)
	runtime.KeepAlive(tr)
	eventually(t, "the member leaves", func() bool {
		runtime.GC()
		return left.Load()
	})
}

// Partitions that are not used are renewed once in ten leases, also while the
// store fails.
func TestUnusedPartitions(t *testing.T) {
	const partitions, length = 50, 40 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int64
		var fails atomic.Bool
		shared := newFleet(t, clientFunc(func(_ context.Context, _ string, r protocol.Request) ([]string, error) {
			renewals.Add(1)
			if fails.Load() {
				return nil, errBoom
			}
			return reply(func(got *protocol.Reply) { got.Tokens = float64(r.Asked) }), nil
		}), fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Mode: awsretry.Adaptive, Shared: shared}
		sendToHosts(t, tr, partitions, 0)
		for _, failing := range []bool{false, true} {
			fails.Store(failing)
			time.Sleep(10 * time.Second)
			before := renewals.Load()
			time.Sleep(length)
			perSecond := float64(renewals.Load()-before) / length.Seconds()
			if least, most := partitions/4.5, partitions/3.5; perSecond < least || perSecond > most {
				t.Errorf("failing: %v: %.1f renewals a second, want %.1f to %.1f", failing, perSecond, least, most)
			}
		}
		runtime.KeepAlive(tr)
	})
}

// An idle process renews at once when it is used again, and one that leads does
// not become idle while others send.
func TestIdleProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, service := &fleettest.Store{Latency: time.Millisecond}, &service{rate: 100, burst: 20}
		shared := newFleet(t, store, fleet.Config{})
		defer shared.Close()
		idle := &awsretry.Transport{Base: service, Mode: awsretry.Adaptive, Shared: shared}
		rate := func(what string, least, most float64) {
			t.Helper()
			before := store.Evals()
			time.Sleep(20 * time.Second)
			if n := float64(store.Evals()-before) / 20; n < least || n > most {
				t.Errorf("%s: %.1f renewals a second, want %.1f to %.1f", what, n, least, most)
			}
		}
		send(t, idle)
		time.Sleep(5 * time.Second)
		rate("idle", 0.2, 0.4)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if s := stateOf(idle).Fleet; s.Leased == s.Idle {
				t.Fatalf("an idle process is %+v", s)
			}
		}
		store.Refuse(errors.New("gone"))
		time.Sleep(5 * time.Second)
		if s := stateOf(idle).Fleet; s.Leased || s.Idle {
			t.Errorf("without the store an idle process is %+v", s)
		}
		store.Refuse(nil)
		time.Sleep(10 * time.Second)
		for waited := time.Duration(0); stateOf(idle).Fleet.Leased; waited += 100 * time.Millisecond {
			if waited > time.Second {
				t.Fatal("an idle process keeps its lease")
			}
			time.Sleep(100 * time.Millisecond)
		}
		send(t, idle)
		time.Sleep(delay)
		if !stateOf(idle).Fleet.Leased {
			t.Error("after an outcome the process has no lease")
		}
		rate("idle again", 0.2, 0.9)

		send(t, idle) // so that it leads
		time.Sleep(500 * time.Millisecond)
		busy := startProcess(t, store, service, awsretry.CubicPacing, 0, 1)
		time.Sleep(5 * time.Second)
		rate("one leads, another one sends", 9, 12)
		busy.leave()
		time.Sleep(5 * time.Second)
		rate("idle at the end", 0.2, 0.4)
		runtime.KeepAlive(idle)
	})
}

// A process that shares no rate has a lease while it is idle.
func TestIdleProcessWithoutARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{Latency: time.Millisecond}
		shared := newFleet(t, store, fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
		send(t, tr)
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			if !stateOf(tr).Fleet.Leased {
				t.Fatal("an idle process has no lease")
			}
		}
		if n := store.Evals(); n > 25 {
			t.Errorf("an idle process renewed %d times in 30 s", n)
		}
	})
}
