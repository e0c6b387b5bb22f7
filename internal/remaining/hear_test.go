package remaining

import (
	"testing"
	"time"

	"example.com/awsretry/internal/limitheaders"
)

// A refusal is a surprise only if the limit had room for the request.
func TestSurprises(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name      string
		remaining float64
		surprise  bool
	}{{"with room", 50, true}, {"sent again one window later", 0, false}} {
		says := limitheaders.Limit{Quota: 100, Remaining: tt.remaining, Reset: 60 * s}
		m := New(0, says, 0)
		m.Hear(says, Response{At: s, Sent: s - 1, Number: 1, Trip: 1})
		m.Take(2*s, 1, 2, 0, InTurn)
		says.Remaining = 0
		m.Hear(says, Response{At: 2*s + 1, Sent: 2 * s, Number: 2, Trip: 1, Throttled: true, Free: true})
		if got := m.Surprises > 0; got != tt.surprise {
			t.Errorf("%s: a surprise: %v, want %v", tt.name, got, tt.surprise)
		}
	}
}

// A request that begins a window, whatever it costs, is no other client and hides none.
func TestCrowded(t *testing.T) {
	says := limitheaders.Limit{Quota: 100, Remaining: 100, Reset: time.Minute}
	m := New(0, says, 0)
	m.Hear(says, Response{At: time.Second, Number: 1, Free: true})
	if m.Settle(1, 50, false, true); m.crowded() {
		t.Error("by a request that was not counted")
	}
	says.Remaining = 50
	m.Hear(says, Response{At: 62 * time.Second, Sent: 62 * time.Second, Number: 2})
	if m.Settle(2, 50, true, true); m.crowded() {
		t.Error("by the first request of the window")
	}
	says.Remaining = 10
	m.Hear(says, Response{At: 63 * time.Second, Sent: 63 * time.Second, Number: 3})
	if m.Settle(3, 1, true, true); !m.crowded() {
		t.Error("not by the 39 that others took")
	}
}
