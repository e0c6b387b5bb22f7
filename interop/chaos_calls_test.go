package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry"
)

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
