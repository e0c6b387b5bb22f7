package pacing

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestMeterIsAlignedToTheEpoch(t *testing.T) {
	for _, test := range []struct {
		start    time.Time
		interval time.Duration
		want     []time.Duration // when outcomes every 10 ms are measured, on the clock
	}{
		{time.Unix(100, 300e6), 500 * time.Millisecond, []time.Duration{200e6, 700e6, 1200e6}},
		{time.Unix(100, 700e6), 500 * time.Millisecond, []time.Duration{0, 300e6, 800e6}}, // one began at 500 ms
		{time.Unix(100, 0), 300 * time.Millisecond, []time.Duration{200e6, 500e6, 800e6, 1100e6}},
		{time.Unix(-100, 300e6), 500 * time.Millisecond, []time.Duration{200e6, 700e6, 1200e6}},
		{time.Unix(-101, 0), 1200 * time.Millisecond, []time.Duration{200e6}},
	} {
		t.Run(fmt.Sprint(test.start.UTC(), " ", test.interval), func(t *testing.T) {
			m := NewMeter(test.start, test.interval, 0.8)
			var got []time.Duration
			for now := time.Duration(0); now <= 1250*time.Millisecond; now += 10 * time.Millisecond {
				m.Count(now, 1)
				if m.outcomes == 0 {
					got = append(got, now)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("measured at %v, want %v", got, test.want)
			}
		})
	}
}
