package traffic

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/gonum/stat"

	"example.com/awsretry/simulate/scenario"
)

// leastNetwork is the shortest round trip that a scenario can have.
const leastNetwork = 100 * time.Microsecond

// latency fits how long the service takes, and how that changes.
func (f *fitting) latency(s *scenario.Scenario) {
	from, to := f.spans.within(f.window)
	for _, t := range f.spans.list[from:to] {
		add(&f.served, t.served)
	}
	if f.served == nil { // no attempt shows a latency
		f.served = newHistogram()
		recordTimes(f.served, leastNetwork.Microseconds(), 1)
	}
	f.changes(s, from, to)
	network := time.Duration(f.served.ValueAtQuantile(10)) * time.Microsecond
	from0 := ""
	switch {
	case f.throttles != nil:
		network = min(network, time.Duration(f.throttles.ValueAtQuantile(50))*time.Microsecond)
		from0 = "the responses that throttle, or the shortest ones"
	case f.failsAtOnce():
		network = time.Duration(f.failures.ValueAtQuantile(50)) * time.Microsecond
		from0 = "the responses that fail at once"
	default:
		network = min(network, time.Duration(f.served.Min())*time.Microsecond/2)
		from0 = "half of the shortest response: the log does not show it"
	}
	s.Service.Network = duration(max(network, leastNetwork))
	f.comment("service.network", "%s", from0)
	s.Service.Capacity, s.Service.Queue = scenario.MaxRate, scenario.MaxClients
	f.comment("service.capacity", "the log does not show it: as good as unlimited")
	s.Service.Latency = scenario.Latency{Distribution: "table", Table: f.table(time.Duration(s.Service.Network))}
	text := "quantiles of %d responses, without the network's time"
	if f.factor != nil {
		text += ", and as if they did not change over time"
	}
	if f.sum.timeouts > 0 {
		text += "; the end is that of attempts that timed out, which no one saw"
	}
	f.comment("service.latency", text, f.served.TotalCount())
}

// failsAtOnce reports whether the service does not work on what it fails.
func (f *fitting) failsAtOnce() bool {
	return f.failures != nil && f.failures.ValueAtQuantile(50) < f.served.ValueAtQuantile(10)
}

// latencyWindow returns the length of the part of the log whose latencies are
// fitted. In a long log, a histogram covers more than the window.
func (f *fitting) latencyWindow() time.Duration {
	from, to := f.spans.within(f.window)
	if from == to {
		return 0
	}
	start, end := f.spans.start(from), f.spans.start(to)
	if start.Before(f.begin) {
		start = f.begin
	}
	if end.After(f.last) {
		end = f.last
	}
	return end.Sub(start).Round(time.Second)
}

// shares are the points that every table of latencies has.
var shares = []float64{
	0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1,
}

// sharesOf returns the points of a table, closer together where the latency jumps,
// because there may be no latencies between two points.
func sharesOf(h *hdrhistogram.Histogram) []float64 {
	const jump, most = 0.3, 100
	least := 1 / float64(max(h.TotalCount(), 1000))
	at := func(share float64) float64 { return max(float64(h.ValueAtQuantile(100*share)), 1) }
	all := slices.Clone(shares)
	for i := 1; i < len(all) && len(all) < most; {
		low, high := all[i-1], all[i]
		if high-low <= least || at(high)-at(low) <= jump*max(at(low), at(0.5)) {
			i++
			continue
		}
		all = slices.Insert(all, i, (low+high)/2)
	}
	return all
}

// table returns the quantiles of the time that the service takes in addition to the
// network. Attempts that timed out count as longer than any other.
func (f *fitting) table(network time.Duration) []scenario.Quantile {
	inTime := 1.0
	if f.sum.timeouts > 0 {
		worked := float64(f.sum.sent - f.sum.throttled)
		inTime = max(1-float64(f.sum.timeouts)/worked, 0.001)
	}
	const longest = time.Hour // the longest latency of a scenario
	var table []scenario.Quantile
	last := time.Duration(0)
	for _, share := range sharesOf(f.served) {
		took := f.served.ValueAtQuantile(100 * share)
		if share == 0 {
			took = f.served.Min()
		}
		last = min(max(last, time.Duration(took)*time.Microsecond-network), longest)
		at := math.Round(share*inTime*1e6) / 1e6
		if len(table) > 0 && at <= table[len(table)-1].Share {
			continue
		}
		table = append(table, scenario.Quantile{Share: at, Within: duration(last)})
	}
	if inTime < 1 {
		timeout := time.Duration(f.timeouts.ValueAtQuantile(50)) * time.Microsecond
		after := func(d time.Duration) scenario.Duration { return duration(max(min(d, longest), last)) }
		if at := math.Round((inTime+1e-6)*1e6) / 1e6; at < 1 {
			table = append(table, scenario.Quantile{Share: at, Within: after(2 * timeout)})
		}
		table = append(table, scenario.Quantile{Share: 1, Within: after(3 * timeout)})
	}
	table[len(table)-1].Share = 1
	return table
}

