package tokens

import "time"

// slots are send times. Of two blocks, the later one begins after the other ends.
type slots struct {
	at    time.Duration // the first one
	every time.Duration // the time between two; above 0
	n     int
}

// slotGrace is how long a slot can be used. Later use could put the requests of two
// seconds into one.
const slotGrace = 10 * time.Millisecond

// AddSlots makes callers wait for n slots, the first one at at and the others at
// intervals of every, and those that were added before, instead of tokens. Until
// ClearSlots, further slots are expected at the bucket's rate.
func (b *Bucket) AddSlots(at, every time.Duration, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	if !b.slotted {
		b.kept, b.slotted = b.tokens, true
	}
	if n > 0 {
		b.slots = append(b.slots, slots{at, every, n})
	}
	b.advance(now)
	b.serve(now)
}

// ClearSlots makes callers wait for tokens again. The bucket has the tokens that it
// had before the slots, unless one was used, and at least those of the time since
// the last use, but of them at most first.
func (b *Bucket) ClearSlots(first float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	if b.slotted {
		b.slotted, b.slots, b.tokens = false, nil, b.kept
	}
	b.tokens = min(max(b.tokens, min((now-b.used).Seconds()*b.rate, first)), b.capacity)
	b.serve(now)
}

// Ahead returns how many slots can still be used, if callers wait for them.
func (b *Bucket) Ahead() (n int, slotted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropSlots(b.Now(), 0)
	for _, s := range b.slots {
		n += s.n
	}
	return n, b.slotted
}

// due returns how many slots of s are at now or before.
func (s slots) due(now time.Duration) int {
	if now < s.at {
		return 0
	}
	return min(int((now-s.at)/s.every)+1, s.n)
}

// without returns s without the first n.
func (s slots) without(n int) slots {
	return slots{s.at + time.Duration(n)*s.every, s.every, s.n - n}
}

// readySlots returns how many slots can be used at now. It requires that b.mu is
// held.
func (b *Bucket) readySlots(now time.Duration) (n int) {
	for _, s := range b.slots {
		n += s.due(now) - s.due(now-slotGrace)
	}
	return n
}

// dropSlots drops the slots that can no longer be used, and the next n. It
// requires that b.mu is held.
func (b *Bucket) dropSlots(now time.Duration, n int) {
	for len(b.slots) > 0 {
		first := &b.slots[0]
		*first = first.without(first.due(now - slotGrace))
		used := min(n, first.n)
		*first, n = first.without(used), n-used
		if first.n > 0 {
			return
		}
		b.slots = b.slots[1:]
	}
}

// untilSlot returns the time from now to the n-th slot that can be used, counted
// from 1. It requires that b.mu is held and does not mutate b.
func (b *Bucket) untilSlot(now time.Duration, n int) time.Duration {
	last := now
	for _, s := range b.slots {
		s = s.without(s.due(now - slotGrace))
		if n <= s.n {
			return max(s.without(n-1).at-now, 0)
		}
		if n -= s.n; s.n > 0 {
			last = s.without(s.n - 1).at
		}
	}
	return max(last-now, 0) + b.durationFor(float64(n))
}
