package tokens

import "time"

// Slots are send times. Of two blocks, the later one begins after the other ends.
type Slots struct {
	At    time.Duration // the first one
	Every time.Duration // the time between two; above 0
	N     int
}

// slotGrace is how long a slot can be used. Later use could put the requests of two
// seconds into one.
const slotGrace = 10 * time.Millisecond

// AddSlots makes callers wait for these slots and those that were added before,
// instead of tokens. Until ClearSlots, further slots are expected at the bucket's
// rate.
func (b *Bucket) AddSlots(s Slots) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	b.advance(now)
	if !b.slotted {
		b.kept, b.slotted = b.tokens, true
	}
	if s.N > 0 {
		b.slots = append(b.slots, s)
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
		n += s.N
	}
	return n, b.slotted
}

// due returns how many slots of s are at now or before.
func (s Slots) due(now time.Duration) int {
	if now < s.At {
		return 0
	}
	return min(int((now-s.At)/s.Every)+1, s.N)
}

// without returns s without the first n.
func (s Slots) without(n int) Slots {
	return Slots{s.At + time.Duration(n)*s.Every, s.Every, s.N - n}
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
		used := min(n, first.N)
		*first, n = first.without(used), n-used
		if first.N > 0 {
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
		if n <= s.N {
			return max(s.without(n-1).At-now, 0)
		}
		if n -= s.N; s.N > 0 {
			last = s.without(s.N - 1).At
		}
	}
	return max(last-now, 0) + b.durationFor(float64(n))
}
