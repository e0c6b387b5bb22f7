package fleet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// The tests in this file test real servers and their clients. Those in
// script_test.go test the script, and the others use fleettest in virtual time.

// rights are those that the script needs. The connection itself needs HELLO, which
// every user may call.
var rights = []string{"+eval", "+evalsha", "+time", "+hmget", "+hset", "+pexpire"}

// allow creates a user of a server who has only the rights, and only for the keys of
// a fleet.
func allow(s *storetest.Server, name string, rights ...string) {
	s.Do(append([]string{"ACL", "SETUSER", name, "reset", "on", ">secret", "~orders:*"}, rights...)...)
}

// evaluate renews a lease as a user.
func evaluate(t *testing.T, option valkey.ClientOption, key string) error {
	t.Helper()
	option.Username, option.Password = "fleet", "secret"
	c := fleet.Dial(option)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Eval(ctx, fleet.Script, []string{key}, renewal(nil))
	return err
}

// A user needs these rights, and no others.
func TestLeastRights(t *testing.T) {
	store := storetest.Start(t)
	option := valkey.ClientOption{InitAddress: []string{store.Addr}, ForceSingleClient: true}
	for _, without := range append([]string{""}, rights...) {
		store.Do("SCRIPT", "FLUSH")
		allow(store, "fleet", slices.DeleteFunc(slices.Clone(rights), func(right string) bool { return right == without })...)
		err := evaluate(t, option, key)
		if allowed := without == ""; (err == nil) != allowed {
			t.Errorf("without %q: %v", without, err)
		}
	}
	allow(store, "fleet", rights...)
	if err := evaluate(t, option, "another:key"); err == nil {
		t.Error("a user may use a key that is not the fleet's")
	}
}

// A member is a Transport of a fleet with a real server.
type member struct {
	transport *awsretry.Transport
	shared    *fleet.Fleet
	faults    faultLog
}

func join(t *testing.T, client fleet.Client) *member {
	t.Helper()
	m := new(member)
	m.shared = newFleet(t, client, fleet.Config{OnError: m.faults.add})
	t.Cleanup(func() { m.shared.Close() })
	m.transport = &awsretry.Transport{Base: respond(200, 0), Mode: awsretry.Adaptive, Shared: m.shared}
	send(t, m.transport)
	return m
}

// until makes requests until the member has a lease, or none, and logs how long that
// takes.
func (m *member) until(t *testing.T, leased bool) {
	t.Helper()
	start := time.Now()
	defer func() { t.Logf("leased is %v after %v", leased, time.Since(start).Round(10*time.Millisecond)) }()
	eventually(t, fmt.Sprintf("leased: %v; %q", leased, m.faults.all()), func() bool {
		send(t, m.transport)
		return stateOf(m.transport).Fleet.Leased == leased
	})
}

// Whatever happens to a server, no request fails or waits for it, and there is a
// lease again afterwards. Dial returns a Client although there is no server yet.
func TestFaults(t *testing.T) {
	s := storetest.Start(t)
	s.Stop()
	m := join(t, dial(t, s.Addr))
	eventually(t, "a renewal fails", func() bool { return len(m.faults.all()) > 0 })
	s.Restart()
	m.until(t, true)
	// With a longer field it would be a hash table, which takes much more memory.
	if got := s.Do("OBJECT", "ENCODING", key); got != "listpack" {
		t.Errorf("the encoding of a partition is %s, want listpack", got)
	}
	deleteKey := func() { s.Do("DEL", key) }
	for _, fault := range []struct {
		name       string
		begin, end func()
		kept       bool // the lease
	}{
		{"stopped", s.Stop, s.Restart, false},
		{"suspended", func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }, false},
		{"out of memory", func() { s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1mb") },
			func() { s.Do("CONFIG", "SET", "maxmemory", "0") }, false},
		{"a read-only replica", func() { s.Do("REPLICAOF", "127.0.0.1", "1") },
			func() { s.Do("REPLICAOF", "NO", "ONE") }, false},
		{"a key of another format", func() { s.Do("HSET", key, "format", "6") }, deleteKey, false},
		{"a key of another type", func() { s.Do("SET", key, "text") }, deleteKey, false},
		{"flushed", func() { s.Do("FLUSHALL") }, func() {}, true},
		{"scripts flushed", func() { s.Do("SCRIPT", "FLUSH") }, func() {}, true},
		{"connections cut", func() { s.Do("CLIENT", "KILL", "TYPE", "normal") }, func() {}, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			before, _ := s.Try("HGET", key, "renewals")
			fault.begin()
			if fault.kept {
				eventually(t, "a renewal", func() bool {
					n, err := s.Try("HGET", key, "renewals")
					return err == nil && n != before
				})
			} else {
				m.until(t, false)
			}
			fault.end()
			m.until(t, true)
		})
	}
}

