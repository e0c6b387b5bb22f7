package pacing

import (
	"encoding/json"
	"math"
	"os"
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
