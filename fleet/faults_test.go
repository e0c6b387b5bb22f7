package fleet_test

import (
	"context"
	"flag"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
)

var faultTime = flag.Duration("faults", 0,
	"how long each of all faults of the store lasts; 0: a short version of a few")

// A fault is what happens to a store.
type fault struct {
	name   string
	short  bool // part of every run
	leases leases

	begin  func(s *faultyStore)
	repeat func(s *faultyStore) // every 50 ms; may be nil
	end    func(s *faultyStore) // may be nil
}

// leases is what becomes of the leases while a fault lasts.
type leases int

const (
	lost leases = iota // at least those of one partition, or of half of the processes
	kept
	either // it depends on the moment
)

// A faultyStore is a store, and proxies to it: one for half of the processes,
// and one for the others.
type faultyStore struct {
	*storetest.Server
	proxies [2]*proxy
}

func (s *faultyStore) each(f func(p *proxy)) {
	for _, p := range s.proxies {
		f(p)
	}
}

func delayed(by time.Duration) func(*faultyStore) {
	return func(s *faultyStore) { s.each(func(p *proxy) { p.delay.Store(int64(by)) }) }
}

var faults = []fault{
	{name: "none", leases: kept},
	{
		name: "stopped, and empty afterwards", short: true,
		begin: func(s *faultyStore) { s.Stop() }, end: func(s *faultyStore) { s.Restart() },
	},
	{
		name: "suspended", short: true,
		begin: func(s *faultyStore) { s.Signal(syscall.SIGSTOP) }, end: func(s *faultyStore) { s.Signal(syscall.SIGCONT) },
	},
	{name: "slow by 100 ms", leases: kept, begin: delayed(50 * time.Millisecond), end: delayed(0)},
	{name: "slow by 300 ms", leases: either, begin: delayed(150 * time.Millisecond), end: delayed(0)},
	{name: "slow by 600 ms", begin: delayed(300 * time.Millisecond), end: delayed(0)},
	{
		name:  "out of memory",
		begin: func(s *faultyStore) { s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1mb") },
		end:   func(s *faultyStore) { s.Do("CONFIG", "SET", "maxmemory", "0") },
	},
	{
		name:  "read-only replica",
		begin: func(s *faultyStore) { s.Do("REPLICAOF", "127.0.0.1", "1") },
		end:   func(s *faultyStore) { s.Do("REPLICAOF", "NO", "ONE") },
	},
	{name: "flushed", short: true, leases: kept, repeat: func(s *faultyStore) { s.Do("FLUSHALL") }},
	{name: "scripts flushed", leases: kept, repeat: func(s *faultyStore) { s.Do("SCRIPT", "FLUSH") }},
	{
		name: "another format", begin: func(s *faultyStore) { s.Do("HSET", "awsretry:{paced.test}", "format", "2") },
		end: func(s *faultyStore) { s.Do("DEL", "awsretry:{paced.test}") },
	},
	{
		name: "another type", begin: func(s *faultyStore) { s.Do("SET", "awsretry:{paced.test}", "text") },
		end: func(s *faultyStore) { s.Do("DEL", "awsretry:{paced.test}") },
	},
	{
		name: "connections cut in every phase", short: true, leases: either,
		begin:  func(s *faultyStore) { s.each(func(p *proxy) { p.cutAfter.Store(6000) }) },
		repeat: func(s *faultyStore) { s.each((*proxy).cut) },
		end:    func(s *faultyStore) { s.each(func(p *proxy) { p.cutAfter.Store(0) }) },
	},
	{
		name: "partition of half of the processes", short: true,
		begin: func(s *faultyStore) { s.proxies[0].silent.Store(true) },
		end: func(s *faultyStore) {
			s.proxies[0].silent.Store(false)
			s.proxies[0].cut()
		},
	},
}

// A world is processes that send to two services: one that never throttles, and
// one that allows a rate.
type world struct {
	ctx        context.Context
	transports []*awsretry.Transport
	faults     faultLog
	paced      service

	failed atomic.Int64
	sent   atomic.Int64   // to the service that allows a rate
	free   []atomic.Int64 // of each process, requests to the other service that have ended

	mu    sync.Mutex
	added []time.Duration // by the Transports to requests to the service that never throttles
}

const (
	worldRate   = 100
	baseLatency = 5 * time.Millisecond
)

func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "paced.test" {
		w.sent.Add(1)
		return w.paced.RoundTrip(req)
	}
	start := time.Now()
	resp, err := respond(200, baseLatency).RoundTrip(req)
	*req.Context().Value(baseKey{}).(*time.Duration) += time.Since(start)
	return resp, err
}