// Close returns while the store hangs, and nothing is left running.
func TestCloseWhileTheStoreHangs(t *testing.T) {
	store := storetest.Start(t)
	before := runtime.NumGoroutine()
	connection := dial(t, store.Addr)
	m := join(t, connection)
	m.until(t, true)
	store.Signal(syscall.SIGSTOP)
	defer store.Signal(syscall.SIGCONT)
	m.until(t, false)
	_ = m.shared.Close() // TestEvalHangs tests what it returns, and when
	if err := connection.Close(); err != nil {
		t.Errorf("the connection's Close returned %v", err)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// failsOver stops a primary: there is a lease again when its replica is promoted.
func failsOver(t *testing.T, option valkey.ClientOption, primary, replica *storetest.Server) {
	t.Helper()
	option.Username, option.Password = "fleet", "secret"
	c := fleet.Dial(option)
	defer c.Close()
	m := join(t, c)
	m.until(t, true)
	primary.Stop()
	m.until(t, false)
	eventually(t, "promotion", func() bool {
		role, err := replica.Try("ROLE") // a server that is promoted breaks off its connections
		return err == nil && strings.Contains(role, "master")
	})
	m.until(t, true)
}

// startSentinel starts a primary, its replica, and a sentinel that knows both.
func startSentinel(t *testing.T) (primary, replica, sentinel *storetest.Server) {
	t.Helper()
	primary = storetest.Start(t, "--repl-diskless-sync-delay", "0")
	replica = storetest.Start(t, "--replicaof", "127.0.0.1", primary.Port(), "--repl-diskless-sync-delay", "0")
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor fleet 127.0.0.1 %s 1\nsentinel down-after-milliseconds fleet 300\n"+
		"sentinel failover-timeout fleet 3000\n", primary.Port())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel = storetest.Start(t, config, "--sentinel")
	eventually(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.Do("SENTINEL", "REPLICAS", "fleet"), "master-link-status:ok")
	})
	return primary, replica, sentinel
}

// With Sentinel a user of the data server also needs role. When a replica is
// promoted, there is a lease again.
func TestSentinel(t *testing.T) {
	primary, replica, sentinel := startSentinel(t)
	sentinel.Do("ACL", "SETUSER", "watcher", "on", ">secret", "&*", "resetkeys",
		"+subscribe", "+sentinel|sentinels", "+sentinel|get-master-addr-by-name")
	option := valkey.ClientOption{
		InitAddress: []string{sentinel.Addr},
		Sentinel:    valkey.SentinelOption{MasterSet: "fleet", Username: "watcher", Password: "secret"},
	}
	allow(primary, "fleet", rights...)
	if err := evaluate(t, option, key); err == nil || !strings.Contains(err.Error(), "'role' command") {
		t.Errorf("without role: %v", err)
	}
	for _, s := range []*storetest.Server{primary, replica} {
		allow(s, "fleet", append(rights, "+role")...)
	}
	failsOver(t, option, primary, replica)
}

const primaries = 3 // of a cluster

var clusterRights = append(slices.Clone(rights), "+cluster|slots", "+cluster|shards")

// startCluster starts a cluster of n servers, whose primaries have slots. In a
// cluster a user also needs cluster|slots and cluster|shards.
func startCluster(t *testing.T, n int) (servers []*storetest.Server, addrs []string) {
	t.Helper()
	for i := range n {
		s := storetest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "500",
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0")
		servers, addrs = append(servers, s), append(addrs, s.Addr)
		allow(s, "fleet", clusterRights...)
		if i < primaries {
			s.Do("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(16384*i/primaries), fmt.Sprint(16384*(i+1)/primaries-1))
		}
		if i > 0 {
			s.Do("CLUSTER", "MEET", "127.0.0.1", servers[0].Port())
		}
	}
	for _, s := range servers {
		eventually(t, "cluster", func() bool {
			info := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return servers, addrs
}

// When a replica is promoted, there is a lease again.
func TestCluster(t *testing.T) {
	servers, addrs := startCluster(t, primaries+1)
	slot, _ := strconv.Atoi(servers[0].Do("CLUSTER", "KEYSLOT", key))
	primary, replica := servers[slot*primaries/16384], servers[primaries]
	replica.Do("CLUSTER", "REPLICATE", primary.Do("CLUSTER", "MYID"))
	eventually(t, "replica", func() bool {
		return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
	})
	failsOver(t, valkey.ClientOption{InitAddress: addrs}, primary, replica)
}
