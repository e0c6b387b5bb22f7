package main

import (
	"fmt"
	"slices"
	"time"

	"example.com/awsretry/bench/internal/output"
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

var columns = []output.Column[figures]{
	{Name: "round trips a request", Of: func(f figures) float64 { return f.roundTrips }, Show: output.Number("%.1f")},
	{Name: "scripts/s", Of: func(f figures) float64 { return f.scripts }, Show: output.Number("%.0f")},
	{Name: "goodput", Of: func(f figures) float64 { return f.goodput }, Show: output.Percent},
	{Name: "throttled", Of: func(f figures) float64 { return f.throttled }, Show: output.Percent},
	{Name: "most in a second, of the limit", Of: func(f figures) float64 { return f.most }, Show: output.Percent},
	{Name: "failed", Of: func(f figures) float64 { return f.failed }, Show: output.Number("%.0f")},
	{Name: "added p50", Of: func(f figures) float64 { return f.p50 }, Show: duration},
	{Name: "p99", Of: func(f figures) float64 { return f.p99 }, Show: duration},
	{Name: "longest", Of: func(f figures) float64 { return f.longest }, Show: duration},
}

// duration has three digits at most, or microseconds.
func duration(seconds float64) string {
	switch {
	case seconds >= 1:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds >= 0.01:
		return fmt.Sprintf("%.0f ms", seconds*1e3)
	case seconds >= 0.001:
		return fmt.Sprintf("%.1f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.2f ms", seconds*1e3)
}

// figures returns what happened in a time.
func (w *world) figures(from, to time.Time) figures {
	sent := w.limited.between(from, to)
	f := figures{requests: len(sent) + len(w.free.between(from, to))}
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
	f.goodput = float64(accepted) / (w.limited.rate * to.Sub(from).Seconds())
	f.throttled = float64(len(sent)-accepted) / float64(max(len(sent), 1))

	w.mu.Lock()
	defer w.mu.Unlock()
	var added []float64
	for _, c := range w.calls {
		switch {
		case c.ended.Before(from) || !c.ended.Before(to):
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
