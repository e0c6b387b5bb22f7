package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// Partitions that are not used are renewed once in ten leases, also while the
// store fails.
func TestUnusedPartitions(t *testing.T) {
	const partitions, length = 200, 40 * time.Second
	for name, failing := range map[string]bool{"the store works": false, "the store fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var renewals atomic.Int64
				var fails atomic.Bool
				shared := fleet.New(clientFunc(func(_ context.Context, args []string) ([]string, error) {
					renewals.Add(1)
					if fails.Load() {
						return nil, context.DeadlineExceeded
					}
					return reply(map[int]string{replyTokens: args[argAsked]}), nil
				}), fleet.Config{})
				defer shared.Close()
				tr := &awsretry.Transport{Base: respond(200, 0), Mode: awsretry.Adaptive, Shared: shared}
				for i := range partitions {
					req, _ := http.NewRequestWithContext(t.Context(), "GET", fmt.Sprintf("http://host%d.test/", i), nil)
					if resp, err := tr.RoundTrip(req); err == nil {
						resp.Body.Close()
					}
				}
				time.Sleep(10 * time.Second)
				fails.Store(failing)
				time.Sleep(10 * time.Second)
				before := renewals.Load()
				time.Sleep(length)
				runtime.KeepAlive(tr)
				perSecond := float64(renewals.Load()-before) / length.Seconds()
				t.Logf("%d partitions that are not used: %.1f renewals a second", partitions, perSecond)
				if least, most := partitions/4.5, partitions/3.5; perSecond < least || perSecond > most {
					t.Errorf("%.1f renewals a second, want %.1f to %.1f", perSecond, least, most)
				}
			})
		})
	}
}

// An idle process renews at once when it is used again, and one that leads does
// not become idle while others send.
func TestIdleProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{Latency: time.Millisecond}
		service := newLimited()
		shared := fleet.New(store, fleet.Config{})
		defer shared.Close()
		idle := &process{
			shared:    shared,
			transport: &awsretry.Transport{Base: service, Mode: awsretry.Adaptive, Shared: shared},
		}
		rate := func(what string, least, most float64) {
			t.Helper()
			before := store.Evals()
			time.Sleep(20 * time.Second)
			if n := float64(store.Evals()-before) / 20; n < least || n > most {
				t.Errorf("%s: %.1f renewals a second, want %.1f to %.1f", what, n, least, most)
			}
		}
		idle.call(t.Context())
		time.Sleep(5 * time.Second)
		rate("idle", 0.2, 0.4)
		if idle.state().Leased { // it has just renewed it
			time.Sleep(time.Second)
		}
		if idle.state().Leased {
			t.Fatal("an idle process has a lease")
		}
		idle.call(t.Context())
		time.Sleep(10 * time.Millisecond)
		if !idle.state().Leased {
			t.Error("after an outcome the process has no lease")
		}
		rate("idle again", 0.2, 0.9)

		idle.call(t.Context()) // so that it leads
		time.Sleep(500 * time.Millisecond)
		busy := startProcess(store, service, awsretry.CubicPacing, 1)
		time.Sleep(5 * time.Second)
		rate("one leads, another one sends", 9, 12)
		busy.leave()
		time.Sleep(5 * time.Second)
		rate("idle at the end", 0.2, 0.4)
		runtime.KeepAlive(idle.transport)
	})
}

// A process that shares no rate has a lease while it is idle.
func TestIdleProcessWithoutARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fleettest.Store{Latency: time.Millisecond}
		shared := fleet.New(store, fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
		send(t, tr)
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			if state, _ := tr.State(host); !state.Leased {
				t.Fatal("an idle process has no lease")
			}
		}
		if n := store.Evals(); n > 25 {
			t.Errorf("an idle process renewed %d times in 30 s", n)
		}
	})
}
