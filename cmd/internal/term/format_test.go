package term

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{999, "999ns"},
		{12345 * time.Microsecond, "12.3ms"},
		{999600 * time.Microsecond, "1s"},
		{59*time.Second + 999600*time.Microsecond, "1m0s"},
		{24*time.Hour - 1, "24h0m0s"},
		{90*time.Minute + 31*time.Second, "1h30m31s"},
		{100 * time.Hour, "100h0m0s"},
		{-1234 * time.Millisecond, "-1.23s"},
	} {
		if got := Duration(c.d); got != c.want {
			t.Errorf("%v: got %q, want %q", c.d, got, c.want)
		}
	}
}
