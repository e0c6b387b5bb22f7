package pacing

import (
	"math"
	"testing"
	"time"
)

// A world feeds a law with the outcomes of requests that are sent at its rate,
// one after the other.
type world struct {
	law       *Scaled
	now       time.Duration
	trip      time.Duration
	throttles func(now time.Duration, rate float64) bool

	sent, throttled int
}

// until lets the world go on until a time.
func (w *world) until(end time.Duration) {
	type request struct {
		sent      time.Duration
		throttled bool
	}
	var flying []request
	next := w.now
	for {
		arrival := time.Duration(math.MaxInt64)
		if len(flying) > 0 {
			arrival = flying[0].sent + w.trip
		}
		if w.now = min(next, arrival); w.now > end {
			w.now = end
			return
		}
		if arrival <= next {
			w.law.Update(w.now, flying[0].sent, flying[0].throttled)
			flying = flying[1:]
			continue
		}
		rate, _ := w.law.Pace()
		if rate == 0 {
			rate = 20_000 // not limited
		}
		throttled := w.throttles(w.now, rate)
		w.sent++
		if throttled {
			w.throttled++
		}
		flying = append(flying, request{w.now, throttled})
		next = w.now + time.Duration(float64(time.Second)/rate)
	}
}

// above returns a service that throttles what is above a rate.
func above(limit float64) func(time.Duration, float64) bool {
	tokens, at := 1.0, time.Duration(0)
	return func(now time.Duration, _ float64) bool {
		tokens, at = min(tokens+limit*(now-at).Seconds(), max(limit/10, 1)), now
		if tokens < 1-1e-9 {
			return true
		}
		tokens--
		return false
	}
}

func newWorld(trip time.Duration, throttles func(time.Duration, float64) bool) *world {
	return &world{law: newScaled(0.9), now: 1, trip: trip, throttles: throttles}
}

func (w *world) rate() float64 {
	rate, _ := w.law.Pace()
	return rate
}

// Whatever the limit is, the rate settles just below it, and hardly anything
// is throttled.
func TestScaledFindsTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit float64
		trip  time.Duration
		share float64 // of throttled requests, at most
	}{
		{"1/s", 1, 10 * time.Millisecond, 0.03},
		{"2/s, responses after 5 s", 2, 5 * time.Second, 0.06},
		{"20/s", 20, 10 * time.Millisecond, 0.02},
		{"50/s, responses after 300 ms", 50, 300 * time.Millisecond, 0.01},
		{"1000/s", 1000, 10 * time.Millisecond, 0.005},
		{"10000/s", 10_000, 10 * time.Millisecond, 0.005},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.trip, above(tt.limit))
			length := max(20*time.Second, time.Duration(600/tt.limit)*time.Second)
			w.until(length)
			w.sent, w.throttled = 0, 0
			w.until(2 * length)
			accepted := float64(w.sent-w.throttled) / length.Seconds() / tt.limit
			share := float64(w.throttled) / float64(w.sent)
			if accepted < 0.94 || share > tt.share {
				t.Errorf("%.3f of the limit and %.4f throttled, want 0.94 and at most %v", accepted, share, tt.share)
			}
		})
	}
}

// Throttling of a share of what is sent, whatever the rate is, does not slow
// the caller down for long. A limit above it is still found.
func TestScaledBackground(t *testing.T) {
	for _, share := range []int{8, 12} {
		service, n := above(400), 0
		w := newWorld(10*time.Millisecond, func(now time.Duration, rate float64) bool {
			n++
			return n*7919%100 < share || service(now, rate)
		})
		w.until(90 * time.Second)
		w.sent, w.throttled = 0, 0
		w.until(w.now + 90*time.Second)
		accepted, throttled := float64(w.sent-w.throttled)/90, float64(w.throttled)/float64(w.sent)
		if accepted < 200 || throttled > 2*float64(share)/100 {
			t.Errorf("%d %%: %.0f/s of 400/s are accepted and %.1f %% throttled", share, accepted, 100*throttled)
		}
	}
}
