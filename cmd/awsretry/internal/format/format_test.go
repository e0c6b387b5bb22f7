package format

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{999, "999ns"},
		{1234 * time.Microsecond, "1.23ms"},
		{12345 * time.Microsecond, "12.3ms"},
		{999499 * time.Microsecond, "999ms"},
		{999600 * time.Microsecond, "1s"},
		{1500 * time.Millisecond, "1.5s"},
		{59960 * time.Millisecond, "1m0s"},
		{90*time.Minute + 31*time.Second, "1h30m30s"},
		{-1234 * time.Millisecond, "-1.23s"},
	} {
		t.Run(c.d.String(), func(t *testing.T) {
			if got := Duration(c.d); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDays(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{1500 * time.Millisecond, "1.5s"},
		{59*time.Second + 999600*time.Microsecond, "1m0s"},
		{24*time.Hour - 1, "1d0s"},
		{3*time.Hour + 2*time.Minute + 5*time.Second, "3h2m5s"},
		{49*time.Hour + time.Second, "2d1h0m1s"},
	} {
		t.Run(c.d.String(), func(t *testing.T) {
			if got := Days(c.d); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
