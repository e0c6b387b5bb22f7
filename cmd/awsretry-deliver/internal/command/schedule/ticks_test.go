package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func TestEvenTicks(t *testing.T) {
	for _, c := range []struct {
		most      evenTicks
		low, high float64
		want      string
	}{
		{16, 1, 2, "1 2"},
		{16, 1, 10, "1 2 3 4 5 6 7 8 9 10"},
		{16, 1, 20, "1 2 4 6 8 10 12 14 16 18 20"},
		{16, 1, 50, "1 5 10 15 20 25 30 35 40 45 50"},
		{6, 0, 1, "0 1"},
		{6, 0, 60, "0 10 20 30 40 50 60"},
		{6, 0, 260, "0 50 100 150 200 250"},
		{6, 0, 3600, "0 1000 2000 3000"},
	} {
		t.Run(fmt.Sprintf("%d from %v to %v", c.most, c.low, c.high), func(t *testing.T) {
			var labels []string
			for _, tick := range c.most.Ticks(c.low, c.high) {
				labels = append(labels, tick.Label)
				if v, err := strconv.ParseFloat(tick.Label, 64); err != nil || v != tick.Value {
					t.Errorf("%q is at %v", tick.Label, tick.Value)
				}
			}
			if got := strings.Join(labels, " "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
