package announced

import (
	"math"
	"time"
)

const (
	// slots is how many slots there are. With twice those of a quota, what was sent
	// in a length is not overwritten.
	slots         = 2 * slotsPerQuota
	slotsPerQuota = 16
)

// sends is a log of what this process sent, in a ring of a few slots.
type sends struct {
	slots [slots]slot
	next  int // the oldest
}

type slot struct {
	last  time.Duration // when the last of them was sent
	units float64
}

// add adds a request. A slot has at most a sixteenth of the quota, or one request.
func (s *sends) add(now time.Duration, cost, quota float64) {
	newest := &s.slots[(s.next+slots-1)%slots]
	if newest.units > 0 && newest.units+cost <= quota/slotsPerQuota {
		newest.units += cost
		newest.last = now
		return
	}
	s.slots[s.next] = slot{now, cost}
	s.next = (s.next + 1) % slots
}

// giveBack takes back what a request cost.
func (s *sends) giveBack(cost float64) {
	newest := &s.slots[(s.next+slots-1)%slots]
	newest.units = max(newest.units-cost, 0)
}

// since returns how much was sent after t, or a little more.
func (s *sends) since(t time.Duration) (units float64) {
	for i := range s.slots {
		if s.slots[i].last > t {
			units += s.slots[i].units
		}
	}
	return units
}

// clear returns the earliest time from t on after which at most that was sent.
func (s *sends) clear(t time.Duration, most float64) time.Duration {
	begin, units := t, s.since(t)
	for k := range slots {
		if units <= most+slack*max(most, 1) {
			return t
		}
		if oldest := &s.slots[(s.next+k)%slots]; oldest.units > 0 && oldest.last > begin {
			t, units = oldest.last, units-oldest.units
		}
	}
	if units > most+slack*max(most, 1) {
		return never
	}
	return t
}

// sustained returns the highest rate at which room lasts if what was sent comes
// back after that length.
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
