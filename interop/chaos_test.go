package interop

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

const (
	chaosWorkers = 64
	chaosHeap    = 96 << 20 // bytes that the heap may grow meanwhile
)

// chaosTransports returns Transports with different settings over one Base.
func chaosTransports(base http.RoundTripper, tally *chaosTally) []*awsretry.Transport {
	settings := []*awsretry.Transport{
		{},
		{
			AttemptTimeout: 300 * time.Millisecond, SDKHeaders: true, MaxPartitions: 4, MaxBodyBuffer: chaosMaxBody / 2,
			Observe: tally.observe,
		},
		{
			AttemptTimeout: 300 * time.Millisecond, Mode: awsretry.Adaptive, Observe: tally.observe,
			Prepare: func(req *http.Request, n int) error {
				req.Header.Set("X-Attempt", strconv.Itoa(n))
				return nil
			},
		},
		{
			Mode: awsretry.Adaptive, Revision: awsretry.Revision2026, Observe: tally.observe,
			RateLimit: awsretry.RateLimitConfig{FailFast: true},
		},
	}
	for _, tr := range settings {
		tr.Base, tr.MaxAttempts = base, chaosAttempts
		tr.Backoff = awsretry.Exponential{Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond}
		if !tr.RateLimit.FailFast {
			tr.Quota.RefillPerSecond = 300 // an outage of ten seconds would end all retries
		}
	}
	return settings
}

// Many goroutines send requests for as long as -chaos says. They go through a
// toxiproxy whose toxics change all the time, to a server that fails in every
// way.
func TestChaos(t *testing.T) {
	proxies := startToxiproxy(t)
	tally := newChaosTally()
	before := takeStock()
	server := startChaosServer()
	network := new(chaosNet)
	addr := server.Listener.Addr().String()
	network.addr.Store(&addr)
	transports := chaosTransports(
		&http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: chaosWorkers}, tally)

	ctx, cancel := context.WithTimeout(t.Context(), *chaosDuration)
	defer cancel()
	start := time.Now()
	var next atomic.Int64
	var workers sync.WaitGroup
	for i := range chaosWorkers {
		client := &http.Client{Transport: transports[i%len(transports)]}
		workers.Go(func() {
			for ctx.Err() == nil {
				call := int(next.Add(1)) - 1
				if call >= chaosMaxCalls {
					return
				}
				tally.call(client, call)
			}
		})
	}
	peak := make(chan uint64, 1)
	go func() { peak <- watchHeap(ctx) }()
	sets := network.rotate(ctx, proxies, addr)
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(chaosAttempts*chaosPatience + 3*chaosGrace):
		t.Fatalf("requests do not end:\n%s", goroutineStacks(1))
	}
	t.Logf("%v, %d sets of toxics, %d goroutines", time.Since(start).Round(time.Millisecond), sets, chaosWorkers)

	for _, tr := range transports {
		tr.CloseIdleConnections()
	}
	if !eventually(func() bool { return network.open.Load() == 0 }) {
		t.Errorf("%d of %d connections are open", network.open.Load(), network.opened.Load())
	}
	if !eventually(func() bool { return tally.bodies.Load() == tally.bodiesClosed.Load() }) {
		t.Errorf("of %d request bodies %d are closed", tally.bodies.Load(), tally.bodiesClosed.Load())
	}
	if !eventually(func() bool { return server.conns.Load() == 0 }) {
		t.Errorf("the server has %d open connections", server.conns.Load())
	}
	server.Close()
	before.check(t, <-peak)
	mostGet, most := tally.checkCounts(t, server, int(next.Load()))
	tally.check(t, server)
	t.Logf("%d calls, %d requests reached the server over %d connections, %d for a GET, %d for another call",
		tally.calls.Load(), server.requests.Load(), network.opened.Load(), mostGet, most)
	t.Logf("%d whole, %d cut off, %d not read, %d failed, %d refused by the rate limiter, %d given up",
		tally.whole.Load(), tally.cut.Load(), tally.unread.Load(), tally.failed.Load(), tally.held.Load(),
		tally.gaveUp.Load())
	t.Logf("2xx %d, 4xx %d, 5xx %d; observed %d attempts, %d retries; slowest %v after its deadline, %v without one",
		tally.statuses[2].Load(), tally.statuses[4].Load(), tally.statuses[5].Load(), tally.attempts.Load(),
		tally.retries.Load(), time.Duration(tally.slowest.Load()).Round(time.Millisecond),
		time.Duration(tally.longest.Load()).Round(time.Millisecond))
}

// A stock is what a process has.
type stock struct {
	goroutines, files int
	heap              uint64 // bytes that are reachable
}

func takeStock() stock {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd") // none without /proc: then there is nothing to compare
	return stock{runtime.NumGoroutine(), len(files), m.HeapAlloc}
}

// check fails unless the process soon has no more than before. peak is the most
// that the heap had meanwhile.
func (before stock) check(t *testing.T, peak uint64) {
	t.Helper()
	var after stock
	if !eventually(func() bool {
		after = takeStock()
		return after.goroutines <= before.goroutines && after.files <= before.files
	}) {
		t.Errorf("%d goroutines and %d open files, want %d and %d as before:\n%s",
			after.goroutines, after.files, before.goroutines, before.files, goroutineStacks(1))
	}
	if peak > before.heap+chaosHeap {
		t.Errorf("the heap grew from %d to %d KiB, by more than %d", before.heap>>10, peak>>10, chaosHeap>>10)
	}
	if after.heap > before.heap+(8<<20)+4*chaosMaxCalls { // chaosServer.sent is new
		t.Errorf("the heap had %d KiB before and has %d now", before.heap>>10, after.heap>>10)
	}
	t.Logf("goroutines %d -> %d, open files %d -> %d, heap %d KiB -> at most %d -> %d", before.goroutines,
		after.goroutines, before.files, after.files, before.heap>>10, peak>>10, after.heap>>10)
}

// watchHeap returns the most that the heap had until ctx ended, garbage
// included.
func watchHeap(ctx context.Context) (most uint64) {
	for ctx.Err() == nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
		pause(ctx, 50*time.Millisecond)
	}
	return most
}
