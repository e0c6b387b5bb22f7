package traffic

import "time"

// bins are counts over time. When a log becomes longer than the bins can hold,
// pairs of them are merged, so that their number is bounded.
type bins[T any] struct {
	most  int // bins
	width time.Duration
	merge func(into *T, from T)

	first int64 // the number of the first bin: its start in widths since 1970
	list  []T
}

func newBins[T any](most int, width time.Duration, merge func(into *T, from T)) *bins[T] {
	return &bins[T]{most: most, width: width, merge: merge}
}

// at returns the bin of an instant. The pointer is valid until the next call.
func (b *bins[T]) at(t time.Time) *T {
	if len(b.list) == 0 {
		b.first = b.number(t)
	}
	for {
		n := b.number(t)
		low, high := min(n, b.first), max(n, b.first+int64(len(b.list))-1)
		if high-low < int64(b.most) {
			b.extend(low, high)
			return &b.list[n-b.first]
		}
		b.coarsen()
	}
}

func (b *bins[T]) number(t time.Time) int64 { return t.UnixNano() / int64(b.width) }

// extend adds empty bins on both sides. Before the first one it adds more than
// it needs, so that a log that runs backward does not copy the list for each bin.
func (b *bins[T]) extend(low, high int64) {
	if low < b.first {
		low = max(low-int64(len(b.list)), high-int64(b.most)+1, 0)
		b.list = append(make([]T, b.first-low, high-low+1), b.list...)
		b.first = low
	}
	if more := high + 1 - b.first - int64(len(b.list)); more > 0 {
		b.list = append(b.list, make([]T, more)...)
	}
}

// coarsen doubles the width.
func (b *bins[T]) coarsen() {
	b.width *= 2
	first, last := b.first/2, (b.first+int64(len(b.list))-1)/2
	merged := make([]T, last-first+1)
	for i, from := range b.list {
		b.merge(&merged[(b.first+int64(i))/2-first], from)
	}
	b.first, b.list = first, merged
}

// start returns when a bin begins.
func (b *bins[T]) start(i int) time.Time { return time.Unix(0, (b.first+int64(i))*int64(b.width)) }

// within returns the bins that overlap the window, as the index of the first
// and of the one after the last.
func (b *bins[T]) within(w window) (from, to int) {
	n := int64(len(b.list))
	low := min(max(b.number(w.from)-b.first, 0), n)
	high := min(max(b.number(w.to.Add(-1))+1-b.first, low), n)
	return int(low), int(high)
}

// A window is the part of a log that is fitted.
type window struct{ from, to time.Time }

func (w window) length() time.Duration { return w.to.Sub(w.from) }

// near reports whether an attempt may belong to a call that is under way in the
// window.
func (w window) near(a attempt) bool {
	const margin = 20 * time.Second
	return a.end.After(w.from.Add(-margin)) && a.called().Before(w.to.Add(margin))
}

// window returns the part of that length with the most throttled and failed
// attempts, or with the most attempts if none failed. It returns all of a shorter
// log, and always the part that was refined.
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
	var all count
	for _, c := range l.counts.list {
		all.add(c)
	}
	weight := count.failed
	if all.failed() == 0 {
		weight = func(c count) int64 { return c.sent }
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
