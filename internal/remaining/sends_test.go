package remaining

import (
	"testing"
	"time"
)

func TestSendsOutOfOrder(t *testing.T) {
	var s sends
	s.add(5*time.Second, 2, 1, 100)
	s.add(time.Second, 0, 1, 100)
	if units := s.since(4*time.Second, 1); units < 2 {
		t.Errorf("%v of the 2 units that were sent after it", units)
	}
}

func TestSends(t *testing.T) {
	var log sends
	for i := range 100 {
		log.add(time.Duration(i)*time.Second, 0, 1, 100)
	}
	if got := log.since(49*time.Second, 1); got < 50 || got > 57 {
		t.Errorf("%v since then, want 50 or a slot more", got)
	}
	if got := log.clear(0, 50, 1); got < 49*time.Second || got > 56*time.Second {
		t.Errorf("50 are left of the log at %v", got)
	}
	if got := log.clear(200*time.Second, 0, 1); got != 200*time.Second {
		t.Errorf("a time after all of them is moved to %v", got)
	}
	var bursts sends
	for i := range 9 {
		bursts.add(time.Duration(i/3)*time.Second, 0, 1, 1)
	}
	if got := bursts.clear(-1, 4, 1); got != time.Second {
		t.Errorf("4 are left of bursts at %v, want 1s", got)
	}
	var large sends
	for i, cost := range []float64{.3, 1e15, .1} {
		large.add(time.Duration(i+1)*time.Second, cost, 1, 1)
	}
	if got := large.clear(0, 0, 1); got != 3*time.Second {
		t.Errorf("nothing is left of large ones at %v, want 3s", got)
	}
	if got := log.clear(0, -1, 1); got != never {
		t.Errorf("less than nothing at %v", got)
	}
	if got := log.sustained(100*time.Second, 100*time.Second, 10, 1); got < .9 || got > 1.1 {
		t.Errorf("%v/s, want as many as come back", got)
	}
	log.giveBack(0)
	if got := log.since(-1, 1); got != 99 {
		t.Errorf("%v in all, want 99", got)
	}
	var known sends
	for _, cost := range []float64{100, 3000, 5} {
		known.add(time.Second, cost, 1, 100)
	}
	known.giveBack(100)
	if got := known.since(-1, 1); got != 3005 {
		t.Errorf("%v of 3105 units after 100 were given back, want 3005", got)
	}
}
