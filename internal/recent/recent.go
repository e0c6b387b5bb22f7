// Package recent counts what happened in the last minute.
package recent

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	step  = 5 * time.Second
	steps = int64(time.Minute / step)
)

// A Counter counts the events of the last minute, and of up to 5 seconds before
// that. It is safe for concurrent use, and has no lock. The zero Counter is not
// usable; call [New].
type Counter struct {
	start time.Time
	slots [steps + 1]atomic.Uint64 // the step since start, plus one, in the upper half, and its count in the lower
}

// New returns a Counter without events.
func New() *Counter { return &Counter{start: time.Now()} }

func (c *Counter) now() int64 { return int64(time.Since(c.start)/step) + 1 }

// Add counts an event that happens now.
func (c *Counter) Add() {
	now := c.now()
	slot := &c.slots[now%int64(len(c.slots))]
	for {
		old := slot.Load()
		count := uint64(1)
		switch was := int64(old >> 32); {
		case was > now: // of a goroutine that read the clock later
			return
		case was == now:
			if count += old & math.MaxUint32; count > math.MaxUint32 {
				return
			}
		}
		if slot.CompareAndSwap(old, uint64(now)<<32|count) {
			return
		}
	}
}

// Count returns the number of events.
func (c *Counter) Count() (n int64) {
	now := c.now()
	for i := range c.slots {
		if v := c.slots[i].Load(); int64(v>>32) >= now-steps {
			n += int64(v & math.MaxUint32)
		}
	}
	return n
}