type baseKey struct{}

// run starts processes, each with a Client from connect, and their callers.
func (w *world) run(t *testing.T, processes int, connect func(i int) fleet.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx = ctx
	w.paced = service{rate: worldRate, burst: worldRate / 5}
	w.free = make([]atomic.Int64, processes)
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	for i := range processes {
		shared := fleet.New(connect(i), fleet.Config{OnError: w.faults.add})
		t.Cleanup(func() {
			start := time.Now()
			if err := shared.Close(); *faultTime > 0 && (err != nil || time.Since(start) > 1500*time.Millisecond) {
				t.Errorf("Close returned %v after %v", err, time.Since(start))
			}
		})
		tr := &awsretry.Transport{
			Base: w, Mode: awsretry.Adaptive, Shared: shared,
			RateLimit: awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing},
		}
		w.transports = append(w.transports, tr)
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					w.send(tr, "http://paced.test/")
				}
			})
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				took, base := w.send(tr, "http://free.test/")
				w.free[i].Add(1)
				w.mu.Lock()
				w.added = append(w.added, took-base)
				w.mu.Unlock()
			}
		})
	}
}

// send makes a request. It returns how long it took, and how long its attempts
// took.
func (w *world) send(tr *awsretry.Transport, url string) (took, base time.Duration) {
	req, _ := http.NewRequestWithContext(context.WithValue(w.ctx, baseKey{}, &base), "GET", url, nil)
	start := time.Now()
	resp, err := tr.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	} else if w.ctx.Err() == nil {
		w.failed.Add(1)
	}
	return time.Since(start), base
}

// leased returns how many partitions of all processes have a lease.
func (w *world) leased() int {
	n := 0
	for _, tr := range w.transports {
		for _, state := range tr.Partitions() {
			if state.Leased {
				n++
			}
		}
	}
	return n
}

// figures are of a part of the run.
type figures struct {
	p99, max        time.Duration // added to a request
	requests        int
	sent            float64 // per second, to the service that allows a rate
	accepted        float64 // the same
	failed          int64
	errors          int
	leasedAtTheEnd  int
	throttledOfSent float64
}

// measure returns the figures of the time until done.
func (w *world) measure(done func()) figures {
	count := func() (sent int64, accepted, throttled int) {
		w.paced.mu.Lock()
		defer w.paced.mu.Unlock()
		return w.sent.Load(), w.paced.accepted, w.paced.throttled
	}
	w.mu.Lock()
	w.added = nil
	w.mu.Unlock()
	start := time.Now()
	failed, errorsBefore := w.failed.Load(), len(w.faults.all())
	sent, accepted, throttled := count()
	done()
	seconds := time.Since(start).Seconds()
	sentAfter, acceptedAfter, throttledAfter := count()
	w.mu.Lock()
	added := w.added
	w.added = nil
	w.mu.Unlock()
	slices.Sort(added)
	f := figures{
		requests: len(added), failed: w.failed.Load() - failed, errors: len(w.faults.all()) - errorsBefore,
		sent: float64(sentAfter-sent) / seconds, accepted: float64(acceptedAfter-accepted) / seconds,
		leasedAtTheEnd:  w.leased(),
		throttledOfSent: float64(throttledAfter-throttled) / float64(max(sentAfter-sent, 1)),
	}
	if len(added) > 0 {
		f.p99, f.max = added[len(added)*99/100], added[len(added)-1]
	}
	return f
}

// report logs figures, and fails the test if requests failed.
func (f figures) report(t *testing.T, name string) {
	t.Helper()
	t.Logf("%s: added p99 %v max %v of %d; %.0f/s sent, %.0f/s accepted, %.3f throttled; %d errors, %d leases",
		name, f.p99, f.max, f.requests, f.sent, f.accepted, f.throttledOfSent, f.errors, f.leasedAtTheEnd)
	if f.failed > 0 {
		t.Errorf("%s: %d requests failed", name, f.failed)
	}
}

