package tokens

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	countStep  = 5 * time.Second
	countSteps = int64(time.Minute / countStep)
)

// A counter counts the events of the last minute, and of up to 5 seconds before
// that. It is safe for concurrent use, and has no lock. The zero counter is not
// usable; call newCounter.
type counter struct {
	start time.Time
	slots [countSteps + 1]atomic.Uint64 // the step since start, plus one, in the upper half, and its count in the lower
}

// newCounter returns a counter without events.
func newCounter() *counter { return &counter{start: time.Now()} }

func (c *counter) now() int64 { return int64(time.Since(c.start)/countStep) + 1 }

// add counts an event that happens now.
func (c *counter) add() {
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

// count returns the number of events.
func (c *counter) count() (n int64) {
	now := c.now()
	for i := range c.slots {
		if v := c.slots[i].Load(); int64(v>>32) >= now-countSteps {
			n += int64(v & math.MaxUint32)
		}
	}
	return n
}
