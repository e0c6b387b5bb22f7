package simulate

import (
	"slices"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

func TestFairness(t *testing.T) {
	for _, tt := range []struct {
		name    string
		callers int // 0: an open loop
		joins   int // the last clients, after half of the time
		clients []clientCounts
		want    float64
	}{
		{"all the same", 1, 0, []clientCounts{{5, 5}, {9, 5}}, 1},
		{"one of four has everything", 1, 0, []clientCounts{{5, 5}, {5, 0}, {5, 0}, {5, 0}}, 0.25},
		{"1, 2 and 3", 1, 0, []clientCounts{{5, 1}, {5, 2}, {5, 3}}, 36. / 42},
		{"half in half of the time", 1, 1, []clientCounts{{5, 4}, {5, 2}}, 1},
		{"the same share of other numbers", 0, 0, []clientCounts{{10, 5}, {2, 1}, {0, 0}}, 1},
		{"nobody has anything", 0, 0, []clientCounts{{5, 0}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := scenario.Scenario{
				Duration: seconds(1),
				Clients:  scenario.Clients{Count: len(tt.clients), Callers: tt.callers},
			}
			if tt.joins > 0 {
				s.Events = []scenario.Event{{Kind: scenario.Join, From: seconds(0.5), Clients: tt.joins}}
			}
			if got := fairness(s, tt.clients); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	var hundred []uint32
	for i := range uint32(100) {
		hundred = append(hundred, i+1)
	}
	for p, want := range map[float64]uint32{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Percentile(hundred, p); got != want {
			t.Errorf("percentile %v of 1 to 100: got %v, want %v", p, got, want)
		}
	}
	if got := Percentile([]time.Duration{1, 2}, 0.99); got != 2 {
		t.Errorf("percentile 0.99 of 1 and 2: got %v, want 2", got)
	}
	if Percentile[uint32](nil, 0.5) != 0 {
		t.Error("a percentile of nothing is not 0")
	}
}

func TestMeans(t *testing.T) {
	for _, tt := range []struct {
		of             int
		means, middles []float64
	}{
		{1, []float64{1, 3, 5, 7, 100}, []float64{0.5, 1.5, 2.5, 3.5, 4.5}},
		{2, []float64{2, 6, 100}, []float64{1, 3, 4.5}},
		{10, []float64{23.2}, []float64{2.5}},
	} {
		means, middles := Means([]float64{1, 3, 5, 7, 100}, tt.of)
		if !slices.Equal(means, tt.means) || !slices.Equal(middles, tt.middles) {
			t.Errorf("of %d values: %v at %v, want %v at %v", tt.of, means, middles, tt.means, tt.middles)
		}
	}
}

// Values with only a known lower bound raise a percentile, and low bounds do not
// lower it.
func TestPercentileOf(t *testing.T) {
	values := func(from, to uint32) (all []uint32) {
		for v := from; v < to; v++ {
			all = append(all, v)
		}
		return all
	}
	for _, tt := range []struct {
		known, atLeast []uint32
		p              float64
		want           uint32
	}{
		{values(1, 101), nil, .5, 50},
		{values(1, 101), []uint32{0, 0, 0}, .5, 50},
		{values(1, 101), values(200, 300), .5, 100},
		{values(1, 101), values(200, 300), .25, 50},
		{values(1, 101), values(200, 300), .99, 299},
		{nil, []uint32{7}, .5, 7},
		{[]uint32{100}, []uint32{12}, .5, 100},
	} {
		if got := percentileOf(tt.known, tt.atLeast, tt.p); got != tt.want {
			t.Errorf("%d and %d values, %v: %d, want %d", len(tt.known), len(tt.atLeast), tt.p, got, tt.want)
		}
	}
}
