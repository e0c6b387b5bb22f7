package interop

import (
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"
)

// eventually waits until done reports true, for a minute at most. It returns
// what done reported last.
func eventually(done func() bool) bool {
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return done()
		}
	}
	return true
}

// wantNoGoroutines fails if goroutines of awsretry are left after a while.
func wantNoGoroutines(t testing.TB) {
	t.Helper()
	var left []string
	if eventually(func() bool {
		left = left[:0]
		for stack := range strings.SplitSeq(goroutineStacks(2), "\n\n") {
			if strings.Contains(stack, "example.com/awsretry.") {
				left = append(left, stack)
			}
		}
		return len(left) == 0
	}) {
		return
	}
	t.Errorf("goroutines are left:\n%s", strings.Join(left, "\n\n"))
}

// goroutineStacks returns the stacks of all goroutines, in a form of
// runtime/pprof.
func goroutineStacks(form int) string {
	var all strings.Builder
	pprof.Lookup("goroutine").WriteTo(&all, form)
	return all.String()
}

// inParallel calls do for 0 to n-1 with several goroutines. It returns after
// the last call.
func inParallel(n, workers int, do func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
