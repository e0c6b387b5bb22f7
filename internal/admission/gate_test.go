package admission

import (
	"math"
	"sync"
	"testing"
	"time"

	"example.com/awsretry/internal/jitter"
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
				g.Close(now, d, 0)
			}
			other.Store(g.Load())
			at := now.Add(tt.after)
			if g.ClosedFor(at) != tt.want || other.ClosedFor(at) != tt.want {
				t.Errorf("closed for %v, and a copy for %v, want %v", g.ClosedFor(at), other.ClosedFor(at), tt.want)
			}
			wait, closed := g.Left(t.Context(), at)
			if wait != tt.want || closed != (tt.want > 0) {
				t.Errorf("left is %v, %v; want %v", wait, closed, tt.want)
			}
			if opened := g.Load() == nil; opened != (tt.want == 0) {
				t.Errorf("opened is %v", opened)
			}
		})
	}
}

// Callers continue at random times within the spread, unless the context has a
// source.
func TestGateSpread(t *testing.T) {
	const long = math.MaxInt64
	longest := func(delay, spread time.Duration) time.Duration { return delay + spread }
	for _, tt := range []struct {
		name          string
		source        jitter.Source
		delay, spread time.Duration
		least, most   time.Duration // they are at these, within a fifth of the spread
	}{
		{"random", nil, time.Second, time.Minute, time.Second, time.Second + time.Minute},
		{"too long", nil, long, long, long, long},
		{"decided", longest, time.Second, time.Minute, time.Second + time.Minute, time.Second + time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			var g Gate
			ctx := t.Context()
			if tt.source != nil {
				ctx = jitter.With(ctx, tt.source)
			}
			g.Close(now, tt.delay, tt.spread)
			least, most := time.Duration(math.MaxInt64), time.Duration(0)
			for range 1000 {
				wait, closed := g.Left(ctx, now)
				if !closed {
					t.Fatal("not closed")
				}
				least, most = min(least, wait), max(most, wait)
			}
			if least < tt.least || least-tt.least > tt.spread/5 || most > tt.most || tt.most-most > tt.spread/5 {
				t.Errorf("waits of %v to %v, want %v to %v", least, most, tt.least, tt.most)
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
				g.Left(t.Context(), now.Add(time.Duration(n)))
			}
		})
	}
	all.Wait()
	if got := g.ClosedFor(now); got != 8000 {
		t.Errorf("closed for %v, want the longest of all, 8µs", got)
	}
}
