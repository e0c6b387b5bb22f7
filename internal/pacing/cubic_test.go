package pacing

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

// near reports whether two numbers agree to nine digits.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

func TestCurveVectors(t *testing.T) {
	var vectors []struct {
		Name                 string
		LastMax, ThrottledAt float64
		Steps                []struct{ At, Want float64 }
	}
	data, err := os.ReadFile("testdata/cubic.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, vector := range vectors {
		t.Run(vector.Name, func(t *testing.T) {
			c := curve{beta: 0.7, scale: 0.4}
			c.cut(0, 99) // an earlier cut must not matter
			if got, want := c.cut(seconds(vector.ThrottledAt), vector.LastMax), 0.7*vector.LastMax; !near(got, want) {
				t.Errorf("throttled: %v, want %v", got, want)
			}
			for _, step := range vector.Steps {
				if got := c.grow(seconds(step.At)); !near(got, step.Want) {
					t.Errorf("at %v s: %v, want %v", step.At, got, step.Want)
				}
			}
		})
	}
}

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
