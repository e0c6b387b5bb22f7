package simulate

import (
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

func TestFairness(t *testing.T) {
	type calls struct{ started, good int64 }
	for _, tt := range []struct {
		name    string
		callers int // 0: an open loop
		joins   int // the last clients, after half of the time
		clients []calls
		want    float64
	}{
		{"all the same", 1, 0, []calls{{5, 5}, {9, 5}}, 1},
		{"one of four has everything", 1, 0, []calls{{5, 5}, {5, 0}, {5, 0}, {5, 0}}, 0.25},
		{"1, 2 and 3", 1, 0, []calls{{5, 1}, {5, 2}, {5, 3}}, 36. / 42},
		{"half in half of the time", 1, 1, []calls{{5, 4}, {5, 2}}, 1},
		{"the same share of other numbers", 0, 0, []calls{{10, 5}, {2, 1}, {0, 0}}, 1},
		{"nobody has anything", 0, 0, []calls{{5, 0}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(time.Second, len(tt.clients), nil)
			for i, c := range tt.clients {
				r.perClient[i].started.Store(c.started)
				r.perClient[i].good.Store(c.good)
			}
			s := scenario.Scenario{
				Duration: seconds(1),
				Clients:  scenario.Clients{Count: len(tt.clients), Callers: tt.callers},
			}
			if tt.joins > 0 {
				s.Events = []scenario.Event{{Kind: scenario.Join, From: seconds(0.5), Clients: tt.joins}}
			}
			if got := fairness(s, r); got != tt.want {
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
