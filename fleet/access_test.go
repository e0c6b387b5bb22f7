package fleet_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
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
			renewals := &watched{Client: c}
			shared := fleet.New(renewals, fleet.Config{Lease: time.Second}) // long enough for a busy machine
			defer shared.Close()
			tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
			send(t, tr)
			eventually(t, "two renewals succeed, or one fails", func() bool {
				return renewals.succeeded.Load() >= 2 || len(renewals.failed.all()) > 0
			})
			allowed := without == ""
			if got := renewals.failed.all(); (len(got) == 0) != allowed {
				t.Errorf("the errors are %q", got)
			}
			eventually(t, "a lease only with all rights", func() bool { return leased(tr) == allowed })
		})
	}
}

// A watched client counts the scripts that succeed, and keeps the errors of
// others.
type watched struct {
	fleet.Client
	succeeded atomic.Int64
	failed    faultLog
}

func (w *watched) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	reply, err := w.Client.Eval(ctx, script, keys, args)
	if err != nil {
		w.failed.add("", err)
	} else {
		w.succeeded.Add(1)
	}
	return reply, err
}

func leased(tr *awsretry.Transport) bool {
	state, _ := tr.State("service.test")
	return state.Leased
}

// Dial returns a Client although there is no store yet.
func TestDialBeforeTheStore(t *testing.T) {
	store := storetest.Start(t)
	store.Stop()
	var faults faultLog
	shared := fleet.New(dial(t, store.Addr), fleet.Config{OnError: faults.add})
	defer shared.Close()
	tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
	send(t, tr)
	eventually(t, "a renewal fails", func() bool { return len(faults.all()) > 0 })
	if got := faults.all(); len(got) != 1 {
		t.Fatalf("the errors are %q", got)
	}
	store.Restart()
	eventually(t, "there is a lease", func() bool { return leased(tr) })
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
		lease         time.Duration // of the second; 0 for the default
		want          string
	}{
		"lease": {
			&awsretry.Transport{}, &awsretry.Transport{}, 500 * time.Millisecond,
			"have Lease 400ms and 500 retry tokens; this one has Lease 500ms",
		},
		"capacity": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 7}}, 0,
			"this one has Lease 400ms and 7 retry tokens",
		},
		"no quota": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: -1}, ShareRetryAfter: true}, 0,
			"this one has Lease 400ms and no retry tokens",
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
				eventually(t, "there is a lease or an error", func() bool { return leased(tr) || len(faults.all()) > 0 })
				return shared, &faults
			}
			first, _ := start(test.first, 0)
			_, faults := start(test.second, test.lease)
			got := strings.Join(faults.all(), "\n")
			if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("the errors are %q; want %q", got, test.want)
			}
			if leased(test.second) != (test.want == "") {
				t.Errorf("the second has a lease: %v", leased(test.second))
			}
			eventually(t, "the first has a lease", func() bool { return leased(test.first) })
			first.Close()
			eventually(t, "the second has a lease as the first has ended", func() bool { return leased(test.second) })
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
	eventually(t, "there is a lease", func() bool { return leased(tr) })
	store.Signal(syscall.SIGSTOP)
	defer store.Signal(syscall.SIGCONT)
	time.Sleep(300 * time.Millisecond) // now a renewal hangs
	start := time.Now()
	if err := shared.Close(); time.Since(start) > 3*time.Second { // on a busy machine; TestEvalHangs knows the exact time
		t.Errorf("Close returned %v after %v", err, time.Since(start))
	}
	if err := connection.Close(); err != nil || time.Since(start) > 3*time.Second {
		t.Errorf("the connection's Close returned %v after %v", err, time.Since(start))
	}
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buffer := make([]byte, 1<<16)
	t.Errorf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), before, buffer[:runtime.Stack(buffer, true)])
}
