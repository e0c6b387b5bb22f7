package fleet_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// A replica that is promoted does not know of the last renewals. Their retry
// tokens are spent twice, and no others.
func TestTokensAfterPromotion(t *testing.T) {
	const processes, cost, lease = 6, 5, 100 * time.Millisecond
	const capacity = 2_000_000    // more than the processes spend
	const mostInARenewal = 10 * 5 // for a retry, which costs 10 at most, and four that were refused
	for name, behind := range map[string]time.Duration{"up to date": 0, "a lease behind": lease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := storetest.Start(t, "--repl-diskless-sync-delay", "0")
			replica := storetest.Start(t, "--replicaof", "127.0.0.1", primary.Port())
			eventually(t, "replica", func() bool {
				return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
			})
			var current atomic.Pointer[storetest.Server]
			current.Store(primary)
			var up atomic.Bool
			up.Store(true)
			var attempts, calls, begun, ended atomic.Int64 // requests; renewals
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				attempts.Add(1)
				status := 503
				if up.Load() {
					status = 200
				}
				return respond(status, time.Millisecond).RoundTrip(req)
			})
			var transports []*awsretry.Transport
			for range processes {
				client := fleet.Dial(valkey.ClientOption{
					InitAddress: []string{"store.test:6379"}, ForceSingleClient: true,
					DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
						return dialer.DialContext(ctx, "tcp", current.Load().Addr)
					},
				})
				t.Cleanup(func() { client.Close() })
				shared := fleet.New(counted{client, &begun, &ended}, fleet.Config{Lease: lease})
				t.Cleanup(func() { shared.Close() })
				tr := &awsretry.Transport{
					Base: base, Shared: shared,
					Quota:   awsretry.QuotaConfig{Capacity: capacity, RetryCost: cost, SuccessIncrement: -1},
					Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
				}
				transports = append(transports, tr)
				send(t, tr)
			}
			leased := func() bool {
				for _, tr := range transports {
					if state, _ := tr.State("service.test"); !state.Leased {
						return false
					}
				}
				return true
			}
			eventually(t, "leases", leased)
			time.Sleep(lease)

			up.Store(false)
			attempts.Store(0)
			var stop atomic.Bool
			var callers sync.WaitGroup
			for _, tr := range transports {
				callers.Go(func() {
					for !stop.Load() {
						calls.Add(1)
						send(t, tr)
					}
				})
			}
			spent := func() int { return cost * int(attempts.Load()-calls.Load()) }
			eventually(t, "tokens are spent", func() bool { return spent() >= 100 })
			known := ended.Load() // renewals that the replica knows of
			primary.Do("SET", "marker", "here")
			eventually(t, "the replica is up to date", func() bool { return replica.Do("EXISTS", "marker") == "1" })
			if behind > 0 { // it hears no more
				replica.Do("REPLICAOF", "NO", "ONE")
				time.Sleep(behind)
			}
			primary.Stop()
			lost := int(begun.Load() - known)
			replica.Do("REPLICAOF", "NO", "ONE")
			current.Store(replica)
			time.Sleep(lease)
			eventually(t, "leases again", leased)
			stop.Store(true)
			callers.Wait()
			time.Sleep(2 * lease) // what was asked for has come

			left := 0
			for _, tr := range transports {
				state, _ := tr.State("service.test")
				left += state.Tokens
			}
			stored, _ := strconv.ParseFloat(replica.Do("HGET", "awsretry:{service.test}", "tokens"), 64)
			twice := spent() + left + int(stored) - capacity
			t.Logf("%d tokens were spent, %d of them twice, of %d renewals", spent(), twice, lost)
			if most := lost * mostInARenewal; twice > most || spent() > capacity/2 {
				t.Errorf("%d tokens were spent, %d of them twice; want at most %d", spent(), twice, most)
			}
		})
	}
}

// A counted client counts renewals.
type counted struct {
	fleet.Client
	begun, ended *atomic.Int64
}

func (c counted) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	c.begun.Add(1)
	defer c.ended.Add(1)
	return c.Client.Eval(ctx, script, keys, args)
}
