package remaining

import (
	"math"
	"time"
)

const (
	// slots is enough for one and a half quotas, as two slots in a row hold more than
	// a sixteenth of one. So the requests of one window are not overwritten.
	slots         = 3 * slotsPerQuota
	slotsPerQuota = 16
)

// sends is a log of the requests that this process sent, in a ring of slots.
type sends struct {
	slots [slots]slot
	next  int // the oldest slot, which is overwritten next
}

type slot struct {
	last  time.Duration // when the last request in the slot was sent
	units float64
}

// add adds a request, in any order. A slot holds at most a sixteenth of the quota, or
// one request.
func (s *sends) add(now time.Duration, cost, quota float64) {
	newest := &s.slots[(s.next+slots-1)%slots]
	if newest.units > 0 && newest.units+cost <= quota/slotsPerQuota {
		newest.units += cost
		newest.last = max(newest.last, now)
		return
	}
	s.slots[s.next] = slot{now, cost}
	s.next = (s.next + 1) % slots
}

// giveBack subtracts the cost of a request that does not count from the latest ones.
func (s *sends) giveBack(cost float64) {
	for k := 1; k <= slots && cost > 0; k++ {
		newest := &s.slots[(s.next+slots-k)%slots]
		taken := min(newest.units, cost)
		newest.units, cost = newest.units-taken, cost-taken
	}
}

// since returns how many units were sent after t, or slightly more.
func (s *sends) since(t time.Duration) (units float64) {
	for i := range s.slots {
		if s.slots[i].last > t {
			units += s.slots[i].units
		}
	}
	return units
}

// clear returns the earliest time, t or later, after which no more than most units
// were sent.
func (s *sends) clear(t time.Duration, most float64) time.Duration {
	begin, units := t, s.since(t)
	if most += slack * max(most, 1); most < 0 {
		return never
	}
	for k := 0; units > most && k < slots; k++ { // rounding may leave some units of no slots
		if oldest := &s.slots[(s.next+k)%slots]; oldest.units > 0 && oldest.last > begin {
			t, units = oldest.last, units-oldest.units
		}
	}
	return t
}

// sustained returns the highest rate at which room lasts, if the units that were
// sent come back after length.
func (s *sends) sustained(now, length time.Duration, room float64) float64 {
	rate := math.Inf(1)
	for k := range slots {
		oldest := &s.slots[(s.next+k)%slots]
		if left := (oldest.last + length - now).Seconds(); oldest.units > 0 && left > 0 {
			rate = min(rate, room/left)
			room += oldest.units
		}
	}
	return min(rate, room/length.Seconds())
}
