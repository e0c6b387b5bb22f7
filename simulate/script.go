package simulate

import (
	"maps"
	"math"
	"slices"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// A segment is a part of the run in which the service does not change.
type segment struct {
	from     time.Duration
	how      string  // of an outage; "": there is none
	capacity float64 // requests per second
	share    float64 // of errors
	factor   float64 // of the latency
	latency  float64 // its mean without the factor, in nanoseconds
	throttle *scenario.Throttle
	// throttled is the share that the throttle refuses at random.
	throttled float64

	worked float64 // requests that a queue that is never empty passes from the run's start to from
}

// A script is the segments of a run in order. The first begins at 0, the last does
// not end.
type script []segment

// newScript returns the script of s, which must be valid and have its defaults.
func newScript(s scenario.Scenario) script {
	starts := map[time.Duration]bool{0: true}
	for _, e := range s.Events {
		starts[time.Duration(e.From)] = true
		starts[time.Duration(e.To)] = true
	}
	for _, from := range s.OverTime.Starts(s.Duration) {
		starts[from] = true
	}
	var all script
	for _, from := range slices.Sorted(maps.Keys(starts)) {
		g := segmentAt(s, from)
		if n := len(all); n > 0 {
			g.worked = all[n-1].workedAt(from)
		}
		all = append(all, g)
	}
	return all
}

func segmentAt(s scenario.Scenario, from time.Duration) segment {
	g := segment{from: from, capacity: s.Service.Capacity, factor: 1, latency: s.Service.Latency.Mean()}
	g.refuse(s.Service.Throttle)
	g.change(s.OverTime)
	for _, e := range s.Events {
		if from < time.Duration(e.From) || from >= time.Duration(e.To) && e.To < s.Duration {
			continue
		}
		switch e.Kind {
		case scenario.Outage:
			g.how = e.How
		case scenario.CapacityStep:
			g.capacity = e.Capacity
		case scenario.Errors:
			g.share = e.Share
		case scenario.Throttling:
			g.refuse(e.Throttle)
		case scenario.SlowLatency:
			g.factor = e.Factor
		}
	}
	return g
}

// refuse sets the throttle.
func (g *segment) refuse(t *scenario.Throttle) {
	if g.throttle = t; t != nil {
		g.throttled = t.Share
	}
}

// change sets what the scenario changes over time.
func (g *segment) change(o *scenario.OverTime) {
	if o == nil {
		return
	}
	step := int(g.from / time.Duration(o.Every))
	for _, of := range []struct {
		list  []float64
		value *float64
	}{{o.Throttled, &g.throttled}, {o.Errors, &g.share}, {o.Latency, &g.factor}} {
		if step < len(of.list) {
			*of.value = of.list[step]
		}
	}
}

// workedAt is like worked, up to t in the segment.
func (g segment) workedAt(t time.Duration) float64 {
	if g.how != "" {
		return g.worked
	}
	return g.worked + g.capacity*(t-g.from).Seconds()
}

// passes returns the instant, in segment i or later, at which the queue has passed
// worked requests, or never.
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

// serves returns how many requests per second the service can serve
// successfully.
func (g segment) serves() float64 {
	if g.how != "" {
		return 0
	}
	can := g.capacity
	if t := g.throttle; t != nil && !t.PerClient {
		if t.Rate > 0 {
			can = min(can, t.Rate)
		}
		if took := g.latency * g.factor; t.InFlight > 0 && took > 0 { // Little's law
			can = min(can, float64(t.InFlight)*1e9/took)
		}
	}
	return can * (1 - g.share)
}

// segmentAt returns the segment that contains t.
func (s script) segmentAt(t time.Duration) segment {
	g := s[0]
	for _, next := range s[1:] {
		if next.from <= t {
			g = next
		}
	}
	return g
}

// ServesOverTime returns how many requests per second the service can serve
// successfully. The first level is from the start of the run, the last one lasts
// to its end. The scenario must be valid.
func ServesOverTime(s scenario.Scenario) []scenario.Level {
	var levels []scenario.Level
	for _, g := range newScript(s.WithDefaults()) {
		if g.from < time.Duration(s.Duration) {
			levels = append(levels, scenario.Level{From: g.from, Value: g.serves()})
		}
	}
	return levels
}

// Most returns the highest of the levels.
func Most(levels []scenario.Level) float64 {
	most := 0.0
	for _, level := range levels {
		most = max(most, level.Value)
	}
	return most
}

// Serves returns how many requests the service can serve successfully between
// two instants of the run. The scenario must be valid.
func Serves(s scenario.Scenario, from, to scenario.Duration) float64 {
	sum := 0.0
	levels := ServesOverTime(s)
	for i, level := range levels {
		begin, end := max(time.Duration(from), level.From), time.Duration(to)
		if i+1 < len(levels) {
			end = min(end, levels[i+1].From)
		}
		sum += level.Value * max(end-begin, 0).Seconds()
	}
	return sum
}
