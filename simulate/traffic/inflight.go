package traffic

import (
	"math"
	"time"
)

// A load is how many calls are under way over time.
type load struct {
	mean, most float64
	dispersion float64 // the variance over the mean: 1 for calls that arrive independently of each other
	atMost     float64 // the share of the time with the greatest number
	known      bool
}

// inFlight follows the calls that are under way from bin to bin.
func (l *Log) inFlight(w window) load {
	from, to := l.counts.within(w)
	now, least := int64(0), int64(0)
	var levels []int64
	for i := range to {
		now += l.counts.list[i].started - l.counts.list[i].ended
		least = min(least, now) // of calls that began before the log
		if i >= from {
			levels = append(levels, now)
		}
	}
	const ends = 20 // callers start one after the other, and stop
	levels = levels[len(levels)/ends : len(levels)-len(levels)/ends]
	lost := max(l.continuing-l.followed, 0) // calls that never end
	if len(levels) < 50 || lost > now+l.Lines.Used/100 {
		return load{}
	}
	var sum, squares, most, times float64
	for _, n := range levels {
		v := float64(n - least)
		sum += v
		squares += v * v
		if v > most {
			most, times = v, 0
		}
		if v == most {
			times++
		}
	}
	n := float64(len(levels))
	mean := sum / n
	if mean == 0 {
		return load{}
	}
	return load{
		mean: mean, most: most, dispersion: max(squares/n-mean*mean, 0) / mean, atMost: times / n, known: true,
	}
}

// closed reports whether the calls come from callers that each wait for one
// call before they make the next: their number then varies less than that of
// independent calls, or is often at its greatest. So is that of calls which
// begin at regular times, but those are as regular in every bin.
func (f load) closed(bins []count, calls float64) bool {
	const regular, constant = 0.3, 0.1
	return f.known && f.mean >= 0.5 && (f.steady(calls) || f.atMost > often && calls > 20/often) &&
		(f.dispersion < constant || startDispersion(bins) > regular)
}

// steady reports whether the number of calls varies less than by chance.
func (f load) steady(calls float64) bool {
	chance := math.Sqrt(2 * f.mean / calls) // of the dispersion, if calls do not wait for each other
	return f.dispersion <= min(0.8, 1-4*chance)
}

// often is a share of the time with the greatest number of calls that tells a
// limit from chance.
const often = 0.02

// callers returns how many callers there are. If never all of them have a call
// under way, their number follows from the binomial distribution.
func (f load) callers() int {
	if f.atMost > often {
		return int(f.most)
	}
	return int(max(f.most, math.Round(f.mean/(1-f.dispersion)), 1))
}

// startDispersion returns the variance of the calls that begin in a bin over
// their mean.
func startDispersion(bins []count) float64 {
	bins = widened(bins)
	var sum, squares float64
	for _, c := range bins {
		sum += float64(c.started)
		squares += square(float64(c.started))
	}
	n := float64(len(bins))
	mean := sum / n
	return (squares/n - mean*mean) / mean
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
