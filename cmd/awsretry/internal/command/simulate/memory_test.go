package simulate

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// The memory limit leaves room above the memory in use.
func TestMemoryLimit(t *testing.T) {
	for inUse, want := range map[uint64]int64{0: 1 << 30, 1 << 30: 2 << 30} {
		if got := memoryLimit(inUse); got != want {
			t.Errorf("%d bytes in use: limit %d, want %d", inUse, got, want)
		}
	}
	held := make([]byte, 64<<20)
	runtime.GC()
	if got := memoryInUse(); got < uint64(len(held)) {
		t.Errorf("%d bytes in use, want more than %d", got, len(held))
	}
	runtime.KeepAlive(held)
}

func TestCollectLess(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	before := limit()
	undo := collectLess()
	if got := limit(); got < 1<<30 || got == math.MaxInt64 {
		t.Errorf("the limit is %d", got)
	}
	undo()
	t.Setenv("GOGC", "50") // which says how much to collect
	defer collectLess()()
	if got := limit(); got != before {
		t.Errorf("afterwards the limit is %d, want %d as before", got, before)
	}
}
