package term

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		d              time.Duration
		duration, days string
	}{
		{999, "999ns", "0s"},
		{12345 * time.Microsecond, "12.3ms", "12ms"},
		{999600 * time.Microsecond, "1s", "1s"},
		{59*time.Second + 999600*time.Microsecond, "1m0s", "1m0s"},
		{24*time.Hour - 1, "24h0m0s", "1d0s"},
		{90*time.Minute + 31*time.Second, "1h30m31s", "1h30m31s"},
		{100 * time.Hour, "100h0m0s", "4d4h0m0s"},
		{-1234 * time.Millisecond, "-1.23s", "-1.234s"},
	} {
		if got, days := Duration(c.d), Days(c.d); got != c.duration || days != c.days {
			t.Errorf("%v: got %q and %q, want %q and %q", c.d, got, days, c.duration, c.days)
		}
	}
}
