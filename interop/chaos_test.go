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
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

const (
	chaosWorkers  = 64
	chaosAttempts = 4
	chaosPatience = time.Second      // the longest deadline of a call, and about how long a proxy lives
	chaosGrace    = 10 * time.Second // for a machine that is busy with other things
	chaosHeap     = 96 << 20         // bytes that the heap may grow meanwhile
)

// A chaosTally is what came out.
type chaosTally struct {
	calls, whole, cut, unread, failed, held, gaveUp atomic.Int64 // ends of calls
	corrupt                                         atomic.Int64 // answers that came to their end and were not what was sent
	strange                                         atomic.Int64 // results that the contract does not allow
	late                                            atomic.Int64
	slowest                                         atomic.Int64 // nanoseconds beyond the deadline or the cancelling
	longest                                         atomic.Int64 // nanoseconds of a call without either
	attempts, retries                               atomic.Int64 // as the observers saw them
	bodies, bodiesClosed                            atomic.Int64 // request bodies
	statuses                                        [6]atomic.Int64
	gets                                            []atomic.Bool  // calls that net/http may send again by itself
	observed                                        []atomic.Int32 // attempts of each call; 0 where nobody observes
}

func (t *chaosTally) observe(a awsretry.Attempt) {
	t.attempts.Add(1)
	if a.Number > 1 {
		t.retries.Add(1)
	}
	if call, err := strconv.Atoi(a.Request.Header.Get("X-Call")); err == nil {
		t.observed[call].Add(1)
	}
}

// A chaosBody counts its closing.
type chaosBody struct {
	io.Reader
	tally  *chaosTally
	closed atomic.Bool
}

