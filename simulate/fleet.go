package simulate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"sync"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A fleet is the clients of one run.
type fleet struct {
	scenario scenario.Scenario
	grid     grid
	record   *recorder
	clients  []*client
	template *http.Request // of every call
	ctx      context.Context
	cancel   func() // ends ctx, and all calls
	calls    sync.WaitGroup
	end      func() // the maker's; may be nil
	shares   bool   // the clients share their buckets
}

// A client is one process of the fleet.
type client struct {
	number    int
	transport http.RoundTripper
	begins    time.Duration // to call

	// Owners of instants. The closed-loop callers are first, first+1, …; then
	// come arrivals, at whose instants calls arrive, with the owners of those
	// calls between them.
	first    int
	arrivals series

	mu    sync.Mutex // guards the fields below; without contention in virtual time
	fresh int        // how many owners of arriving calls have ever had a call
	free  []int      // the owners of arriving calls whose call has ended
	left  int        // arriving calls that may still be started

	sampled sampled
}

// A call is one call of a caller, with all its attempts. Only attempts changes,
// and only the calling goroutine uses it.
type call struct {
	id       uint64 // of its random numbers
	client   int
	caller   int // of the client; -1: the call arrived
	owner    int
	start    time.Duration
	attempts int
}

// owners returns how many owners of instants s needs. The first is the run
// itself.
func owners(s scenario.Scenario) int {
	return 1 + s.Clients.Count*perClient(s)
}

func perClient(s scenario.Scenario) int {
	return s.Clients.Callers + arrivalOwners(s) + s.Clients.MaxInFlight
}

// arrivalOwners returns how many owners the arrivals of a client have. At the
// instants of one, one call arrives in a tick. A tick is a millisecond or less,
// and a quarter of the instants is enough for arrivals at random.
func arrivalOwners(s scenario.Scenario) int {
	const ticks = 1000 // a second
	rate := s.Clients.Rate / float64(s.Clients.Count)
	for _, e := range s.Events {
		if e.Kind == scenario.Herd {
			rate = max(rate, min(math.Ceil(e.Calls)/time.Duration(e.To-e.From).Seconds(), ticks*math.Ceil(e.Calls)/4))
		}
	}
	return 1 + int(min(4*rate/ticks, float64(s.Clients.MaxInFlight)))
}

const host = "service.test" // and the partition of every request

// newFleet makes the clients. It must be called in virtual time, if the run is.
func newFleet(s scenario.Scenario, m maker, g grid, base http.RoundTripper, record *recorder) *fleet {
	f := &fleet{scenario: s, grid: g, record: record, end: m.end, shares: m.shared != nil}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.template = &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: host, Path: "/"},
		Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
	}
	attemptTimeout := cmp.Or(m.attemptTimeout, time.Duration(s.Clients.AttemptTimeout))
	for i, begins := range s.Begins() {
		first := 1 + i*perClient(s)
		arrivals := first + s.Clients.Callers
		starting := arrivalOwners(s)
		below := link{base, attemptTimeout, g, random(s.Seed, uint64(i), forJitter), arrivals}
		f.clients = append(f.clients, &client{
			number:    i,
			transport: m.make(below),
			begins:    begins,
			first:     first,
			arrivals:  series{arrivals, 1 + s.Clients.MaxInFlight/starting, starting},
			left:      s.Clients.MaxInFlight,
		})
	}
	return f
}

// start lets the clients begin.
func (f *fleet) start() {
	for _, c := range f.clients {
		for i := range f.scenario.Clients.Callers {
			f.calls.Go(func() { f.closedLoop(c, i) })
		}
		f.calls.Go(func() { f.openLoop(c) })
	}
}

// stop ends all that start began, and waits for it.
func (f *fleet) stop() {
	f.cancel()
	f.calls.Wait()
	if f.end != nil {
		f.end()
	}
}

// closedLoop is a caller that makes one call after the other.
func (f *fleet) closedLoop(c *client, caller int) {
	think := float64(f.scenario.Clients.Think)
	network := time.Duration(f.scenario.Service.Network)
	owner := c.first + caller
	seed := random(f.scenario.Seed, uint64(owner))
	at := c.begins + exponential(random(seed, forStart), think)
	for n := uint64(0); ; n++ {
		if at = f.grid.near(owner, at); at < c.begins {
			at = f.grid.next(owner, c.begins)
		}
		if at >= time.Duration(f.scenario.Duration) {
			return
		}
		f.grid.sleepUntil(at)
		if f.ctx.Err() != nil {
			return
		}
		f.call(c, call{id: random(seed, n), client: c.number, caller: caller, owner: owner, start: at})
		at = max(f.grid.now()+1, at+network) // a call that fails unsent takes no time: its caller must not spin
		at += exponential(random(seed, n, forThinking), think)
	}
}

// call makes one call, which starts now.
func (f *fleet) call(c *client, of call) {
	f.record.started(of.start, c.number)
	ctx := context.WithValue(f.ctx, callKey{}, &of)
	if patience := time.Duration(f.scenario.Clients.Timeout); patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, f.grid.start.Add(f.grid.deadline(of.owner, of.start+patience)))
		defer cancel()
	}
	if f.shares { // the first in line for a send token wakes the member
		f.grid.settle()
	}
	c.sampled.begun.Add(1)
	defer c.sampled.ended.Add(1)
	resp, err := c.transport.RoundTrip(f.template.WithContext(ctx))
	good := err == nil && resp.StatusCode < 400
	if good && resp.Body != http.NoBody {
		_, err := io.Copy(io.Discard, resp.Body)
		good = err == nil
	}
	if err == nil {
		resp.Body.Close()
	}
	f.record.ended(of, f.grid.now(), good)
}

// A callKey is the context key of a *call.
type callKey struct{}

// callOf returns the call that a request is part of.
func callOf(req *http.Request) (*call, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		return nil, errContext
	}
	return c, nil
}

var errContext = errors.New("simulate: the request's context is not that of a call; a RoundTripper must pass it on")
