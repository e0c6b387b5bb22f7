package fleet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry/fleet/internal/storetest"
)

// sentHeader has the time at which a process sent a request, in nanoseconds since
// 1970, so that a busy test does not delay what it measures.
const sentHeader = "Test-Sent"

// A stamper sets sentHeader.
type stamper struct{}

func (stamper) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(sentHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
	return http.DefaultTransport.RoundTrip(req)
}

// A crew is processes of the operating system that keep a MaxRate, and call a service
// that would accept more.
type crew struct {
	*testing.T
	task    task
	workers []*worker
	ready   func() // waits until a fault may happen

	mu   sync.Mutex
	sent []time.Duration // since the beginning
	at   time.Time       // the beginning
}

const (
	crewSize = 5
	crewRate = 50
)

// newCrew starts a crew, and waits until its rate is up.
func newCrew(t *testing.T, store, masterSet string) *crew {
	c := &crew{T: t, ready: func() {}, at: time.Now()}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.task = task{Store: store, MasterSet: masterSet, Service: server.Listener.Addr().String(), MaxRate: crewRate}
	c.start()
	eventually(t, "the rate is up", func() bool {
		now := time.Since(c.at)
		return c.measure(now-time.Second, now).rate >= crewRate*9/10
	})
	return c
}

func (c *crew) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.Header.Get(sentHeader), 10, 64)
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	c.sent = append(c.sent, time.Unix(0, n).Sub(c.at))
	c.mu.Unlock()
	time.Sleep(delay)
}

func (c *crew) start() {
	c.workers = nil
	for range crewSize {
		c.workers = append(c.workers, startWorker(c.T, c.task))
	}
}

// A record is what a crew sent in a time.
type record struct {
	rate float64       // requests a second
	gap  time.Duration // the longest time without a request
	most int           // requests in one second
}

func (c *crew) measure(from, to time.Duration) (o record) {
	c.mu.Lock()
	sent := slices.Sorted(slices.Values(c.sent))
	c.mu.Unlock()
	first, last := 0, from
	for i, at := range sent {
		for at-sent[first] >= time.Second {
			first++
		}
		if at < from || at > to {
			continue
		}
		o.most = max(o.most, i-first+1)
		o.rate += 1 / (to - from).Seconds()
		o.gap, last = max(o.gap, at-last), at
	}
	o.gap = max(o.gap, to-last)
	return o
}

// A hardship is a fault that a crew undergoes at intervals.
type hardship struct {
	name   string
	every  time.Duration
	lasts  time.Duration // in all; -chaos makes it longer
	happen func(c *crew)
}

// What a crew keeps during any fault: at least the rate, and at most the rest. A
// machine that is busy delays some requests more than others.
var (
	goal     = record{40, 500 * time.Millisecond, 52}
	whenBusy = record{30, 750 * time.Millisecond, 56}
)

