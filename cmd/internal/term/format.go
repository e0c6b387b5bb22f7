package term

import (
	"fmt"
	"time"
)

// Duration returns d with three significant digits, and all digits of its seconds.
func Duration(d time.Duration) string {
	unit := time.Nanosecond
	for unit < time.Second && d.Abs()/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Days returns d in days, hours, minutes and seconds, to the millisecond.
func Days(d time.Duration) string {
	const day = 24 * time.Hour
	d = d.Round(time.Millisecond)
	if d < day {
		return d.String()
	}
	return fmt.Sprintf("%dd%v", d/day, d%day)
}
