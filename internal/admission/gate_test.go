package admission

import (
	"sync"
	"testing"
	"time"
)

func TestLongestClosingHolds(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name   string
		delays []time.Duration
		after  time.Duration
		want   time.Duration
	}{
		{"never closed", nil, 0, 0},
		{"closed", []time.Duration{time.Second}, 0, time.Second},
		{"over", []time.Duration{time.Second}, time.Second, 0},
		{"closed for longer", []time.Duration{time.Second, time.Minute}, 0, time.Minute},
		{"not shortened", []time.Duration{time.Minute, time.Second}, 0, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var g, other Gate
			for _, d := range tt.delays {
				g.Close(now, d, d)
			}
			other.Store(g.Load())
			at := now.Add(tt.after)
			if g.ClosedFor(at) != tt.want || other.ClosedFor(at) != tt.want {
				t.Errorf("closed for %v, and a copy for %v, want %v", g.ClosedFor(at), other.ClosedFor(at), tt.want)
			}
			wait, spread, closed := g.Left(at)
			if wait != tt.want || closed != (tt.want > 0) || closed != (spread > 0) {
				t.Errorf("left is %v with a spread of %v, %v; want %v", wait, spread, closed, tt.want)
			}
			if opened := g.Load() == nil; opened != (tt.want == 0) {
				t.Errorf("opened is %v", opened)
			}
		})
	}
}

func TestGateConcurrently(t *testing.T) {
	now := time.Now()
	var g Gate
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				g.Close(now, time.Duration(i*1000+n+1), 1)
				g.Left(now.Add(time.Duration(n)))
			}
		})
	}
	all.Wait()
	if got := g.ClosedFor(now); got != 8000 {
		t.Errorf("closed for %v, want the longest of all, 8µs", got)
	}
}
