package main

import (
	"slices"
	"time"
)

// figures are of one contender in one phase.
type figures struct {
	requests   int     // that came to both services
	roundTrips float64 // to the store that a request waited for
	scripts    float64 // per second; of the healthy store

	goodput   float64 // of what the limited service allows
	throttled float64 // of what it got
	most      float64 // that it got in a second, by its limit

	p50, p99, longest float64 // seconds that were added to a request to the other service
	failed            float64 // requests to both services that ended with an error
}

// figures returns what happened in a time.
func (w *world) figures(in window) figures {
	sent := w.limited.between(in.from, in.to)
	f := figures{requests: len(sent) + len(w.free.between(in.from, in.to))}
	accepted, first := 0, 0
	for i, x := range sent {
		if x.accepted {
			accepted++
		}
		for !sent[first].at.After(x.at.Add(-time.Second)) {
			first++
		}
		f.most = max(f.most, float64(i-first+1)/w.limited.rate)
	}
	f.goodput = float64(accepted) / (w.limited.rate * in.to.Sub(in.from).Seconds())
	f.throttled = float64(len(sent)-accepted) / float64(max(len(sent), 1))

	w.mu.Lock()
	defer w.mu.Unlock()
	var added []float64
	for _, c := range w.calls {
		switch {
		case c.ended.Before(in.from) || !c.ended.Before(in.to):
			continue
		case c.failed:
			f.failed++
		}
		if c.free {
			added = append(added, c.added.Seconds())
		}
	}
	if slices.Sort(added); len(added) > 0 {
		f.p50, f.p99, f.longest = added[len(added)/2], added[len(added)*99/100], added[len(added)-1]
	}
	return f
}
