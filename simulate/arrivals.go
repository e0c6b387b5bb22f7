package simulate

import (
	"math"
	"slices"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// openLoop starts a call whenever one arrives at c, whether or not earlier ones
// have ended.
func (f *fleet) openLoop(c *client) {
	seed := random(f.scenario.Seed, uint64(c.arrivals.first))
	herd, pace, drawn := f.herdArrivals(c, seed), paceOf(f.scenario), uint64(0)
	single := never
	draw := func(after time.Duration) {
		drawn++
		single = pace.next(after, random(seed, drawn, forArrival))
	}
	if f.scenario.Clients.Rate > 0 {
		draw(c.begins)
	}
	last := time.Duration(-1)
	for n := uint64(0); ; n++ {
		at := single
		switch {
		case len(herd) > 0 && herd[0] <= single:
			at, herd = herd[0], herd[1:]
		case single == never:
			return
		default:
			draw(at)
		}
		last = f.grid.nextOf(c.arrivals, max(at, last+1))
		if last >= time.Duration(f.scenario.Duration) {
			return
		}
		f.grid.sleepUntil(last)
		if f.ctx.Err() != nil {
			return
		}
		f.arrive(c, call{id: random(seed, n), client: c.number, caller: -1, start: last})
	}
}

// herdArrivals returns when the calls of the herds arrive at c, in order.
func (f *fleet) herdArrivals(c *client, seed uint64) (all []time.Duration) {
	for i, e := range f.scenario.Events {
		if e.Kind != scenario.Herd {
			continue
		}
		for n := range e.HerdCalls(c.number) {
			share := unit(random(seed, uint64(i), uint64(n), forHerd))
			at := time.Duration(e.From) + time.Duration(share*float64(e.To-e.From))
			if at >= c.begins {
				all = append(all, at)
			}
		}
	}
	slices.Sort(all)
	return all
}

// arrive starts the call that arrives now, or fails it if too many are under
// way.
func (f *fleet) arrive(c *client, arrived call) {
	owner, ok := c.take()
	if !ok {
		f.record.started(arrived.start, c.number)
		f.record.ended(arrived, arrived.start, false)
		return
	}
	arrived.owner = owner
	f.calls.Go(func() {
		f.call(c, arrived)
		c.put(owner)
	})
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

// A pace is the rate of the calls of one client over time, per second.
type pace struct {
	every time.Duration // 0: the first rate lasts
	rates []float64
}

// paceOf returns the rate of each client.
func paceOf(s scenario.Scenario) pace {
	count := float64(s.Clients.Count)
	o := s.OverTime
	if o == nil || len(o.Rate) == 0 {
		return pace{rates: []float64{s.Clients.Rate / count}}
	}
	p := pace{every: time.Duration(o.Every)}
	for _, rate := range o.Rate {
		p.rates = append(p.rates, rate/count)
	}
	return p
}

// next returns when the next call arrives after t, or never. In a Poisson process,
// the expected number of calls until then is exponentially distributed with mean 1.
// x is the random number for it.
func (p pace) next(t time.Duration, x uint64) time.Duration {
	if p.every == 0 {
		return t + exponential(x, float64(time.Second)/p.rates[0])
	}
	expected := -math.Log1p(-unit(x))
	for step := int(t / p.every); step < len(p.rates); step++ {
		end := time.Duration(step+1) * p.every
		if within := p.rates[step] * (end - t).Seconds(); within < expected {
			expected -= within
			t = end
			continue
		}
		return t + span(expected/p.rates[step]*float64(time.Second))
	}
	return never
}