// TestFaultsOfProcesses is a table: whatever happens to the store or to the processes,
// they send nearly as much as they may, and never more.
func TestFaultsOfProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 25 s")
	}
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		s := storetest.Start(t)
		cut := func(*crew) { s.Do("CLIENT", "KILL", "TYPE", "normal") }
		pause := func(d time.Duration, signal func(os.Signal)) {
			signal(syscall.SIGSTOP)
			time.Sleep(d)
			signal(syscall.SIGCONT)
		}
		newCrew(t, s.Addr, "").undergo([]hardship{
			{"none", time.Second, 500 * time.Millisecond, func(*crew) {}},
			{"connections cut", 2 * time.Second, 2 * time.Second, cut},
			{"connections cut", 700 * time.Millisecond, 2100 * time.Millisecond, cut},
			{"the store pauses for 0.6 s", 2 * time.Second, 2 * time.Second, func(*crew) { pause(600*time.Millisecond, s.Signal) }},
			{"the store pauses for 0.5 s", time.Second, 2 * time.Second, func(*crew) { pause(500*time.Millisecond, s.Signal) }},
			{"the key is deleted", 30 * time.Millisecond, time.Second, func(*crew) { s.Do("FLUSHALL") }},
			{"the store is gone for 1 s, and returns empty", 2500 * time.Millisecond, 2500 * time.Millisecond, func(*crew) {
				s.Stop()
				time.Sleep(time.Second)
				s.Restart()
			}},
			{"the store returns to a copy from before a flush", 2 * time.Second, 2 * time.Second, func(*crew) {
				s.Do("SAVE")
				s.Do("FLUSHALL")
				time.Sleep(500 * time.Millisecond)
				s.Stop()
				s.Restart()
			}},
			{"a process pauses for 1 s", 1500 * time.Millisecond, 1500 * time.Millisecond, func(c *crew) {
				pause(time.Second, func(signal os.Signal) { _ = c.workers[0].Process.Signal(signal) })
			}},
			{"all processes are killed and start again", 2 * time.Second, 2 * time.Second, func(c *crew) {
				for _, w := range c.workers {
					w.kill()
				}
				c.start()
			}},
		})
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		primary, replica, sentinel := startSentinel(t)
		c := newCrew(t, sentinel.Addr, "fleet")
		c.ready = func() {
			eventually(t, "the sentinel knows the replica", func() bool {
				replicas := sentinel.Do("SENTINEL", "REPLICAS", "fleet")
				return strings.Contains(replicas, "master-link-status:ok") && strings.Contains(replicas, "flags:slave ")
			})
		}
		c.undergo([]hardship{{"failover", 20 * time.Second, 5 * time.Second, func(c *crew) {
			c.ready()
			primary.Stop()
			eventually(t, "promotion", func() bool {
				role, err := replica.Try("ROLE")
				return err == nil && strings.Contains(role, "master")
			})
			primary.Restart()
			primary.Do("REPLICAOF", "127.0.0.1", replica.Port())
			primary, replica = replica, primary
		}}})
	})
}

// busy returns a function that returns how long the machine has delayed a goroutine
// at most.
func busy() func() time.Duration {
	var longest atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		const pause = 5 * time.Millisecond
		for ctx.Err() == nil {
			start := time.Now()
			time.Sleep(pause)
			longest.Store(max(longest.Load(), int64(time.Since(start)-pause)))
		}
	}()
	return func() time.Duration {
		cancel()
		return time.Duration(longest.Load())
	}
}

// undergo reports what a crew sends during faults, and fails the test if that is too
// little or too much three times, or if a call failed.
func (c *crew) undergo(hardships []hardship) {
	const mayVary = 20 * time.Millisecond // as Config.MaxRate says
	c.Log("| fault | each | requests a second | longest gap | most in a second | delay by the machine |")
	for _, h := range hardships {
		lasts := time.Duration(float64(h.lasts) * chaos.Seconds() / defaultChaos.Seconds())
		for try := 1; ; try++ {
			c.ready()
			delayed := busy()
			from, until := time.Since(c.at), time.Now().Add(lasts)
			for next := time.Now(); next.Before(until); next = next.Add(h.every) {
				time.Sleep(time.Until(next))
				h.happen(c)
			}
			time.Sleep(time.Until(until))
			to := time.Since(c.at)
			time.Sleep(500 * time.Millisecond) // nor may there be too much afterwards
			got, most := c.measure(from, to), c.measure(from, time.Since(c.at)).most
			delay := delayed()
			c.Logf("| %s | %v | %.1f | %.2f s | %d | %d ms |", h.name, h.every, got.rate, got.gap.Seconds(), most, delay.Milliseconds())
			want := whenBusy
			if *chaos > defaultChaos && delay < mayVary { // nothing else runs
				want = goal
			}
			if got.rate >= want.rate && got.gap <= want.gap && most <= want.most {
				break
			}
			if try == 3 {
				c.Errorf("%s, each %v: want %+v", h.name, h.every, want)
				break
			}
		}
	}
	for _, w := range c.workers {
		if err := w.end(); err != nil {
			c.Errorf("a process: %v", err)
		}
	}
}
