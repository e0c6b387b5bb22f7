package traffic

import "time"

// A window is the part of a log that is fitted.
type window struct{ from, to time.Time }

func (w window) length() time.Duration { return w.to.Sub(w.from) }

// near reports whether an attempt may belong to a call that is under way in the
// window.
func (w window) near(a attempt) bool {
	const margin = 20 * time.Second
	return a.end.After(w.from.Add(-margin)) && a.called().Before(w.to.Add(margin))
}

// window returns the part of that length with most throttled and failed
// attempts, or with most attempts if none failed. A shorter log is returned
// whole, and the part that was refined always.
func (l *Log) window(length time.Duration) window {
	if l.part != (window{}) {
		return l.part
	}
	whole := window{l.begin, l.last.Add(1)}
	if whole.length() < time.Second { // the shortest simulation
		whole.to = whole.from.Add(time.Second)
	}
	if whole.length() <= length {
		return whole
	}
	trouble := func(c count) int64 { return c.throttled + c.errored + c.timeouts }
	all := func(c count) int64 { return c.sent }
	weight := all
	for _, c := range l.counts.list {
		if trouble(c) > 0 {
			weight = trouble
			break
		}
	}
	size := max(int(length/l.counts.width), 1)
	best, sum, most := 0, int64(0), int64(-1)
	for i, c := range l.counts.list {
		sum += weight(c)
		if i >= size {
			sum -= weight(l.counts.list[i-size])
		}
		if i >= size-1 && sum > most {
			best, most = i-size+1, sum
		}
	}
	from := l.counts.start(best)
	if from.Before(whole.from) {
		from = whole.from
	}
	return window{from, from.Add(length)}
}

// steps divides a window into steps and sums its counts in each.
func (l *Log) steps(w window, every time.Duration) []count {
	sums := make([]count, (w.length()+every-1)/every)
	from, to := l.counts.within(w)
	for i := from; i < to; i++ {
		step := max(l.counts.start(i).Sub(w.from), 0) / every
		sums[min(int(step), len(sums)-1)].add(l.counts.list[i])
	}
	return sums
}
