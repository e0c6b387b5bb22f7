package traffic

import "time"

// bins are counts over time. When the log becomes longer than they can hold,
// pairs of them are merged, so that their number is limited.
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

func (b *bins[T]) number(t time.Time) int64 { return floorDiv(t.UnixNano(), int64(b.width)) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// extend adds empty bins on both sides. Before the first one it adds more than
// it needs, so that a log that runs backward does not copy the list for each bin.
func (b *bins[T]) extend(low, high int64) {
	if low < b.first {
		low = max(low-int64(len(b.list)), high-int64(b.most)+1)
		b.list = append(make([]T, b.first-low, high-low+1), b.list...)
		b.first = low
	}
	for b.first+int64(len(b.list)) <= high {
		var empty T
		b.list = append(b.list, empty)
	}
}

// coarsen doubles the width.
func (b *bins[T]) coarsen() {
	b.width *= 2
	first := floorDiv(b.first, 2)
	last := floorDiv(b.first+int64(len(b.list))-1, 2)
	merged := make([]T, last-first+1)
	for i, from := range b.list {
		b.merge(&merged[floorDiv(b.first+int64(i), 2)-first], from)
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
