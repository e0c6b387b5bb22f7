package jitter

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

// Successive delays are spread evenly, however many there are.
func TestSpread(t *testing.T) {
	const delay, spread = time.Second, time.Minute
	for _, n := range []int{1, 2, 3, 10, 1000} {
		var s Spread
		s.Start(0)
		var ends []time.Duration
		for range n {
			ends = append(ends, s.Add(delay, spread))
		}
		slices.Sort(ends)
		if ends[0] < delay || ends[n-1] > delay+spread {
			t.Errorf("%d delays of %v to %v", n, ends[0], ends[n-1])
		}
		for i, end := range ends {
			gap := ends[(i+1)%n] - end
			if i == n-1 {
				gap += spread
			}
			if mean := spread / time.Duration(n); gap < mean/3 || gap > 3*mean {
				t.Errorf("%d delays: %v from one to the next, %v on average", n, gap, mean)
			}
		}
	}
}

// The first delays of many processes are spread too, and a start is repeated.
func TestSpreadOfProcesses(t *testing.T) {
	const processes, parts = 1000, 10
	var in [parts + 1]int
	for range processes {
		var s Spread
		s.Start(0)
		in[s.Add(0, parts*time.Second)/time.Second]++
	}
	for i, n := range in[:parts] {
		if n < processes/parts/2 || n > 2*processes/parts {
			t.Errorf("%d of %d delays are in part %d", n, processes, i)
		}
	}
	var a, b Spread
	a.Start(7)
	b.Start(7)
	if a.Add(0, time.Hour) != b.Add(0, time.Hour) {
		t.Error("the same start has another delay")
	}
}

func TestSpreadBounds(t *testing.T) {
	for _, tt := range []struct{ delay, spread, least, most time.Duration }{
		{time.Second, 0, time.Second, time.Second},
		{time.Second, -1, time.Second, time.Second},
		{time.Second, 1, time.Second, time.Second + 1},
		{0, math.MaxInt64, 0, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		var s Spread
		for range 100 {
			if d := s.Add(tt.delay, tt.spread); d < tt.least || d > tt.most {
				t.Errorf("%v and a part of %v is %v", tt.delay, tt.spread, d)
			}
		}
	}
}

func TestSpreadConcurrently(t *testing.T) {
	const callers = 100
	var s Spread
	var mu sync.Mutex
	ends := make(map[time.Duration]bool)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			end := s.Add(time.Second, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			ends[end] = true
		})
	}
	all.Wait()
	if len(ends) != callers {
		t.Errorf("%d callers have %d different delays", callers, len(ends))
	}
}
