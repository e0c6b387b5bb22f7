package clients

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
	"example.com/awsretry/interop/internal/kit"
)

const (
	chaosWorkers  = 64
	chaosAttempts = 4
	chaosPatience = time.Second      // the longest deadline of a call, and about how long a proxy lives
	chaosGrace    = 10 * time.Second // after a deadline, on a machine that is busy with other things
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
	duration := 4 * time.Second
	if text := os.Getenv("CHAOS"); text != "" {
		duration = kit.Must[time.Duration](t)(time.ParseDuration(text))
	}
	tally := newChaosTally()
	before := heap()
	server := startChaosServer()
	network := new(chaosNet)
	addr := server.Listener.Addr().String()
	network.addr.Store(&addr)
	transports := chaosTransports(
		&http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: chaosWorkers}, tally)

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
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
	network.rotate(t, ctx, addr)
	workers.Wait()
	for _, tr := range transports {
		tr.CloseIdleConnections()
	}
	if !kit.Eventually(func() bool { return server.conns.Load() == 0 }) {
		t.Errorf("%d connections are open", server.conns.Load())
	}
	if !kit.Eventually(func() bool { return tally.of("body") == tally.of("body closed") }) {
		t.Errorf("of %d request bodies %d are closed", tally.of("body"), tally.of("body closed"))
	}
	server.Close()
	kit.WantNoGoroutines(t)
	// toxiproxy keeps about 5 KiB a request, of connections that it cuts. A body has
	// 48. chaosServer.sent is new.
	if grown := heap() - before; grown > 4*chaosMaxCalls+server.requests.Load()*chaosMaxBody/4 {
		t.Errorf("the heap grew by %d KiB in %d requests", grown>>10, server.requests.Load())
	}
	tally.check(t, server, int(next.Load()))
	t.Logf("%d requests: %v", server.requests.Load(), tally.counts)
}

// heap returns how many bytes are reachable.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A chaosTally counts what happened to the calls.
type chaosTally struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu

	gets     []atomic.Bool  // calls that net/http may repeat itself
	observed []atomic.Int32 // attempts of each call; 0 without Observe
}

func newChaosTally() *chaosTally {
	return &chaosTally{
		counts: make(map[string]int),
		gets:   make([]atomic.Bool, chaosMaxCalls), observed: make([]atomic.Int32, chaosMaxCalls),
	}
}

func (c *chaosTally) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *chaosTally) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[what]
}

func (c *chaosTally) observe(a awsretry.Attempt) {
	if a.Number > 1 {
		c.count("retry")
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
	c.count("body")
	return &chaosBody{Reader: r, tally: c}
}

func (b *chaosBody) Close() error {
	if b.closed.Swap(true) {
		b.tally.count("body closed twice")
	}
	b.tally.count("body closed")
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
	data := kit.Random(call, rand.IntN(chaosMaxBody))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://chaos.test/", nil)
	if err != nil {
		panic(err)
	}
	req.ContentLength = int64(len(data))
	switch rand.IntN(5) {
	case 0:
		data, req.Method, req.ContentLength = nil, http.MethodGet, 0
		c.gets[call].Store(true)
	case 1:
		req.GetBody = func() (io.ReadCloser, error) { return c.body(bytes.NewReader(data)), nil }
		req.Body, _ = req.GetBody()
	case 2:
		reader := bytes.NewReader(data)
		req.Body = chaosFile{reader, c.body(reader)}
	case 3:
		req.Body = c.body(bytes.NewReader(data))
	default:
		req.Body, req.ContentLength = c.body(bytes.NewReader(data)), -1
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wait := chaosPatience
	switch dice := rand.IntN(10); {
	case dice < 3:
		// No end of a context cleans up what leaks. An attempt that hangs ends
		// with its proxy.
		wait = time.Hour
	case dice == 3:
		wait = rand.N(50 * time.Millisecond)
		defer time.AfterFunc(wait, cancel).Stop()
	case dice < 6:
		wait = rand.N(100 * time.Millisecond)
		fallthrough
	default:
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	if rand.IntN(2) == 0 {
		ctx = awsretry.WithPartition(ctx, fmt.Sprint("partition ", call%8))
	}
	start := time.Now()
	c.count(c.send(ctx, client, c.request(ctx, call)))
	if time.Since(start) > wait+chaosGrace {
		c.count("late")
	}
}

// send sends a request and says how the call ends.
func (c *chaosTally) send(ctx context.Context, client *http.Client, req *http.Request) string {
	resp, err := client.Do(req)
	switch {
	case err != nil && resp != nil:
		return "response and error"
	case errors.Is(err, awsretry.ErrRateLimited):
		kit.Pause(ctx, 5*time.Millisecond)
		return "held"
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "given up"
	case err != nil:
		return "failed"
	}
	defer resp.Body.Close()
	if rand.IntN(20) == 0 {
		return "unread"
	}
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "cut off"
	case chaosSumOf(body) != resp.Header.Get(chaosSum):
		return "corrupt"
	}
	return "whole"
}

// check fails if a call ended in a way that is not allowed, was sent too often,
// or if a way to end did not occur.
func (c *chaosTally) check(t *testing.T, server *chaosServer, calls int) {
	t.Helper()
	for _, never := range []string{"corrupt", "response and error", "body closed twice", "late"} {
		if n := c.of(never); n > 0 {
			t.Errorf("%d calls: %s", n, never)
		}
	}
	for _, always := range []string{"retry", "whole", "cut off", "failed", "given up"} {
		if c.of(always) == 0 {
			t.Errorf("no call: %s, so not everything was tested", always)
		}
	}
	if n := server.corrupt.Load(); n > 0 {
		t.Errorf("%d whole requests are not what was sent", n)
	}
	for call := range min(calls, chaosMaxCalls) {
		sent, observed := int(server.sent[call].Load()), int(c.observed[call].Load())
		if observed > chaosAttempts ||
			!c.gets[call].Load() && (sent > chaosAttempts || observed > 0 && sent > observed) {
			t.Errorf("call %d was sent %d times; %d attempts were observed, %d are allowed",
				call, sent, observed, chaosAttempts)
		}
	}
}
