package remaining

import (
	"math"
	"time"
)

const (
	// slots is enough for one and a half quotas, as two slots in a row hold more than a
	// sixteenth of one. So a window fits, unless what its requests cost was overestimated.
	slots         = 3 * slotsPerQuota
	slotsPerQuota = 16
)

// sends is a log of the requests that this process sent, in a ring of slots.
type sends struct {
	slots [slots]slot
	next  int // the oldest slot, which is overwritten next
}

type slot struct {
	last time.Duration // when the last request in the slot was sent
	use  Use
}

// add adds a request, in any order. A slot holds at most a sixteenth of the quota, or
// one request.
func (s *sends) add(now time.Duration, known, mean, quota float64) {
	newest := &s.slots[(s.next+slots-1)%slots]
	one := Use{}
	one.Add(1, known)
	if units := newest.use.Units(mean); units > 0 && units+one.Units(mean) <= quota/slotsPerQuota {
		newest.use.Add(1, known)
		newest.last = max(newest.last, now)
		return
	}
	s.slots[s.next] = slot{now, one}
	s.next = (s.next + 1) % slots
}

// giveBack subtracts the cost of a request that does not count from the latest ones.
func (s *sends) giveBack(known float64) {
	learned := known <= 0
	for k := 1; k <= slots && (learned || known > 0); k++ {
		newest := &s.slots[(s.next+slots-k)%slots].use
		if learned && newest.learned > 0 {
			newest.learned--
			return
		}
		taken := min(newest.known, known)
		newest.known, known = newest.known-taken, known-taken
	}
}

// since returns how many units were sent after t, or slightly more.
func (s *sends) since(t time.Duration, mean float64) (units float64) {
	for i := range s.slots {
		if s.slots[i].last > t {
			units += s.slots[i].use.Units(mean)
		}
	}
	return units
}

// clear returns the earliest time, t or later, after which no more than most units
// were sent.
func (s *sends) clear(t time.Duration, most, mean float64) time.Duration {
	begin, units := t, s.since(t, mean)
	if most += slack * max(most, 1); most < 0 {
		return never
	}
	for k := 0; units > most && k < slots; k++ { // rounding may leave some units of no slots
		oldest := &s.slots[(s.next+k)%slots]
		if cost := oldest.use.Units(mean); cost > 0 && oldest.last > begin {
			t, units = oldest.last, units-cost
		}
	}
	return t
}

// sustained returns the highest rate at which room lasts, if what was sent comes back after length.
func (s *sends) sustained(now, length time.Duration, room, mean float64) float64 {
	rate := math.Inf(1)
	for k := range slots {
		oldest := &s.slots[(s.next+k)%slots]
		if left := (oldest.last + length - now).Seconds(); left > 0 {
			rate = min(rate, room/left)
			room += oldest.use.Units(mean)
		}
	}
	return min(rate, room/length.Seconds())
}
