package fleet_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// rights are what the script needs. The connection itself needs HELLO, which
// every user may call.
var rights = []string{"+eval", "+evalsha", "+time", "+hget", "+hgetall", "+hset", "+pexpire"}

// A user needs these rights, and no others.
func TestLeastRights(t *testing.T) {
	for _, without := range append([]string{""}, rights...) {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			store := storetest.Start(t)
			command := []string{"ACL", "SETUSER", "fleet", "on", ">secret", "~awsretry:*"}
			for _, right := range rights {
				if right != without {
					command = append(command, right)
				}
			}
			store.Do(command...)
			c := fleet.Dial(valkey.ClientOption{
				InitAddress: []string{store.Addr}, ForceSingleClient: true, Username: "fleet", Password: "secret",
			})
			defer c.Close()
			var faults faultLog
			shared := fleet.New(c, fleet.Config{Lease: 100 * time.Millisecond, OnError: faults.add})
			defer shared.Close()
			tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
			send(t, tr)
			leased := func() bool {
				state, _ := tr.State("service.test")
				return state.Leased
			}
			for range 100 {
				if leased() || len(faults.all()) > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond) // a second renewal
			got := strings.Join(faults.all(), "\n")
			if allowed := without == ""; leased() != allowed || (got == "") != allowed {
				t.Errorf("leased is %v; the errors are %q", leased(), got)
			}
		})
	}
}

// Dial returns a Client although there is no store yet.
func TestDialBeforeTheStore(t *testing.T) {
	store := storetest.Start(t)
	store.Stop()
	var faults faultLog
	shared := fleet.New(dial(t, store.Addr), fleet.Config{Lease: 100 * time.Millisecond, OnError: faults.add})
	defer shared.Close()
	tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
	send(t, tr)
	for range 100 {
		if len(faults.all()) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := faults.all(); len(got) != 1 {
		t.Fatalf("the errors are %q", got)
	}
	store.Restart()
	for range 100 {
		if state, _ := tr.State("service.test"); state.Leased {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("no lease; the errors are %q", faults.all())
}

// The first processes' settings stay while they are there. Others get an error
// and work alone; they share when the first ones have gone.
func TestOtherSettings(t *testing.T) {
	adaptive := func(p awsretry.Pacing) awsretry.Transport {
		return awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: p}}
	}
	store := storetest.Start(t)
	for name, test := range map[string]struct {
		first, second *awsretry.Transport
		lease         time.Duration // of the second
		want          string
	}{
		"lease": {
			&awsretry.Transport{}, &awsretry.Transport{}, 100 * time.Millisecond,
			"have Lease 50ms and 500 retry tokens; this one has Lease 100ms",
		},
		"capacity": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 7}}, 0,
			"this one has Lease 50ms and 7 retry tokens",
		},
		"no quota": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: -1}, ShareRetryAfter: true}, 0,
			"this one has Lease 50ms and no retry tokens",
		},
		"pacing": {
			ptr(adaptive(awsretry.CubicPacing)), ptr(adaptive(awsretry.ScaledPacing)), 0,
			"have the pacing cubic; this one has scaled",
		},
		"mode": {&awsretry.Transport{}, ptr(adaptive(awsretry.ScaledPacing)), 0, ""}, // they share the retry tokens
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := func(tr *awsretry.Transport, lease time.Duration) (*fleet.Fleet, *faultLog) {
				var faults faultLog
				tr.Base = respond(200, 0)
				shared := fleet.New(dial(t, store.Addr), fleet.Config{Prefix: name, Lease: lease, OnError: faults.add})
				t.Cleanup(func() { shared.Close() })
				tr.Shared = shared
				send(t, tr)
				time.Sleep(200 * time.Millisecond)
				return shared, &faults
			}
			first, _ := start(test.first, 50*time.Millisecond)
			lease := test.lease
			if lease == 0 {
				lease = 50 * time.Millisecond
			}
			_, faults := start(test.second, lease)
			leased := func(tr *awsretry.Transport) bool {
				state, _ := tr.State("service.test")
				return state.Leased
			}
			got := strings.Join(faults.all(), "\n")
			if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("the errors are %q; want %q", got, test.want)
			}
			if !leased(test.first) || leased(test.second) != (test.want == "") {
				t.Errorf("the first has a lease: %v, the second: %v", leased(test.first), leased(test.second))
			}
			first.Close()
			for range 300 {
				if leased(test.second) {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Error("the second has no lease although the first has ended")
		})
	}
}

func ptr[T any](x T) *T { return &x }

// Close returns within a second while the store hangs, and nothing is left
// running.
func TestCloseWhileTheStoreHangs(t *testing.T) {
	store := storetest.Start(t)
	before := runtime.NumGoroutine()
	connection := dial(t, store.Addr)
	shared := fleet.New(connection, fleet.Config{})
	tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
	send(t, tr)
	time.Sleep(300 * time.Millisecond)
	store.Signal(syscall.SIGSTOP)
	defer store.Signal(syscall.SIGCONT)
	time.Sleep(300 * time.Millisecond) // now a renewal hangs
	start := time.Now()
	if err := shared.Close(); err != nil || time.Since(start) > time.Second {
		t.Errorf("Close returned %v after %v", err, time.Since(start))
	}
	if err := connection.Close(); err != nil || time.Since(start) > time.Second {
		t.Errorf("the connection's Close returned %v after %v", err, time.Since(start))
	}
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buffer := make([]byte, 1<<16)
	t.Errorf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), before, buffer[:runtime.Stack(buffer, true)])
}
