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