func (t *chaosTally) body(r io.Reader) *chaosBody {
	t.bodies.Add(1)
	return &chaosBody{Reader: r, tally: t}
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

// request makes a call's request: no body, one with GetBody, one that is read in place, and streams with and without a length.
func (t *chaosTally) request(ctx context.Context, call int) *http.Request {
	data := chaosBytes(call, rand.IntN(chaosMaxBody))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://chaos.test/", nil)
	if err != nil {
		panic(err)
	}
	switch kind := rand.IntN(5); kind {
	case 0:
		data, req.Method = nil, http.MethodGet
		t.gets[call].Store(true)
	case 1:
		req.GetBody = func() (io.ReadCloser, error) { return t.body(bytes.NewReader(data)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(data))
	case 2:
		reader := bytes.NewReader(data)
		req.Body = chaosFile{reader, t.body(reader)}
		req.ContentLength = int64(len(data))
	default:
		req.Body = t.body(bytes.NewReader(data))
		if req.ContentLength = -1; kind == 3 {
			req.ContentLength = int64(len(data))
		}
	}
	if req.Body != nil && req.ContentLength == 0 {
		req.ContentLength = -1 // net/http takes 0 beside a body for unknown too
	}
	req.Header.Set("X-Call", strconv.Itoa(call))
	req.Header.Set(chaosSum, chaosSumOf(data))
	return req
}

// call makes one call and judges how it ended.
func (t *chaosTally) call(client *http.Client, call int) {
	ctx, wait, endless := context.Background(), chaosPatience, false
	switch dice := rand.IntN(10); {
	case dice < 3:
		// No context that ends takes away what a leak leaves behind. An attempt that hangs ends with its proxy.
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
	t.end(ctx, client, t.request(ctx, call))
	over, slowest := time.Since(start)-wait, &t.slowest
	if endless {
		slowest = &t.longest
	} else if over > chaosGrace {
		t.late.Add(1)
	}
	for most := slowest.Load(); int64(over) > most && !slowest.CompareAndSwap(most, int64(over)); {
		most = slowest.Load()
	}
	t.calls.Add(1)
}

func (t *chaosTally) end(ctx context.Context, client *http.Client, req *http.Request) {
	resp, err := client.Do(req)
	if err != nil {
		if resp != nil {
			t.strange.Add(1)
		}
		switch {
		case errors.Is(err, awsretry.ErrRateLimited):
			t.held.Add(1)
			time.Sleep(5 * time.Millisecond)
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			t.gaveUp.Add(1)
		default:
			t.failed.Add(1)
		}
		return
	}
	defer resp.Body.Close()
	t.statuses[resp.StatusCode/100].Add(1)
	if rand.IntN(20) == 0 {
		t.unread.Add(1)
		return
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		t.cut.Add(1)
	case chaosSumOf(body) == resp.Header.Get(chaosSum):
		t.whole.Add(1)
	default:
		t.corrupt.Add(1)
	}
}

// TestChaos has 64 goroutines make requests for as long as -chaos says, through a toxiproxy whose toxics change all the time, to a server
// that fails in every way.
func TestChaos(t *testing.T) {
	proxies := newToxicServer(t)
	tally := &chaosTally{gets: make([]atomic.Bool, chaosMaxCalls), observed: make([]atomic.Int32, chaosMaxCalls)}
	before := takeStock()
	server := startChaosServer()
	network := new(chaosNet)
	addr := server.Listener.Addr().String()
	network.addr.Store(&addr)
	base := &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: chaosWorkers}
	backoff := awsretry.Exponential{Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	quota := awsretry.QuotaConfig{RefillPerSecond: 300} // else an outage of ten seconds is the end of retries
	transports := []*awsretry.Transport{
		{Base: base, MaxAttempts: chaosAttempts, Backoff: backoff, Quota: quota},
		{Base: base, MaxAttempts: chaosAttempts, Backoff: backoff, Quota: quota, AttemptTimeout: 300 * time.Millisecond,
			SDKHeaders: true, MaxPartitions: 4, MaxBodyBuffer: chaosMaxBody / 2, Observe: tally.observe},
		{Base: base, MaxAttempts: chaosAttempts, Backoff: backoff, Quota: quota, AttemptTimeout: 300 * time.Millisecond,
			Mode: awsretry.Adaptive, Observe: tally.observe, Prepare: func(req *http.Request, n int) error {
				req.Header.Set("X-Attempt", strconv.Itoa(n))
				return nil
			}},
		{Base: base, MaxAttempts: chaosAttempts, Backoff: backoff, Mode: awsretry.Adaptive, Revision: awsretry.Revision2026,
			RateLimit: awsretry.RateLimitConfig{FailFast: true}, Observe: tally.observe},
	}

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
	sets := network.rotate(ctx, t, proxies, addr)
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(chaosAttempts*chaosPatience + 3*chaosGrace):
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Fatalf("requests do not end:\n%s", &stacks)
	}
	elapsed := time.Since(start)

	// What is left over, once what is idle is closed.
	for _, transport := range transports {
		transport.CloseIdleConnections()
	}
	settle(func() bool { return network.open.Load() == 0 && tally.bodies.Load() == tally.bodiesClosed.Load() })
	if n := network.open.Load(); n != 0 {
		t.Errorf("%d of %d connections are still open", n, network.opened.Load())
	}
	if made, closed := tally.bodies.Load(), tally.bodiesClosed.Load(); made != closed {
		t.Errorf("of %d request bodies %d were closed", made, closed)
	}
	settle(func() bool { return server.conns.Load() == 0 })
	if n := server.conns.Load(); n != 0 {
		t.Errorf("the server has %d connections still open", n)
	}
	server.Close()
	settle(func() bool { s := takeStock(); return s.goroutines <= before.goroutines && s.files <= before.files })
	after := takeStock()
	if after.goroutines > before.goroutines || after.files > before.files {
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("%d goroutines and %d open files were there before, %d and %d afterwards:\n%s",
			before.goroutines, before.files, after.goroutines, after.files, &stacks)
	}
	high := <-peak
	if high > before.heap+chaosHeap {
		t.Errorf("the heap grew from %d to %d KiB, by more than %d", before.heap>>10, high>>10, chaosHeap>>10)
	}
	if after.heap > before.heap+(8<<20)+uint64(4*chaosMaxCalls) { // server.sent was made in between
		t.Errorf("the heap held %d KiB before and %d afterwards", before.heap>>10, after.heap>>10)
	}
	sent, most := tally.checkCounts(t, server, int(next.Load()))
	tally.check(t, server)
	t.Logf("%v, %d goroutines: %d calls, %d requests reached the server, %d for a call that net/http repeats by itself too, else at most %d; "+
		"%d connections, %d sets of toxics", elapsed.Round(time.Millisecond), chaosWorkers, tally.calls.Load(),
		server.requests.Load(), sent, most, network.opened.Load(), sets)
	t.Logf("ends: %d whole, %d cut off and seen as such, %d not read, %d transport errors, %d held back by the rate limiter, %d given up by the caller; statuses 2xx %d, 4xx %d, 5xx %d; "+
		"observed %d attempts, %d retries; slowest %v beyond its deadline, %v without one", tally.whole.Load(), tally.cut.Load(), tally.unread.Load(),
		tally.failed.Load(), tally.held.Load(), tally.gaveUp.Load(), tally.statuses[2].Load(), tally.statuses[4].Load(), tally.statuses[5].Load(),
		tally.attempts.Load(), tally.retries.Load(), time.Duration(tally.slowest.Load()).Round(time.Millisecond),
		time.Duration(tally.longest.Load()).Round(time.Millisecond))
	t.Logf("goroutines %d -> %d, open files %d -> %d, heap %d KiB -> at most %d -> %d; %d request bodies, each closed once",
		before.goroutines, after.goroutines, before.files, after.files, before.heap>>10, high>>10, after.heap>>10, tally.bodies.Load())
}

// checkCounts compares what the server and the observers counted with what is allowed. It returns the most requests of one call
// that net/http itself may repeat, and of any other.
func (t *chaosTally) checkCounts(tt *testing.T, server *chaosServer, calls int) (mostGet, most int) {
	tt.Helper()
	for call := range min(calls, chaosMaxCalls) {
		sent, observed := int(server.sent[call].Load()), int(t.observed[call].Load())
		if t.gets[call].Load() {
			mostGet = max(mostGet, sent)
		} else {
			most = max(most, sent)
			if sent > chaosAttempts || observed > 0 && sent > observed {
				tt.Errorf("call %d was sent %d times, where %d attempts were observed and %d are allowed", call, sent, observed, chaosAttempts)
			}
		}
		if observed > chaosAttempts {
			tt.Errorf("call %d had %d attempts, where %d are allowed", call, observed, chaosAttempts)
		}
	}
	return mostGet, most
}

// check judges the ends of the calls.
func (t *chaosTally) check(tt *testing.T, server *chaosServer) {
	tt.Helper()
	if n := t.corrupt.Load(); n > 0 {
		tt.Errorf("%d answers came to their end and were not what was sent", n)
	}
	if n := server.corrupt.Load(); n > 0 {
		tt.Errorf("%d requests came to their end and were not what was sent", n)
	}
	if n := t.strange.Load(); n > 0 {
		tt.Errorf("%d results broke the contract: an answer beside an error, or a body closed twice", n)
	}
	if n := t.late.Load(); n > 0 {
		tt.Errorf("%d calls ended more than %v after their deadline", n, chaosGrace)
	}
	if t.retries.Load() == 0 || t.whole.Load() == 0 || t.cut.Load() == 0 || t.failed.Load() == 0 || t.gaveUp.Load() == 0 {
		tt.Error("some way for a call to end did not happen, so not everything was tested")
	}
}

// A stock is what a process holds.
type stock struct {
	goroutines, files int
	heap              uint64 // bytes that are reachable
}

func takeStock() stock {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd") // none where there is no /proc: then there is nothing to compare
	return stock{runtime.NumGoroutine(), len(files), m.HeapAlloc}
}

// watchHeap returns the most that the heap held until ctx ended, garbage included.
func watchHeap(ctx context.Context) (most uint64) {
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapAlloc)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return most
		}
	}
}

// settle waits until done reports true, for ten seconds at most.
func settle(done func() bool) {
	for range 500 {
		if done() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
