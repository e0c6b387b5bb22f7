package traffic

import (
	"math"
	"strconv"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// round keeps four digits of a number, so that a person can read it.
func round(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // it reads what it wrote
	return v
}

func figure(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

// rounded keeps four digits of a duration, down to the microsecond.
func rounded(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	unit := time.Duration(math.Pow(10, max(math.Floor(math.Log10(float64(d)))-3, 3)))
	return d.Round(unit)
}

func duration(d time.Duration) scenario.Duration { return scenario.Duration(rounded(d)) }
