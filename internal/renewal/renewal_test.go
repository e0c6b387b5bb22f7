package renewal

import (
	"testing"
	"time"
)

type planned struct{ random }

func (p planned) Schedule() Schedule { return p }

func TestOf(t *testing.T) {
	if _, ok := Of(planned{}).(planned); !ok {
		t.Error("a client's own schedule is not used")
	}
	for _, client := range []any{nil, "another client"} {
		if _, ok := Of(client).(random); !ok {
			t.Errorf("the schedule of %v is not random", client)
		}
	}
}

// Processes that start together do not stay together.
func TestRandom(t *testing.T) {
	const due = 200 * time.Millisecond
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		in, token := random{}.In(due), random{}.Token()
		least, most = min(least, in), max(most, in)
		if token < 0 || token >= 1 {
			t.Fatalf("a process begins with %v tokens", token)
		}
	}
	if least < 190*time.Millisecond || least > 191*time.Millisecond ||
		most > 210*time.Millisecond || most < 209*time.Millisecond {
		t.Errorf("renewals that are due in %v are made in %v to %v", due, least, most)
	}
	if in := (random{}).In(0); in != 0 {
		t.Errorf("a renewal that is due is made in %v", in)
	}
}
