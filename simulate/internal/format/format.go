// Package format writes numbers, shares and latencies for people to read.
package format

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// Count returns n with commas between the thousands.
func Count(n int64) string { return humanize.Comma(n) }

// Number returns a whole number as Count does, and any other with four
// significant digits.
func Number(v float64) string {
	if v == float64(int64(v)) {
		return Count(int64(v))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Percent returns a share of 1 as a percentage.
func Percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// Latency returns d with about three digits, or "-" for 0, which means that
// nothing was measured.
func Latency(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0fms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2fms", d.Seconds()*1e3)
}
