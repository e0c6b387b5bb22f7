package announced

import (
	"testing"
	"time"
)

func TestSendsOutOfOrder(t *testing.T) {
	var s sends
	s.add(5*time.Second, 2, 100)
	s.add(time.Second, 1, 100)
	if units := s.since(4 * time.Second); units < 2 {
		t.Errorf("%v of the 2 units that were sent after it", units)
	}
}
