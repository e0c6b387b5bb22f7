package fleet_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

const defaultChaos = 25 * time.Second

var chaos = flag.Duration("chaos", defaultChaos, "how long TestChaos and TestFaultsOfProcesses last")

// smallServer starts a server that has a user for the fleet and evicts keys, and
// connects to it.
func smallServer(t *testing.T) (*storetest.Server, *fleet.Connection) {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users.acl")
	user := "user default on nopass ~* &* +@all\nuser fleet on >secret ~orders:* " + strings.Join(rights, " ") + "\n"
	if err := os.WriteFile(users, []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	s := storetest.Start(t, "--maxmemory", "8mb", "--maxmemory-policy", "allkeys-lru", "--aclfile", users)
	connection := fleet.Dial(valkey.ClientOption{
		InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, Username: "fleet", Password: "secret",
	})
	t.Cleanup(func() { _ = connection.Close() })
	return s, connection
}

// Whatever happens to a server, to a cluster or to another process, no call fails
// or waits for the store, and the memory is bounded, while callers make up 20,000
// partitions.
func TestChaos(t *testing.T) {
	const made = 20_000
	stopped := min(max(*chaos/10, 2*time.Second), time.Minute)
	s, connection := smallServer(t)
	servers, addrs := startCluster(t, primaries)
	cluster := fleet.Dial(valkey.ClientOption{InitAddress: addrs, DisableCache: true, Username: "fleet", Password: "secret"})
	defer cluster.Close()
	one, many := newFleet(t, connection, fleet.Config{}), newFleet(t, cluster, fleet.Config{})
	defer one.Close()
	defer many.Close()
	over := func(shared awsretry.Shared) *awsretry.Transport {
		return &awsretry.Transport{Base: respond(http.StatusOK, time.Millisecond), Mode: awsretry.Adaptive, Shared: shared}
	}
	tr, clustered := over(one), over(many)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) }))
	defer server.Close()
	other := startWorker(t, task{Store: s.Addr, Service: server.Listener.Addr().String()})

	end := time.Now().Add(*chaos)
	var calls sync.WaitGroup
	var failed, longest, longestAlone atomic.Int64
	caller := func(tr *awsretry.Transport, host string, longest *atomic.Int64) {
		calls.Go(func() {
			for time.Now().Before(end) {
				start := time.Now()
				if code, err := status(t.Context(), tr, host); err != nil || code != http.StatusOK {
					failed.Add(1)
				}
				longest.Store(max(longest.Load(), int64(time.Since(start))))
				time.Sleep(time.Millisecond)
			}
		})
	}
	const hosts = 4 // in several slots of the cluster
	for i := range hosts {
		caller(tr, host, &longest)
		caller(clustered, fmt.Sprintf("%d.%s", i, host), &longest)
	}
	caller(over(nil), host, &longestAlone) // how busy the machine is
	const makers = 8
	for maker := range makers {
		calls.Go(func() {
			for i := maker; i < made; i += makers {
				if err := call(t.Context(), tr, fmt.Sprintf("host%d.test", i)); err != nil {
					failed.Add(1)
				}
				time.Sleep(*chaos * makers / made / 2)
			}
		})
	}
	stop := func(signal func(os.Signal)) {
		signal(syscall.SIGSTOP)
		time.Sleep(stopped)
		signal(syscall.SIGCONT)
	}
	faults := []func(){
		func() { s.Do("FLUSHALL") },
		func() { stop(s.Signal) },
		func() { stop(func(signal os.Signal) { _ = other.Process.Signal(signal) }) },
		func() { s.Stop(); time.Sleep(time.Second); s.Restart() },
		func() { s.Do("SAVE") },
		func() { s.Do("CLIENT", "KILL", "TYPE", "normal") },
		func() { stop(servers[1].Signal) },
		func() {
			servers[2].Stop()
			time.Sleep(time.Second)
			servers[2].Restart()
			allow(servers[2], "fleet", clusterRights...) // it has forgotten the user
		},
		func() { s.Stop(); s.Restart() }, // with the copy
	}
	rounds := 0.0
	for i := 0; time.Until(end) > stopped+3*time.Second; i++ {
		time.Sleep(time.Second)
		faults[i%len(faults)]()
		rounds += 1 / float64(len(faults))
	}
	calls.Wait()
	took, alone := time.Duration(longest.Load()), time.Duration(longestAlone.Load())
	t.Logf("each fault about %.1f times; the longest call took %v, without a fleet %v", rounds, took, alone)
	for name, leased := range map[string]func() bool{
		"a lease": func() bool { _ = call(t.Context(), tr, host); return stateOf(tr).Fleet.Leased },
		"a lease of the cluster": func() bool {
			for i := range hosts {
				name := fmt.Sprintf("%d.%s", i, host)
				_ = call(t.Context(), clustered, name)
				if state, _ := clustered.State(name); !state.Fleet.Leased {
					return false
				}
			}
			return true
		},
	} {
		eventually(t, name, leased)
	}
	if failed.Load() > 0 || took > time.Second+alone {
		t.Errorf("%d calls failed, and one took %v", failed.Load(), took)
	}
	if err := other.end(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	_, after, _ := strings.Cut(s.Do("INFO", "memory"), "used_memory:")
	used, _, _ := strings.Cut(after, "\r\n")
	if n, err := strconv.Atoi(used); err != nil || n > 16<<20 || memory.HeapAlloc > 64<<20 || runtime.NumGoroutine() > 5000 {
		t.Errorf("the server uses %s bytes, and the process %d with %d goroutines", used, memory.HeapAlloc, runtime.NumGoroutine())
	}
}
