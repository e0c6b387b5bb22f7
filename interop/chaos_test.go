package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

const (
	chaosAttempts = 4
	chaosPatience = time.Second      // the longest deadline of a call, and about how long a proxy lives
	chaosGrace    = 10 * time.Second // after a deadline, on a machine that is busy with other things
)

// A chaosTally counts what happened to the calls.
type chaosTally struct {
	calls, whole, cut, unread, failed, held, gaveUp atomic.Int64 // ends of calls
	corrupt                                         atomic.Int64 // whole responses that are not what was sent
	strange                                         atomic.Int64 // results that the contract does not allow
	late                                            atomic.Int64
	slowest                                         atomic.Int64 // nanoseconds after the deadline or the cancel
	longest                                         atomic.Int64 // nanoseconds of a call without either
	attempts, retries                               atomic.Int64 // that Observe saw
	bodies, bodiesClosed                            atomic.Int64 // request bodies
	statuses                                        [6]atomic.Int64
	gets                                            []atomic.Bool  // calls that net/http may repeat itself
	observed                                        []atomic.Int32 // attempts of each call; 0 without Observe
}

func newChaosTally() *chaosTally {
	return &chaosTally{gets: make([]atomic.Bool, chaosMaxCalls), observed: make([]atomic.Int32, chaosMaxCalls)}
}

func (c *chaosTally) observe(a awsretry.Attempt) {
	c.attempts.Add(1)
	if a.Number > 1 {
		c.retries.Add(1)
	}
	if call, err := strconv.Atoi(a.Request.Header.Get("X-Call")); err == nil {
		c.observed[call].Add(1)
	}
}

// A chaosBody counts its closes.
type chaosBody struct {
	io.Reader
	tally  *chaosTally
	closed atomic.Bool
}

func (c *chaosTally) body(r io.Reader) *chaosBody {
	c.bodies.Add(1)
	return &chaosBody{Reader: r, tally: c}
}

func (b *chaosBody) Close() error {
	if b.closed.Swap(true) {
		b.tally.strange.Add(1)
	}
	b.tally.bodiesClosed.Add(1)
	return nil
}

// A chaosFile is a body that is read in place.
type chaosFile struct {
	*bytes.Reader
	*chaosBody
}

func (f chaosFile) Read(p []byte) (int, error) { return f.Reader.Read(p) }

// request returns the request of a call. It has no body, one with GetBody, one
// that is read in place, or a stream with or without a length.
func (c *chaosTally) request(ctx context.Context, call int) *http.Request {
	data := chaosBytes(call, rand.IntN(chaosMaxBody))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://chaos.test/", nil)
	if err != nil {
		panic(err)
	}
	switch kind := rand.IntN(5); kind {
	case 0:
		data, req.Method = nil, http.MethodGet
		c.gets[call].Store(true)
	case 1:
		req.GetBody = func() (io.ReadCloser, error) { return c.body(bytes.NewReader(data)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(data))
	case 2:
		reader := bytes.NewReader(data)
		req.Body = chaosFile{reader, c.body(reader)}
		req.ContentLength = int64(len(data))
	default:
		req.Body = c.body(bytes.NewReader(data))
		if req.ContentLength = -1; kind == 3 {
			req.ContentLength = int64(len(data))
		}
	}
	if req.Body != nil && req.ContentLength == 0 {
		req.ContentLength = -1 // to net/http, 0 means unknown if there is a body
	}
	req.Header.Set("X-Call", strconv.Itoa(call))
	req.Header.Set(chaosSum, chaosSumOf(data))
	return req
}

// call makes one call, with a deadline, a cancel, or neither.
func (c *chaosTally) call(client *http.Client, call int) {
	ctx, wait, endless := context.Background(), chaosPatience, false
	switch dice := rand.IntN(10); {
	case dice < 3:
		// No end of a context cleans up what leaks. An attempt that hangs ends
		// with its proxy.
		endless, wait = true, 0
	case dice == 3:
		wait = rand.N(50 * time.Millisecond)
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		timer := time.AfterFunc(wait, cancel)
		defer timer.Stop()
	case dice < 6:
		wait = rand.N(100 * time.Millisecond)
		fallthrough
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	if rand.IntN(2) == 0 {
		ctx = awsretry.WithPartition(ctx, fmt.Sprint("partition ", call%8))
	}
	start := time.Now()
	c.send(ctx, client, c.request(ctx, call))
	over, slowest := time.Since(start)-wait, &c.slowest
	if endless {
		slowest = &c.longest
	} else if over > chaosGrace {
		c.late.Add(1)
	}
	for most := slowest.Load(); int64(over) > most && !slowest.CompareAndSwap(most, int64(over)); {
		most = slowest.Load()
	}
	c.calls.Add(1)
}

// send sends a request and classifies how the call ends.
func (c *chaosTally) send(ctx context.Context, client *http.Client, req *http.Request) {
	resp, err := client.Do(req)
	if err != nil {
		if resp != nil {
			c.strange.Add(1)
		}
		switch {
		case errors.Is(err, awsretry.ErrRateLimited):
			c.held.Add(1)
			pause(ctx, 5*time.Millisecond)
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			c.gaveUp.Add(1)
		default:
			c.failed.Add(1)
		}
		return
	}
	defer resp.Body.Close()
	c.statuses[resp.StatusCode/100].Add(1)
	if rand.IntN(20) == 0 {
		c.unread.Add(1)
		return
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		c.cut.Add(1)
	case chaosSumOf(body) == resp.Header.Get(chaosSum):
		c.whole.Add(1)
	default:
		c.corrupt.Add(1)
	}
}

// checkCounts compares what the server and Observe counted with what is
// allowed. It returns the most requests of a call that net/http itself may
// repeat, and of any other.
func (c *chaosTally) checkCounts(t *testing.T, server *chaosServer, calls int) (mostGet, most int) {
	t.Helper()
	for call := range min(calls, chaosMaxCalls) {
		sent, observed := int(server.sent[call].Load()), int(c.observed[call].Load())
		if c.gets[call].Load() {
			mostGet = max(mostGet, sent)
		} else {
			most = max(most, sent)
			if sent > chaosAttempts || observed > 0 && sent > observed {
				t.Errorf("call %d was sent %d times; %d attempts were observed, %d are allowed",
					call, sent, observed, chaosAttempts)
			}
		}
		if observed > chaosAttempts {
			t.Errorf("call %d had %d attempts, %d are allowed", call, observed, chaosAttempts)
		}
	}
	return mostGet, most
}

// check fails if a call ended in a way that is not allowed, or if a way to end
// did not occur.
func (c *chaosTally) check(t *testing.T, server *chaosServer) {
	t.Helper()
	if n := c.corrupt.Load(); n > 0 {
		t.Errorf("%d whole responses are not what was sent", n)
	}
	if n := server.corrupt.Load(); n > 0 {
		t.Errorf("%d whole requests are not what was sent", n)
	}
	if n := c.strange.Load(); n > 0 {
		t.Errorf("%d results break the contract: a response with an error, or a body closed twice", n)
	}
	if n := c.late.Load(); n > 0 {
		t.Errorf("%d calls ended more than %v after their deadline", n, chaosGrace)
	}
	for name, n := range map[string]*atomic.Int64{
		"retried": &c.retries, "whole": &c.whole, "cut off": &c.cut, "failed": &c.failed, "given up": &c.gaveUp,
	} {
		if n.Load() == 0 {
			t.Errorf("no call was %s, so not everything was tested", name)
		}
	}
}