// A phase is a period of at least a step, with enough attempts to show their
// latency.
type phase struct {
	from   time.Time
	served *hdrhistogram.Histogram
	factor float64 // of the latency
}

// phases divides the window.
func (f *fitting) phases(from, to int) []phase {
	const enough = 200 // attempts
	var all []phase
	fresh := true
	for i, t := range f.spans.list[from:to] {
		if t.served == nil {
			continue
		}
		if fresh {
			all = append(all, phase{from: f.spans.start(from + i)})
		}
		last := &all[len(all)-1]
		add(&last.served, t.served)
		fresh = last.served.TotalCount() >= enough && f.spans.start(from+i+1).Sub(last.from) >= f.every
	}
	if n := len(all); n > 1 && !fresh { // the rest is part of the last one
		add(&all[n-2].served, all[n-1].served)
		all = all[:n-1]
	}
	return all
}

// changes finds how the latency changes over time, if it changes by more than a
// half and by more than chance, and if that explains a part of its variance: a
// service that hangs now and then does not become slower. changes then replaces
// f.served with what it would have been without the changes.
func (f *fitting) changes(s *scenario.Scenario, from, to int) {
	const little, explained = 1.5, 0.15
	median := func(h *hdrhistogram.Histogram) float64 { return float64(max(h.ValueAtQuantile(50), 1)) }
	quartile := func(p float64) float64 { return math.Log(float64(max(f.served.ValueAtQuantile(p), 1))) }
	deviation := max((quartile(75)-quartile(25))/1.349, 0.02) // of the logarithm, as if it were normal
	all := f.phases(from, to)
	surprise, least, most := 0.0, math.Inf(1), 0.0
	for i := range all {
		p := &all[i]
		p.factor = median(p.served) / median(f.served)
		least, most = min(least, p.factor), max(most, p.factor)
		chance := 1.2533 * deviation / math.Sqrt(float64(p.served.TotalCount())) // of a median
		surprise += square(math.Log(p.factor) / chance)
	}
	if most < little*least || !unlikely(surprise, len(all)-1) {
		return
	}
	steady := newHistogram()
	for _, p := range all {
		for _, bar := range p.served.Distribution() {
			if bar.Count > 0 {
				value := (float64(bar.From) + float64(bar.To)) / 2 / p.factor
				recordTimes(steady, max(int64(value), 1), bar.Count)
			}
		}
	}
	if logVariance(steady) > (1-explained)*logVariance(f.served) {
		return
	}
	f.served = steady
	f.factor = make([]float64, len(f.steps))
	for i, now := range f.factor {
		middle := f.window.from.Add(time.Duration(i)*f.every + f.every/2)
		for _, p := range all {
			if now == 0 || !p.from.After(middle) {
				now = p.factor
			}
		}
		f.factor[i] = round(now)
	}
	s.OverTime.Latency = f.factor
	f.comment("over_time.latency", "the median of a time with at least 200 attempts, in medians of all")
}

// logVariance returns the variance of the logarithms.
func logVariance(h *hdrhistogram.Histogram) float64 {
	var n, sum, squares float64
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			v := math.Log(max(float64(bar.To), 1))
			n += float64(bar.Count)
			sum += v * float64(bar.Count)
			squares += v * v * float64(bar.Count)
		}
	}
	return squares/n - square(sum/n)
}

// correlation returns how much the mean time of the attempts that are not throttled
// follows their rate.
func (f *fitting) correlation() float64 {
	var rate, took []float64
	for i, c := range f.steps {
		if n := c.sent - c.throttled; n >= 20 {
			rate = append(rate, float64(n)/f.lengthOf(i).Seconds())
			took = append(took, float64(c.worked)/float64(n))
		}
	}
	if len(rate) < 10 || stat.PopStdDev(took, nil) < 0.1*stat.Mean(took, nil) {
		return 0
	}
	return stat.Correlation(rate, took, nil)
}
