package fleet_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// rights are what the script needs. The connection itself needs HELLO, which
// every user may call.
var rights = []string{"+eval", "+evalsha", "+time", "+hmget", "+hset", "+pexpire"}

// sentinelRights are what a client needs at the sentinels.
var sentinelRights = []string{"+subscribe", "+sentinel|sentinels", "+sentinel|get-master-addr-by-name"}

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
			shared := fleet.New(renewals, fleet.Config{})
			defer shared.Close()
			tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
			send(t, tr)
			refused := func() bool { return len(renewals.failed.all()) > 0 }
			eventually(t, "two renewals succeed, or one is refused", func() bool {
				return renewals.succeeded.Load() >= 2 || refused()
			})
			allowed := without == ""
			if refused() == allowed {
				t.Errorf("the errors are %q", renewals.failed.all())
			}
			eventually(t, "a lease only with all rights", func() bool { return leased(tr) == allowed })
		})
	}
}

// A watched client counts the scripts that succeed, and keeps the errors of
// others, but for those that had no time: the machine may be busy.
type watched struct {
	fleet.Client
	succeeded atomic.Int64
	failed    faultLog
}

func (w *watched) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	reply, err := w.Client.Eval(ctx, script, keys, args)
	if err == nil {
		w.succeeded.Add(1)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		w.failed.add("", err)
	}
	return reply, err
}

// failedWith reports whether a script failed with an error that has the text.
func (w *watched) failedWith(text string) bool {
	return slices.ContainsFunc(w.failed.all(), func(err string) bool { return strings.Contains(err, text) })
}

func leased(tr *awsretry.Transport) bool {
	state, _ := tr.State("service.test")
	return state.Leased
}

// With Sentinel a user of the data server also needs role.
func TestLeastRightsWithSentinel(t *testing.T) {
	primary := storetest.Start(t)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor fleet 127.0.0.1 %s 1\n", primary.Port())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := storetest.Start(t, config, "--sentinel")
	sentinel.Do(append([]string{"ACL", "SETUSER", "watcher", "on", ">secret", "&*", "resetkeys"}, sentinelRights...)...)
	for _, user := range []struct {
		name, right string
		allowed     bool
	}{{"with", "+role", true}, {"without", "-role", false}} {
		primary.Do(append([]string{"ACL", "SETUSER", user.name, "on", ">secret", "~awsretry:*", user.right}, rights...)...)
		c := fleet.Dial(valkey.ClientOption{
			InitAddress: []string{sentinel.Addr}, Username: user.name, Password: "secret",
			Sentinel: valkey.SentinelOption{MasterSet: "fleet", Username: "watcher", Password: "secret"},
		})
		defer c.Close()
		renewals := &watched{Client: c}
		shared := fleet.New(renewals, fleet.Config{})
		defer shared.Close()
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
		send(t, tr)
		refused := func() bool { return renewals.failedWith("'role' command") }
		eventually(t, "a lease or a refusal", func() bool {
			return user.allowed && leased(tr) || !user.allowed && refused()
		})
		if refused() == user.allowed || renewals.succeeded.Load() > 0 != user.allowed {
			t.Errorf("%s role: %d renewals succeeded; the errors are %q",
				user.name, renewals.succeeded.Load(), renewals.failed.all())
		}
	}
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

// The first processes' settings stay while they are there, and for a minute
// after that. Others get an error and work alone, also after an outage of the
// store that is shorter.
func TestOtherSettings(t *testing.T) {
	adaptive := func(p awsretry.Pacing) awsretry.Transport {
		return awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: awsretry.RateLimitConfig{Pacing: p}}
	}
	for name, test := range map[string]struct {
		first, second *awsretry.Transport
		lease         time.Duration // of the second
		silence       time.Duration // before the second may share
		want          string
	}{
		"lease": {
			&awsretry.Transport{}, &awsretry.Transport{}, 800 * time.Millisecond, time.Minute,
			"have Lease 400ms and 500 retry tokens; this one has Lease 800ms",
		},
		"capacity": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: 7}}, 0, time.Minute,
			"this one has Lease 400ms and 7 retry tokens",
		},
		"no quota": {
			&awsretry.Transport{}, &awsretry.Transport{Quota: awsretry.QuotaConfig{Capacity: -1}, ShareRetryAfter: true},
			0, time.Minute, "this one has Lease 400ms and no retry tokens",
		},
		"pacing": {
			ptr(adaptive(awsretry.CubicPacing)), ptr(adaptive(awsretry.ScaledPacing)), 0, time.Minute,
			"have the pacing cubic; this one has scaled",
		},
		"mode": {&awsretry.Transport{}, ptr(adaptive(awsretry.ScaledPacing)), 0, 0, ""}, // they share the retry tokens
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &fleettest.Store{Latency: time.Millisecond}
				start := func(tr *awsretry.Transport, lease time.Duration) (*fleet.Fleet, *faultLog) {
					var faults faultLog
					tr.Base = respond(200, 0)
					shared := fleet.New(store, fleet.Config{Lease: lease, OnError: faults.add})
					tr.Shared = shared
					send(t, tr)
					time.Sleep(time.Second)
					return shared, &faults
				}
				first, _ := start(test.first, 400*time.Millisecond)
				second, faults := start(test.second, cmp.Or(test.lease, 400*time.Millisecond))
				defer second.Close()
				leased := func(tr *awsretry.Transport) bool {
					for range 25 { // it is not idle
						send(t, tr)
						time.Sleep(200 * time.Millisecond)
					}
					state, _ := tr.State("service.test")
					return state.Leased
				}
				check := func(when string, wantFirst, wantSecond bool) {
					t.Helper()
					if a, b := leased(test.first), leased(test.second); a != wantFirst || b != wantSecond {
						t.Errorf("%s the first has a lease: %v, the second: %v", when, a, b)
					}
				}
				check("at the start", true, test.want == "")
				if got := strings.Join(faults.all(), "\n"); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
					t.Errorf("the errors are %q; want %q", got, test.want)
				}
				if test.silence > 0 {
					for range 2 {
						store.Refuse(errors.New("an outage"))
						time.Sleep(5 * time.Second)
						store.Refuse(nil)
						time.Sleep(time.Second)
						check("after an outage", true, false)
					}
				}
				first.Close()
				if test.silence > 0 {
					time.Sleep(test.silence - 15*time.Second)
					check("before a minute of silence", false, false)
				}
				time.Sleep(10 * time.Second)
				check("when the first has gone", false, true)
			})
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
	if err := shared.Close(); time.Since(start) > time.Minute { // on a busy machine; TestEvalHangs knows the exact time
		t.Errorf("Close returned %v after %v", err, time.Since(start))
	}
	if err := connection.Close(); err != nil || time.Since(start) > time.Minute {
		t.Errorf("the connection's Close returned %v after %v", err, time.Since(start))
	}
	for range 6000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	buffer := make([]byte, 1<<16)
	t.Errorf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), before, buffer[:runtime.Stack(buffer, true)])
}
