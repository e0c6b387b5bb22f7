package simulate

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// arrivals returns a function that yields the instants at which calls arrive at
// c, in their order, and then never. It returns nil if no call arrives.
func (f *fleet) arrivals(c *client) func() time.Duration {
	var gathering []time.Duration // of the herds
	seed := random(f.scenario.Seed, uint64(c.arrivals.first))
	for i, e := range f.scenario.Events {
		if e.Kind != scenario.Herd {
			continue
		}
		for n := range e.HerdCalls(c.number) {
			share := unit(random(seed, uint64(i), uint64(n), forHerd))
			at := time.Duration(e.From) + time.Duration(share*float64(e.To-e.From))
			if at >= c.begins {
				gathering = append(gathering, at)
			}
		}
	}
	slices.SortFunc(gathering, cmp.Compare[time.Duration])
	arriving := f.scenario.Clients.Rate > 0
	if !arriving && gathering == nil {
		return nil
	}
	n, pace := uint64(0), paceOf(f.scenario)
	after := func(t time.Duration) time.Duration {
		n++
		return pace.next(t, random(seed, n, forArrival))
	}
	single := never
	if arriving {
		single = after(c.begins)
	}
	return func() time.Duration {
		if len(gathering) > 0 && gathering[0] <= single {
			at := gathering[0]
			gathering = gathering[1:]
			return at
		}
		at := single
		if at != never {
			single = after(at)
		}
		return at
	}
}

// An arriving client is one at which calls arrive.
type arriving struct {
	client *client
	next   func() time.Duration // arrivals
	seed   uint64
	n      uint64        // of the call
	at     time.Duration // of the call
}

// advance goes on to the client's next call. It reports false if there is none.
func (a *arriving) advance(f *fleet, last time.Duration) bool {
	at := a.next()
	if at == never {
		return false
	}
	a.at = f.grid.nextOf(a.client.arrivals, max(at, last+1))
	return a.at < time.Duration(f.scenario.Duration)
}

// allArrivals returns the clients at which calls arrive.
func (f *fleet) allArrivals() arrivalQueue {
	var all arrivalQueue
	for _, c := range f.clients {
		next := f.arrivals(c)
		if next == nil {
			continue
		}
		a := &arriving{client: c, next: next, seed: random(f.scenario.Seed, uint64(c.arrivals.first))}
		if a.advance(f, -1) {
			all = append(all, a)
		}
	}
	heap.Init(&all)
	return all
}

// openLoop starts a call whenever one arrives, whether or not earlier ones have
// ended. It is one goroutine for all clients, because each would wait for a
// timer of its own most of the time.
func (f *fleet) openLoop(all arrivalQueue) {
	for len(all) > 0 {
		a := all[0]
		f.grid.sleepUntil(a.at)
		if f.ending.over() {
			return
		}
		f.arrive(a)
		a.n++
		if a.advance(f, a.at) {
			heap.Fix(&all, 0)
		} else {
			heap.Pop(&all)
		}
	}
}

// arrive starts the call that arrives now, or fails it if too many are under
// way.
func (f *fleet) arrive(a *arriving) {
	c := a.client
	owner, ok := c.take()
	arrived := call{id: random(a.seed, a.n), client: c.number, caller: -1, owner: owner, start: a.at}
	if !ok {
		f.record.started(a.at, c.number)
		f.record.ended(arrived, a.at, false)
		return
	}
	f.workers.do(task{f, c, arrived})
}

// An arrivalQueue is a heap of clients by when their next calls arrive. It
// implements heap.Interface.
type arrivalQueue []*arriving

func (q arrivalQueue) Len() int           { return len(q) }
func (q arrivalQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q arrivalQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *arrivalQueue) Push(x any)        { *q = append(*q, x.(*arriving)) }

func (q *arrivalQueue) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	*q = (*q)[:last]
	return a
}

// take returns an owner for a call that arrives, or false if too many calls are
// under way.
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
	return c.arriving(c.fresh - 1), true
}

// arriving returns the n-th owner of arriving calls.
func (c *client) arriving(n int) int {
	a := c.arrivals
	if between := a.step - 1; n < between*a.count {
		return a.first + n/between*a.step + 1 + n%between
	}
	return a.first + a.count + n // after the last arrivals
}

// put returns an owner that take gave out.
func (c *client) put(owner int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
	c.free = append(c.free, owner)
}
