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
		var ends []time.Duration
		for range n {
			ends = append(ends, s.Add(time.Now(), delay, spread))
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

// The first delays of many processes are spread too, even if their clocks are
// coarse.
func TestSpreadOfProcesses(t *testing.T) {
	const processes, parts = 1000, 10
	for _, step := range []time.Duration{1, 100, time.Microsecond, time.Millisecond, 15625 * time.Microsecond} {
		var in [parts + 1]int
		now := time.Now().Truncate(step)
		for i := range processes {
			var s Spread
			in[s.Add(now.Add(time.Duration(i)*step), 0, parts*time.Second)/time.Second]++
		}
		for i, n := range in[:parts] {
			if n < processes/parts/2 || n > 2*processes/parts {
				t.Errorf("clocks with steps of %v: %d of %d delays are in part %d", step, n, processes, i)
			}
		}
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
			if d := s.Add(time.Time{}, tt.delay, tt.spread); d < tt.least || d > tt.most {
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
			end := s.Add(time.Now(), time.Second, time.Minute)
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
