package simulate

import (
	"slices"
	"testing"

	"example.com/awsretry/simulate/scenario"
)

func TestMeans(t *testing.T) {
	for _, tt := range []struct {
		name string
		of   int
		want []float64
	}{
		{"the values", 1, []float64{1, 3, 5, 7, 100}},
		{"of two", 2, []float64{2, 6, 100}},
		{"of more than there are", 10, []float64{23.2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Means([]float64{1, 3, 5, 7, 100}, tt.of); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSecondsPerPoint(t *testing.T) {
	for duration, want := range map[float64]int{1: 1, 2000: 1, 2001: 2, 86400: 44} {
		if got := SecondsPerPoint(scenario.Scenario{Duration: seconds(duration)}); got != want {
			t.Errorf("%vs: got %d, want %d", duration, got, want)
		}
	}
}

func TestMiddles(t *testing.T) {
	for of, want := range map[int][]float64{1: {0.5, 1.5, 2.5, 3.5, 4.5}, 2: {1, 3, 4.5}, 9: {2.5}} {
		if got := Middles(5, of); !slices.Equal(got, want) {
			t.Errorf("in groups of %d: %v, want %v", of, got, want)
		}
	}
}
