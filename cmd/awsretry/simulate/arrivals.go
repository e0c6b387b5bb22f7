package simulate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"example.com/awsretry/cmd/awsretry/simulate/scenario"
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

// openLoop starts a call whenever one arrives, whether or not earlier ones have
// ended.
func (f *fleet) openLoop(ctx context.Context, c *client, next func() time.Duration) {
	seed := random(f.scenario.Seed, uint64(c.arrivals.first))
	var last time.Duration = -1
	for n := uint64(0); ; n++ {
		at := next()
		if at == never {
			return
		}
		at = f.grid.nextOf(c.arrivals, max(at, last+1))
		if at >= f.record.end {
			return
		}
		f.grid.sleepUntil(at)
		if ctx.Err() != nil {
			return
		}
		last = at
		owner, ok := c.take()
		arrived := call{id: random(seed, n), client: c.number, caller: -1, owner: owner, start: at}
		if !ok {
			f.record.started(at, c.number)
			f.record.ended(arrived, at, false)
			continue
		}
		f.calls.Go(func() {
			f.call(ctx, c, arrived)
			c.put(owner)
		})
	}
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
