package traffic

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// A load is how many calls are under way over time, and whether they wait for
// each other.
type load struct {
	known      bool
	mean, most float64
	dispersion float64 // the variance over the mean: 1 for calls that arrive independently of each other
	exchange   float64 // how much the number changes, relative to independent starts and ends
	slope, t   float64 // of the calls that begin in a bin, by the number under way before it; t is in standard errors
	starts     float64 // in a bin, on average
}

// inFlight follows the calls that are under way from bin to bin. It leaves out the
// end of the log, because nothing is known of the calls that were waiting for their
// first attempt then.
func (l *Log) inFlight(w window) load {
	if seen := l.last.Add(1 - l.longestWait); seen.Before(w.to) {
		w.to = seen
	}
	from, to := l.counts.within(w)
	now, least := int64(0), int64(0)
	var levels []int64 // at the starts of the bins
	for i := range to {
		if i >= from {
			levels = append(levels, now)
		}
		now += l.counts.list[i].started - l.counts.list[i].ended
		least = min(least, now) // of calls that began before the log
	}
	const ends = 20 // the first and the last twentieth are cut off, in which callers start and stop
	bins := l.counts.list[from:to]
	bins, levels = bins[len(bins)/ends:len(bins)-len(bins)/ends], levels[len(levels)/ends:len(levels)-len(levels)/ends]
	lost := max(l.continuing-l.followed, 0) // calls that never end
	if len(levels) < 50 || lost > now+l.Lines.Used/100 {
		return load{}
	}
	under, starts, changes := make([]float64, len(levels)), make([]float64, len(levels)), make([]float64, len(levels))
	for i, n := range levels {
		under[i] = float64(n - least)
		starts[i] = float64(bins[i].started)
		changes[i] = square(float64(bins[i].started - bins[i].ended))
	}
	f := load{known: true, most: slices.Max(under), starts: stat.Mean(starts, nil)}
	var variance float64
	if f.mean, variance = stat.PopMeanVariance(under, nil); f.mean == 0 {
		return load{}
	}
	f.dispersion = variance / f.mean
	f.exchange = stat.Mean(changes, nil) / (2 * min(f.mean, f.starts))
	f.slope, f.t = feedback(starts, under)
	return f
}

// feedback regresses the calls that begin in a bin on the number that is under way
// before it. It does so within stretches of bins, because changes over minutes do
// not show who waits for what. t is the slope in standard errors.
func feedback(starts, under []float64) (slope, t float64) {
	const stretch = 200 // bins
	less := func(values []float64) (centered []float64) {
		for part := range slices.Chunk(values, stretch) {
			mean := stat.Mean(part, nil)
			for _, v := range part {
				centered = append(centered, v-mean)
			}
		}
		return centered
	}
	x, y := less(under), less(starts)
	r := stat.Correlation(x, y, nil)
	if math.IsNaN(r) {
		return 0, 0
	}
	_, slope = stat.LinearRegression(x, y, nil, true)
	return slope, r * math.Sqrt(float64(len(x))/max(1-r*r, 1e-9))
}

// closed reports whether the calls come from callers that each wait for one call
// before they make the next. Then a call begins when another one ends, or fewer
// calls begin while more are under way. The same is true of calls that begin at
// regular times, but their number is the same in every bin.
func (f load) closed(bins []count) bool {
	const regular, constant = 0.3, 0.1
	return f.known && (f.exchanged() || f.t < -3.5) && (f.dispersion < constant || startDispersion(bins) > regular)
}

// exchanged reports whether each end of a call is the start of another one.
func (f load) exchanged() bool { return f.mean >= 0.5 && f.exchange < 0.1 }

// callers returns how many callers there are. If they never all have a call under
// way, the others are thinking.
func (f load) callers() int {
	if f.exchanged() {
		return int(max(math.Round(f.mean), 1))
	}
	return int(max(f.most, math.Round(f.mean+f.thinking()), 1))
}

// thinking returns how many callers have no call under way on average: as many as
// begin one in the time for which they think. If fewer calls than usual are under
// way, a share of the missing ones begins within a bin. That share follows from the
// think time and the time that calls take, as in a relaxation between two states.
// thinking finds the think time for which the share is the slope.
func (f load) thinking() float64 {
	takes := f.mean / f.starts // in bins
	low, high := 1e-3, 1e9
	for high > 1.001*low {
		thinks := math.Sqrt(low * high)
		if takes/(takes+thinks)*(1-math.Exp(-1/takes-1/thinks)) > -f.slope {
			low = thinks
		} else {
			high = thinks
		}
	}
	return f.starts * low
}

// startDispersion returns the variance of the calls that begin in a bin over
// their mean.
func startDispersion(bins []count) float64 {
	var starts []float64
	for _, c := range widened(bins) {
		starts = append(starts, float64(c.started))
	}
	mean, variance := stat.PopMeanVariance(starts, nil)
	return variance / mean
}

// think returns how long each of the callers rests between two calls.
func (f load) think(callers int, calls float64, over time.Duration) time.Duration {
	cycle := float64(callers) * over.Seconds() / calls
	busy := f.mean * over.Seconds() / calls
	if think := cycle - busy; think > 0.02*cycle {
		return time.Duration(think * float64(time.Second))
	}
	return 0
}

func (f load) String() string {
	if !f.known {
		return "how many are under way is not clear from the log"
	}
	return fmt.Sprintf("%.1f under way on average, %.0f at most", f.mean, f.most)
}
