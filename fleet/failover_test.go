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
	for _, s := range []*storetest.Server{primary, replica} {
		s.Do(append([]string{"ACL", "SETUSER", "fleet", "on", ">secret", "~awsretry:*", "+role"}, rights...)...)
	}
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
		c := fleet.Dial(valkey.ClientOption{
			InitAddress: sentinels, Sentinel: valkey.SentinelOption{MasterSet: "fleet"},
			Username: "fleet", Password: "secret",
		})
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

// startCluster starts a cluster of three primaries, with replicas if there are
// more servers, and returns it with clients that have the least rights.
func startCluster(t *testing.T, n int) (servers []*storetest.Server, connect func(int) fleet.Client, user []string) {
	t.Helper()
	user = append(
		[]string{"ACL", "SETUSER", "fleet", "on", ">secret", "~awsretry:*", "+cluster|slots", "+cluster|shards"},
		rights...)
	const primaries = 3
	var addrs []string
	for i := range n {
		s := storetest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no")
		servers, addrs = append(servers, s), append(addrs, s.Addr)
		s.Do(user...)
		if i < primaries {
			first, last := 16384*i/primaries, 16384*(i+1)/primaries-1
			s.Do("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(last))
		}
		if i > 0 {
			s.Do("CLUSTER", "MEET", "127.0.0.1", servers[0].Port())
		}
	}
	for _, s := range servers {
		eventually(t, "cluster", func() bool {
			info := s.Do("CLUSTER", "INFO")
			return clusterOK(s) && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	for i, s := range servers[primaries:] {
		s.Do("CLUSTER", "REPLICATE", servers[i].Do("CLUSTER", "MYID"))
		eventually(t, "replica", func() bool {
			return strings.Contains(s.Do("INFO", "replication"), "master_link_status:up")
		})
	}
	return servers, func(int) fleet.Client {
		c := fleet.Dial(valkey.ClientOption{InitAddress: addrs, Username: "fleet", Password: "secret"})
		t.Cleanup(func() { c.Close() })
		return c
	}, user
}

func clusterOK(s *storetest.Server) bool {
	return strings.Contains(s.Do("CLUSTER", "INFO"), "cluster_state:ok")
}

// A cluster of three: the partitions are on different servers, and one of these
// stops and comes back. A primary of a cluster refuses commands for its first
// two seconds.
func TestCluster(t *testing.T) {
	needFaults(t)
	servers, connect, user := startCluster(t, 3)
	const processes, partitions = 6, 12
	var w world
	w.run(t, processes, connect)
	w.until(t, 3*time.Second, func() bool { return w.leased() == partitions })
	time.Sleep(4 * time.Second)
	w.measure(func() { time.Sleep(3 * time.Second) }).report(t, "before")
	stopped := 0
	for i, s := range servers {
		if keys := s.Do("DBSIZE"); keys != "0" {
			stopped = i // the last one that has a partition
		}
	}
	w.measure(func() {
		servers[stopped].Stop()
		time.Sleep(3 * time.Second)
	}).report(t, "one is stopped")
	w.measure(func() {
		servers[stopped].Restart()
		start := time.Now()
		servers[stopped].Do(user...)
		eventually(t, "the server serves", func() bool { return clusterOK(servers[stopped]) })
		serves := time.Since(start)
		eventually(t, "leases", func() bool { return w.leased() == partitions })
		back := time.Since(start)
		t.Logf("the server serves after %v, all leases after %v", serves, back)
		if back-serves > 1400*time.Millisecond {
			t.Errorf("all leases %v after the server serves", back-serves)
		}
		time.Sleep(2 * time.Second)
	}).report(t, "after")
}

// A cluster of three with replicas: a primary stops, and its replica is
// promoted.
func TestClusterFailover(t *testing.T) {
	needFaults(t)
	servers, connect, _ := startCluster(t, 6)
	const processes, partitions = 6, 12
	var w world
	w.run(t, processes, connect)
	w.until(t, 3*time.Second, func() bool { return w.leased() == partitions })
	time.Sleep(4 * time.Second)
	w.measure(func() { time.Sleep(3 * time.Second) }).report(t, "before")
	stopped := 0
	for i, s := range servers[:3] {
		if s.Do("DBSIZE") != "0" {
			stopped = i
		}
	}
	start := time.Now()
	var promoted time.Time
	w.measure(func() {
		servers[stopped].Stop()
		replica := servers[3+stopped]
		eventually(t, "promotion", func() bool { return strings.Contains(replica.Do("ROLE"), "master") })
		promoted = time.Now()
	}).report(t, "until the replica is promoted")
	w.measure(func() {
		eventually(t, "leases", func() bool { return w.leased() == partitions })
		back := time.Since(promoted)
		t.Logf("promoted after %v, all leases %v later", promoted.Sub(start), back)
		if back > 2400*time.Millisecond { // valkey-go waits for up to a second before it asks for the nodes, twice at most
			t.Errorf("all leases %v after the promotion", back)
		}
		time.Sleep(2 * time.Second)
	}).report(t, "after")
}
