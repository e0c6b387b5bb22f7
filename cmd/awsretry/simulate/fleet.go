package simulate

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"example.com/awsretry"
)

// A fleet is the clients of one run.
type fleet struct {
	scenario Scenario
	grid     grid
	record   *recorder
	clients  []*client
	template *http.Request // of every call
	calls    sync.WaitGroup
}

// A client is one process of the fleet.
type client struct {
	number    int
	transport http.RoundTripper

	// Owners of instants: the closed-loop callers are first, first+1, …; then comes the one who starts the calls that arrive;
	// then those calls, of which there may be inFlight at once.
	first, arrivals, arriving int

	mu    sync.Mutex // guards the fields below; never waited for, as callers come at instants of their own
	fresh int        // the first of the owners of arriving calls that never had a call
	free  []int      // those of them that have none any more
	left  int        // arriving calls that may still be started
}

// A call is one call of a caller, with all its attempts. Its fields but attempts do not change; attempts is the
// calling goroutine's.
type call struct {
	id       uint64 // what its random numbers are drawn for
	client   int
	owner    int
	start    time.Duration
	attempts int
}

type callKey struct{}

// A callContext is the context of a call.
type callContext struct {
	context.Context
	call call
}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

// owners is how many owners of instants s needs; the first is the run itself.
func owners(s Scenario) int {
	return 1 + s.Clients.Count*perClient(s)
}

func perClient(s Scenario) int { return s.Clients.Callers + 1 + s.Clients.MaxInFlight }

const host = "service.test" // and the partition of every request

// newFleet makes the clients. It must be called in the bubble.
func newFleet(s Scenario, m maker, g grid, base http.RoundTripper, record *recorder) *fleet {
	f := &fleet{scenario: s, grid: g, record: record}
	f.template = &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: host, Path: "/"},
		Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	for i := range s.Clients.Count {
		first := 1 + i*perClient(s)
		arrivals := first + s.Clients.Callers
		f.clients = append(f.clients, &client{
			number:    i,
			transport: m.make(base, time.Duration(s.Clients.AttemptTimeout), g, random(s.Seed, uint64(i), forJitter)),
			first:     first, arrivals: arrivals, arriving: arrivals + 1,
			fresh: arrivals + 1, left: s.Clients.MaxInFlight,
		})
	}
	return f
}

// start lets the clients begin. They go on until ctx ends.
func (f *fleet) start(ctx context.Context) {
	for _, c := range f.clients {
		for i := range f.scenario.Clients.Callers {
			f.calls.Go(func() { f.closedLoop(ctx, c, c.first+i) })
		}
		if next := f.arrivals(c); next != nil {
			f.calls.Go(func() { f.openLoop(ctx, c, next) })
		}
	}
}

// closedLoop is a caller that makes one call after the other.
func (f *fleet) closedLoop(ctx context.Context, c *client, owner int) {
	think := time.Duration(f.scenario.Clients.Think)
	seed := random(f.scenario.Seed, uint64(owner))
	at := exponential(random(seed, forStart), float64(think))
	for n := uint64(0); ; n++ {
		at = f.grid.next(owner, at)
		if at >= f.record.end {
			return
		}
		f.grid.sleepUntil(at)
		if ctx.Err() != nil {
			return
		}
		f.call(ctx, c, owner, random(seed, n), at)
		at = f.grid.now() + 1 + exponential(random(seed, n, forThinking), float64(think))
	}
}

// arrivals returns a function that yields the instants at which calls arrive at c, in their order, never in the end; nil where
// none arrive.
func (f *fleet) arrivals(c *client) func() time.Duration {
	var gathering []time.Duration // with the herds
	seed := random(f.scenario.Seed, uint64(c.arrivals))
	for i, e := range f.scenario.Events {
		if e.Kind != Herd {
			continue
		}
		for n := range e.Calls {
			share := unit(random(seed, uint64(i), uint64(n), forHerd))
			gathering = append(gathering, time.Duration(e.From)+time.Duration(share*float64(e.To-e.From)))
		}
	}
	slices.SortFunc(gathering, cmp.Compare[time.Duration])
	rate := f.scenario.Clients.Rate / float64(f.scenario.Clients.Count)
	if rate == 0 && gathering == nil {
		return nil
	}
	n := uint64(0)
	single := never
	step := func() time.Duration {
		n++
		return exponential(random(seed, n, forArrival), float64(time.Second)/rate)
	}
	if rate > 0 {
		single = step()
	}
	return func() time.Duration {
		if len(gathering) > 0 && gathering[0] <= single {
			at := gathering[0]
			gathering = gathering[1:]
			return at
		}
		at := single
		if at != never {
			single += step()
		}
		return at
	}
}

// openLoop starts a call whenever one arrives, whether or not those before it have ended.
func (f *fleet) openLoop(ctx context.Context, c *client, next func() time.Duration) {
	seed := random(f.scenario.Seed, uint64(c.arrivals))
	var last time.Duration = -1
	for n := uint64(0); ; n++ {
		at := next()
		if at == never {
			return
		}
		at = f.grid.next(c.arrivals, max(at, last+1))
		if at >= f.record.end {
			return
		}
		f.grid.sleepUntil(at)
		if ctx.Err() != nil {
			return
		}
		last = at
		owner, ok := c.take()
		if !ok {
			f.record.started(at, c.number)
			f.record.ended(at, at, c.number, false)
			continue
		}
		f.calls.Go(func() {
			f.call(ctx, c, owner, random(seed, n), at)
			c.put(owner)
		})
	}
}

// take returns an owner for a call that arrives, false where too many are under way.
func (c *client) take() (owner int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return 0, false
	}
	c.left--
	if n := len(c.free); n > 0 {
		owner = c.free[n-1]
		c.free = c.free[:n-1]
		return owner, true
	}
	c.fresh++
	return c.fresh - 1, true
}

func (c *client) put(owner int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
	c.free = append(c.free, owner)
}

// call makes one call, at the instant start, which is now.
func (f *fleet) call(ctx context.Context, c *client, owner int, id uint64, start time.Duration) {
	f.record.started(start, c.number)
	own := &callContext{ctx, call{id: id, client: c.number, owner: owner, start: start}}
	if patience := time.Duration(f.scenario.Clients.Timeout); patience > 0 {
		deadline, cancel := context.WithDeadline(ctx, f.grid.start.Add(f.grid.deadline(owner, start+patience)))
		defer cancel()
		own.Context = deadline
	}
	resp, err := c.transport.RoundTrip(f.template.WithContext(own))
	good := err == nil && resp.StatusCode < 400
	if err == nil {
		resp.Body.Close()
	}
	f.record.ended(start, f.grid.now(), c.number, good)
}

// sample writes down what the clients' buckets hold at the end of the slot before t.
func (f *fleet) sample(t time.Duration, m maker) {
	if m.capacity == 0 {
		return
	}
	s := &f.record.slots[(t-1)/slot]
	s.sampled = true
	var tokens, rate float64
	for _, c := range f.clients {
		state, ok := c.transport.(*awsretry.Transport).State(host)
		if !ok {
			tokens += float64(m.capacity) // not used yet, so full
			continue
		}
		tokens += float64(state.Tokens)
		if state.Limited {
			s.limited++
			rate += state.SendRate
		}
	}
	s.tokens = tokens / float64(len(f.clients))
	if s.limited > 0 {
		s.sendRate = rate / float64(s.limited)
	}
}
