package simulate

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// collectLess makes the garbage collector run less often until the memory is a
// gibibyte, because it is expensive to scan many small stacks. It changes
// nothing that the user has set.
func collectLess() (undo func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	percentBefore, limitBefore := debug.SetGCPercent(300), debug.SetMemoryLimit(memoryLimit(0))
	end := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				debug.SetMemoryLimit(memoryLimit(memoryInUse()))
			}
		}
	})
	return func() {
		close(end)
		following.Wait()
		debug.SetGCPercent(percentBefore)
		debug.SetMemoryLimit(limitBefore)
	}
}

// memoryLimit returns the memory limit for a number of bytes in use. With a limit
// close to that number, the collector would run all the time. Twice that number is
// what the collector allows by default.
func memoryLimit(inUse uint64) int64 { return int64(max(1<<30, 2*inUse)) }

// memoryInUse returns what the last collection found in use, and what the
// collector cannot free.
func memoryInUse() uint64 {
	in := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
	}
	metrics.Read(in)
	sum := uint64(0)
	for _, s := range in {
		sum += s.Value.Uint64()
	}
	return sum
}
