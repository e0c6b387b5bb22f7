package simulate

import (
	"math"
	"sort"
	"time"
)

// A segment is a part of the run in which nothing about the service changes.
type segment struct {
	from     time.Duration
	how      string  // of an outage; "": there is none
	capacity float64 // requests a second
	share    float64 // of errors
	factor   float64 // of the latency
	throttle *Throttle

	worked float64 // requests that the queue can pass from the run's start to from, where it is never empty
}

// A script is the segments of a run, in their order; the first begins at 0, the last does not end.
type script []segment

// newScript lays out the events of s, which must be valid and have its defaults.
func newScript(s Scenario) script {
	starts := map[time.Duration]bool{0: true}
	for _, e := range s.Events {
		starts[time.Duration(e.From)] = true
		starts[time.Duration(e.To)] = true
	}
	var all script
	for from := range starts {
		all = append(all, segmentAt(s, from))
	}
	sort.Slice(all, func(i, j int) bool { return all[i].from < all[j].from })
	for i := 1; i < len(all); i++ {
		all[i].worked = all[i-1].workedAt(all[i].from)
	}
	return all
}

func segmentAt(s Scenario, from time.Duration) segment {
	g := segment{from: from, capacity: s.Service.Capacity, factor: 1, throttle: s.Service.Throttle}
	for _, e := range s.Events {
		if from < time.Duration(e.From) || from >= time.Duration(e.To) {
			continue
		}
		switch e.Kind {
		case Outage:
			g.how = e.How
		case CapacityStep:
			g.capacity = e.Capacity
		case Errors:
			g.share = e.Share
		case Throttling:
			g.throttle = e.Throttle
		case SlowLatency:
			g.factor = e.Factor
		}
	}
	return g
}

// workedAt is worked, up to t in the segment.
func (g segment) workedAt(t time.Duration) float64 {
	if g.how != "" {
		return g.worked
	}
	return g.worked + g.capacity*(t-g.from).Seconds()
}

// passes returns when the queue has passed so many requests, looking from segment i on; never where it does not.
func (s script) passes(i int, worked float64) time.Duration {
	for ; i < len(s); i++ {
		last := i == len(s)-1
		if !last && s[i+1].worked < worked {
			continue
		}
		if s[i].how != "" {
			return never
		}
		seconds := (worked - s[i].worked) / s[i].capacity
		return s[i].from + span(math.Ceil(seconds*1e9))
	}
	return never
}

// outageAfter returns the first outage that begins after segment i.
func (s script) outageAfter(i int) (from time.Duration, how string) {
	for _, g := range s[i+1:] {
		if g.how != "" {
			return g.from, g.how
		}
	}
	return never, ""
}
