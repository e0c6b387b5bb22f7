package term

import "time"

// Duration returns d with three significant digits, and all digits of its seconds.
func Duration(d time.Duration) string {
	unit := time.Nanosecond
	for unit < time.Second && d.Abs()/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
