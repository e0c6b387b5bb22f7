package gate_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/gate"
)

func TestLongestClosingHolds(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name   string
		delays []time.Duration
		after  time.Duration
		want   time.Duration
	}{
		{"never closed", nil, 0, 0},
		{"closed", []time.Duration{time.Second}, 0, time.Second},
		{"closed for a while", []time.Duration{time.Second}, 400 * time.Millisecond, 600 * time.Millisecond},
		{"over", []time.Duration{time.Second}, time.Second, 0},
		{"closed for longer", []time.Duration{time.Second, time.Minute}, 0, time.Minute},
		{"not shortened", []time.Duration{time.Minute, time.Second}, 0, time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var g gate.Gate
			for _, d := range test.delays {
				g.Close(now, d, 0)
			}
			at := now.Add(test.after)
			if got := g.ClosedFor(at); got != test.want {
				t.Errorf("closed for %v, want %v", got, test.want)
			}
			wait, closed := g.Left(t.Context(), at)
			if wait != test.want || closed != (test.want > 0) {
				t.Errorf("left is %v, %v; want %v", wait, closed, test.want)
			}
			if open := g.Load() == nil; open != (test.want == 0) {
				t.Errorf("open is %v after %v", open, test.after)
			}
		})
	}
}

func TestWaitersAreSpread(t *testing.T) {
	const delay, spread = time.Second, time.Minute
	now := time.Now()
	var g gate.Gate
	g.Close(now, delay, spread)
	least, most := time.Duration(math.MaxInt64), time.Duration(0)
	for range 1000 {
		wait, _ := g.Left(t.Context(), now)
		least, most = min(least, wait), max(most, wait)
	}
	if least < delay || most > delay+spread || most-least < spread/2 {
		t.Errorf("waits of %v to %v, want them all over %v to %v", least, most, delay, delay+spread)
	}
	if got := g.ClosedFor(now); got != delay {
		t.Errorf("closed for %v, want %v", got, delay)
	}
}

func TestLongestWait(t *testing.T) {
	now := time.Now()
	var g gate.Gate
	g.Close(now, math.MaxInt64, math.MaxInt64)
	for range 100 {
		if wait, closed := g.Left(t.Context(), now); wait <= 0 || !closed {
			t.Fatalf("left is %v, %v", wait, closed)
		}
	}
}

func TestStore(t *testing.T) {
	now := time.Now()
	var from, to gate.Gate
	from.Close(now, time.Second, 0)
	to.Store(from.Load())
	if got := to.ClosedFor(now); got != time.Second {
		t.Errorf("closed for %v, want 1s", got)
	}
	to.Store(nil)
	if to.Load() != nil || from.Load() == nil {
		t.Error("one gate opened the other")
	}
}

func TestConcurrentUse(t *testing.T) {
	now := time.Now()
	var g gate.Gate
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				g.Close(now, time.Duration(i*1000+n+1), 1)
				g.Left(t.Context(), now.Add(time.Duration(n)))
			}
		})
	}
	all.Wait()
	if got := g.ClosedFor(now); got != 8000 {
		t.Errorf("closed for %v, want the longest of all, 8µs", got)
	}
}
