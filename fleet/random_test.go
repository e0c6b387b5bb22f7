package fleet

import (
	"testing"
	"time"
)

// Processes that start together do not stay together.
func TestRenewalsAreSpread(t *testing.T) {
	const due = 200 * time.Millisecond
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		in, token := random{}.RenewIn(due), random{}.FirstToken()
		least, most = min(least, in), max(most, in)
		if token < 0 || token >= 1 {
			t.Fatalf("a process begins with %v tokens", token)
		}
	}
	if least < 190*time.Millisecond || least > 191*time.Millisecond ||
		most > 210*time.Millisecond || most < 209*time.Millisecond {
		t.Errorf("renewals that are due in %v are made in %v to %v", due, least, most)
	}
	if in := (random{}).RenewIn(0); in != 0 {
		t.Errorf("a renewal that is due is made in %v", in)
	}
}
