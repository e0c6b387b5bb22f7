package fleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
	"github.com/valkey-io/valkey-go"
)

// needFaults skips a test that takes long.
func needFaults(t *testing.T) {
	t.Helper()
	if *faultTime == 0 {
		t.Skip("SKIPPED: takes long; -faults 3s runs it")
	}
}

// Sentinel promotes a replica while the processes send.
func TestSentinelFailover(t *testing.T) {
	needFaults(t)
	primary := storetest.Start(t)
	replica := storetest.Start(t, "--replicaof", "127.0.0.1", primary.Port())
	var sentinels []string
	for range 3 {
		config := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor fleet 127.0.0.1 %s 2\nsentinel down-after-milliseconds fleet 500\n"+
			"sentinel failover-timeout fleet 3000\n", primary.Port())
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sentinels = append(sentinels, storetest.Start(t, config, "--sentinel").Addr)
	}
	eventually(
		t,
		"replica",
		func() bool { return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up") },
	)
	time.Sleep(3 * time.Second) // the sentinels find each other

	const processes, partitions = 6, 12
	var w world
	w.run(t, processes, func(int) fleet.Client {
		c := fleet.Dial(
			valkey.ClientOption{InitAddress: sentinels, Sentinel: valkey.SentinelOption{MasterSet: "fleet"}},
		)
		t.Cleanup(func() { c.Close() })
		return c
	})
	w.until(t, 3*time.Second, func() bool { return w.leased() == partitions })
	time.Sleep(4 * time.Second)
	w.measure(func() { time.Sleep(3 * time.Second) }).report(t, "before")
	var promoted, back time.Time
	start := time.Now()
	w.measure(func() {
		primary.Stop()
		eventually(t, "promotion", func() bool { return strings.Contains(replica.Do("ROLE"), "master") })
		promoted = time.Now()
	}).report(t, "until the replica is promoted")
	w.measure(func() {
		eventually(t, "leases", func() bool { return w.leased() == partitions })
		back = time.Now()
		time.Sleep(3 * time.Second)
	}).report(t, "after")
	t.Logf("promoted after %v, all leases %v later", promoted.Sub(start), back.Sub(promoted))
	if back.Sub(promoted) > 2400*time.Millisecond { // valkey-go hears of it from a sentinel, or asks again every second
		t.Errorf("all leases %v after the promotion", back.Sub(promoted))
	}
}

// A cluster of three: the partitions are on different servers, and one of these
// stops.
func TestCluster(t *testing.T) {
	needFaults(t)
	user := append(
		[]string{"ACL", "SETUSER", "fleet", "on", ">secret", "~awsretry:*", "+cluster|slots", "+cluster|shards"},
		rights...)
	var servers []*storetest.Server
	for range 3 {
		servers = append(servers, storetest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no"))
	}
	var addrs []string
	for i, s := range servers {
		addrs = append(addrs, s.Addr)
		s.Do(user...)
		first, last := 16384*i/3, 16384*(i+1)/3-1
		s.Do("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(last))
		if i > 0 {
			s.Do("CLUSTER", "MEET", "127.0.0.1", servers[0].Port())
		}
	}
	for _, s := range servers {
		eventually(t, "cluster", func() bool {
			info := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	const processes, partitions = 6, 12
	var w world
	w.run(t, processes, func(int) fleet.Client {
		c := fleet.Dial(valkey.ClientOption{InitAddress: addrs, Username: "fleet", Password: "secret"})
		t.Cleanup(func() { c.Close() })
		return c
	})
	w.until(t, 3*time.Second, func() bool { return w.leased() == partitions })
	time.Sleep(4 * time.Second)
	w.measure(func() { time.Sleep(3 * time.Second) }).report(t, "before")
	for i, s := range servers {
		t.Logf("server %d has %s keys", i, s.Do("DBSIZE"))
	}
	w.measure(func() {
		servers[0].Stop()
		time.Sleep(3 * time.Second)
	}).report(t, "one is stopped")
	w.measure(func() {
		servers[0].Restart()
		servers[0].Do(user...)
		start := time.Now()
		eventually(t, "leases", func() bool { return w.leased() == partitions })
		t.Logf("all leases after %v", time.Since(start))
		time.Sleep(2 * time.Second)
	}).report(t, "after")
}
