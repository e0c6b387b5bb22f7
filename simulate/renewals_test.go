package simulate

import (
	"testing"
	"testing/synctest"
	"time"
)

// A renewal is at an instant that no caller has, and its time is about when it
// is due.
func TestInstantsOfRenewals(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l := &member{link: link{grid: newGrid(1000), seed: 1, owner: 77}}
		time.Sleep(1234567 * time.Nanosecond)
		for range 1000 {
			for _, due := range []time.Duration{0, 1, 200 * time.Millisecond} {
				delay := l.RenewIn(due)
				if low, high := due-due/20, due+due/20+2*l.grid.tick; delay < low || delay > high {
					t.Fatalf("a renewal that is due in %v is in %v, want from %v to %v", due, delay, low, high)
				}
				if again := l.RenewIn(due); again != delay {
					t.Fatalf("a renewal that is due in %v is in %v and in %v", due, delay, again)
				}
				time.Sleep(delay)
				if now := l.grid.now(); !l.grid.owns(l.owner, now-1) {
					t.Fatalf("a renewal is at %d, want one nanosecond after an instant of its owner", now)
				}
			}
		}
	})
}
