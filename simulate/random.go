package simulate

import (
	"math"
	"sort"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// The purposes of random numbers.
const (
	forStart = iota
	forThinking
	forArrival
	forHerd
	forLatency
	forSpread
	forError
	forJitter
	forThrottle
	forRenewal
	forFirstToken
	forBody
	forRetryAfter
)

// random returns a number that depends only on its arguments: a seed and the
// purpose of the number. Each step is the finalizer of SplitMix64 (G. Steele, D.
// Lea and C. Flood, "Fast Splittable Pseudorandom Number Generators").
func random(parts ...uint64) uint64 {
	var x uint64
	for _, p := range parts {
		x += p + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// unit maps a random number to [0, 1).
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// exponential maps a random number to the exponential distribution with the
// given mean in nanoseconds.
func exponential(x uint64, mean float64) time.Duration {
	return span(-math.Log1p(-unit(x)) * mean)
}

// normal maps two random numbers to the standard normal distribution
// (Box-Muller transform).
func normal(x, y uint64) float64 {
	return math.Sqrt(-2*math.Log1p(-unit(x))) * math.Cos(2*math.Pi*unit(y))
}

// span converts nanoseconds to a Duration. A time that is longer than any run
// is shortened, so that a few of them can be added without overflow.
func span(ns float64) time.Duration {
	const longest = 1e17 // three years
	if !(ns > 0) {
		return 0
	}
	return time.Duration(min(ns, longest))
}

// quantile returns the time that the share u of the requests takes at most. It
// interpolates linearly between the points of the table.
func quantile(table []scenario.Quantile, u float64) time.Duration {
	i := sort.Search(len(table)-1, func(i int) bool { return table[i].Share >= u })
	if i == 0 {
		return time.Duration(table[0].Within)
	}
	a, b := table[i-1], table[i]
	return time.Duration(a.Within) + span((u-a.Share)/(b.Share-a.Share)*float64(b.Within-a.Within))
}
