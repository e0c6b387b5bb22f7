package simulate

import (
	"time"

	"example.com/awsretry/simulate/scenario"
)

// mostPoints is how many points a curve has at most. More are a smear, and a
// large file.
const mostPoints = 2000

// SecondsPerPoint returns how many seconds of a run one point of a curve
// covers. It is 1 unless the run is long.
func SecondsPerPoint(s scenario.Scenario) int {
	seconds := int(time.Duration(s.Duration) / time.Second)
	return max((seconds+mostPoints-1)/mostPoints, 1)
}

// Middles returns the middle of each group of so many seconds, in seconds. The
// last group may be smaller.
func Middles(seconds, of int) (all []float64) {
	for from := 0; from < seconds; from += max(of, 1) {
		all = append(all, float64(from+min(from+max(of, 1), seconds))/2)
	}
	return all
}

// Means returns the mean of each group of values. The last group may be smaller.
func Means(values []float64, of int) []float64 {
	if of <= 1 {
		return values
	}
	var all []float64
	for len(values) > 0 {
		n := min(of, len(values))
		all = append(all, mean(values[:n]))
		values = values[n:]
	}
	return all
}
