package format

import (
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(1234567), "1,234,567"},
		{Number(1234), "1,234"},
		{Number(0.12345), "0.1235"},
		{Percent(0.1234), "12.3%"},
		{Latency(0), "-"},
		{Latency(1234 * time.Microsecond), "1.23ms"},
		{Latency(12345 * time.Microsecond), "12ms"},
		{Latency(1234 * time.Millisecond), "1.23s"},
		{Latency(12345 * time.Millisecond), "12.3s"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("got %q, want %q", c.got, c.want)
			}
		})
	}
}
