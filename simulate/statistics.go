package simulate

import (
	"math"
	"slices"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// Percentile returns the least value that at least the share p of them does not
// exceed, or 0 if there are none. The values must be sorted.
func Percentile[T ~int64 | ~uint32](sorted []T, p float64) T {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// percentileOf is Percentile if only a lower bound is known for some values: the
// estimate of Kaplan and Meier. If too many values are unknown, it returns the
// greatest one. Both slices must be sorted.
func percentileOf(known, atLeast []uint32, p float64) uint32 {
	if len(atLeast) == 0 {
		return Percentile(known, p)
	}
	left, above := len(known)+len(atLeast), 1.0 // values from here on; the share of values above the last one
	value := uint32(0)
	for i, j := 0, 0; left > 0; left-- {
		if j < len(atLeast) && (i == len(known) || atLeast[j] < known[i]) {
			value = max(value, atLeast[j])
			j++
			continue
		}
		value = known[i]
		i++
		if above *= 1 - 1/float64(left); above <= 1-p {
			return value
		}
	}
	return value
}

// Jain returns Jain's fairness index: 1 if all values are equal, 1/n if one of
// n has everything, and 0 if all are 0.
func Jain(values []float64) float64 {
	var sum, squares float64
	for _, v := range values {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(values)) * squares)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// sum returns the sum of counts.
func sum(counts []float64) (n int64) {
	for _, c := range counts {
		n += int64(c)
	}
	return n
}

// share returns part/whole, or 0 if whole is 0.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// SecondsPerPoint returns how many seconds of a run one point of a curve covers. It
// is 1 unless the run is long: more than 2000 points blur, and make a large file.
func SecondsPerPoint(s scenario.Scenario) int {
	const most = 2000
	seconds := int(time.Duration(s.Duration) / time.Second)
	return max((seconds+most-1)/most, 1)
}

// Means returns the mean of each group of that many seconds, and its middle. The
// last group may be smaller.
func Means(values []float64, of int) (means, middles []float64) {
	from := 0
	for group := range slices.Chunk(values, of) {
		means = append(means, mean(group))
		middles = append(middles, float64(from)+float64(len(group))/2)
		from += len(group)
	}
	return means, middles
}