// Whatever happens to the store: no request fails, none waits for it, the
// processes send at about the last rate of the fleet, once that is found, and
// they have their leases again within a lease and a second. The short version
// checks no times, because the machine may be busy: TestVirtualStoreFault does.
func TestFaults(t *testing.T) {
	const processes, partitions = 6, 2 * 6
	for _, fault := range faults {
		if *faultTime == 0 && !fault.short {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			s := &faultyStore{Server: storetest.Start(t)}
			for i := range s.proxies {
				s.proxies[i] = startProxy(t, s.Addr)
			}
			var w world
			w.run(t, processes, func(i int) fleet.Client { return dial(t, s.proxies[i%2].addr()) })
			w.until(t, time.Minute, func() bool { return w.leased() == partitions })
			if *faultTime == 0 {
				w.briefly(t, s, fault)
				return
			}
			length := *faultTime
			time.Sleep(4 * time.Second) // until the rate is found
			before := w.measure(func() { time.Sleep(length / 2) })
			lasting := w.measure(func() {
				if fault.begin != nil {
					fault.begin(s)
				}
				for start := time.Now(); time.Since(start) < length; time.Sleep(50 * time.Millisecond) {
					if fault.repeat != nil {
						fault.repeat(s)
					}
				}
			})
			var back time.Duration
			after := w.measure(func() {
				if fault.end != nil {
					fault.end(s)
				}
				start := time.Now()
				w.until(t, 10*time.Second, func() bool { return w.leased() == partitions })
				back = time.Since(start)
				time.Sleep(length / 3)
			})
			t.Logf("back after %v", back.Round(time.Millisecond))
			before.report(t, "before")
			lasting.report(t, "during")
			after.report(t, "after")
			if part := lasting.sent / before.sent; part < 0.4 || part > 1.8 {
				t.Errorf("%.0f/s are sent during the fault, %.0f/s before", lasting.sent, before.sent)
			}
			if part := after.sent / before.sent; part < 0.4 || part > 1.8 {
				t.Errorf("%.0f/s are sent after the fault, %.0f/s before", after.sent, before.sent)
			}
			// A request that waited for the store would wait for a lease, 400 ms.
			// A busy machine delays some for tens of milliseconds.
			if most := before.p99 + 150*time.Millisecond; lasting.p99 > most || after.p99 > most {
				t.Errorf("p99 of what is added to a request: %v, with the fault %v, then %v",
					before.p99, lasting.p99, after.p99)
			}
			n := lasting.leasedAtTheEnd
			if fault.leases == kept && n < partitions-2 ||
				fault.leases == lost && n > partitions/2 { // a flushed key is made by a renewal
				t.Errorf("%d partitions of %d had a lease at the end of the fault", n, partitions)
			}
			if back > 1400*time.Millisecond { // TestVirtualStoreFault has no busy machine
				t.Errorf("back after %v", back)
			}
		})
	}
}

// briefly makes the store fail until the leases are as they should be and every
// process has made requests meanwhile, and then waits for the leases.
func (w *world) briefly(t *testing.T, s *faultyStore, fault fault) {
	leases := len(w.transports) * 2 // a partition of each service
	during := func(ok func() bool) {
		w.until(t, time.Minute, func() bool {
			if fault.repeat != nil {
				fault.repeat(s)
				time.Sleep(50 * time.Millisecond)
			}
			return ok()
		})
	}
	if fault.begin != nil {
		fault.begin(s)
	}
	during(func() bool {
		return fault.leases == either || fault.leases == kept && w.leased() == leases ||
			fault.leases == lost && w.leased() <= leases/2
	})
	ended := make([]int64, len(w.free))
	for i := range w.free {
		ended[i] = w.free[i].Load()
	}
	during(func() bool {
		for i := range w.free { // the first to end may have begun before
			if w.free[i].Load() < ended[i]+3 {
				return false
			}
		}
		return true
	})
	if fault.end != nil {
		fault.end(s)
	}
	w.until(t, time.Minute, func() bool { return w.leased() == leases })
	if n := w.failed.Load(); n > 0 {
		t.Errorf("%d requests failed", n)
	}
}

// until waits for a condition, and for at most so long.
func (w *world) until(t *testing.T, most time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("nothing after %v; the errors are %.2000q", most, w.faults.all())
			return
		}
	}
}
