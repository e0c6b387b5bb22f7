package pacing

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"example.com/awsretry/internal/worlds"
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

// Whatever the limit is, the rate settles just below it, and hardly anything
// is throttled.
func TestScaledFindsTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit float64
		trip  time.Duration
		least float64 // accepted part of the limit
		share float64 // of throttled requests, at most
	}{
		{"1/s", 1, 10 * time.Millisecond, 0.93, 0.035},
		{"2/s, responses after 5 s", 2, 5 * time.Second, 0.87, 0.1},
		{"20/s", 20, 10 * time.Millisecond, 0.95, 0.02},
		{"50/s, responses after 300 ms", 50, 300 * time.Millisecond, 0.95, 0.01},
		{"1000/s", 1000, 10 * time.Millisecond, 0.95, 0.005},
		{"10000/s", 10_000, 10 * time.Millisecond, 0.95, 0.005},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(tt.trip, above(tt.limit))
			length := max(20*time.Second, time.Duration(600/tt.limit)*time.Second)
			w.until(length)
			w.sent, w.throttled = 0, 0
			w.until(2 * length)
			accepted := float64(w.sent-w.throttled) / length.Seconds() / tt.limit
			share := float64(w.throttled) / float64(w.sent)
			if accepted < tt.least || share > tt.share {
				t.Errorf("%.3f of the limit and %.4f throttled, want %v and at most %v", accepted, share, tt.least, tt.share)
			}
		})
	}
}

// Throttling of a share of what is sent, whatever the rate is, does not slow
// the caller down for long. A limit above it is still found.
func TestScaledBackground(t *testing.T) {
	const seeds = 4
	for _, tt := range []struct {
		limit, share float64
		least        float64 // accepted part of the limit; without a background it is below 0.2
	}{
		{20, 0.08, 0.75}, {80, 0.05, 0.85}, {80, 0.08, 0.85}, {500, 0.03, 0.85}, {500, 0.08, 0.9}, {100, 0.2, 0.8},
	} {
		accepted, throttled := 0.0, 0.0
		for seed := range uint64(seeds) {
			service, random := above(tt.limit), rand.New(rand.NewPCG(seed, 0))
			w := newWorld(10*time.Millisecond, func(now time.Duration, rate float64) bool {
				return random.Float64() < tt.share || service(now, rate)
			})
			w.until(time.Minute)
			w.sent, w.throttled = 0, 0
			w.until(w.now + 3*time.Minute)
			accepted += float64(w.sent-w.throttled) / 180 / tt.limit / seeds
			throttled += float64(w.throttled) / float64(w.sent) / seeds
		}
		if accepted < tt.least || throttled > tt.share+0.07 {
			t.Errorf("%g/s and %.0f %% at random: %.3f of the limit is accepted, want %g; %.1f %% are throttled",
				tt.limit, 100*tt.share, accepted, tt.least, 100*throttled)
		}
	}
}

// A background that ends is given up, so that one throttled response cuts the
// rate again.
func TestScaledBackgroundEnds(t *testing.T) {
	service, random := above(200), rand.New(rand.NewPCG(1, 0))
	w := newWorld(10*time.Millisecond, func(now time.Duration, rate float64) bool {
		return now < 100*time.Second && random.Float64() < 0.08 || service(now, rate)
	})
	w.until(99 * time.Second)
	if w.law.background < 0.05 || w.law.background > 0.12 {
		t.Errorf("8 %% at random: the background is %.3f", w.law.background)
	}
	w.until(150 * time.Second)
	w.sent, w.throttled = 0, 0
	w.until(200 * time.Second)
	if share := float64(w.throttled) / float64(w.sent); w.law.background > 0 || share > 0.01 {
		t.Errorf("50 s later it is %.3f, and %.3f are throttled", w.law.background, share)
	}
}

// A limit below the one at which a background was found, and then none: the rate is
// back within a minute, whether the background is doubted or not.
func TestScaledBackgroundBelow(t *testing.T) {
	const found, lower = 30 * time.Second, 90 * time.Second
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		demand, share, part := 20*math.Pow(20, r.Float64()), 0.05+0.2*r.Float64(), 0.3+0.5*r.Float64()
		ends := lower + time.Duration(r.IntN(40))*time.Second
		top, low := above(demand), above(part*demand)
		w := newWorld(worlds.Pick(r, 10*time.Millisecond, 300*time.Millisecond), func(now time.Duration, rate float64) bool {
			switch {
			case now < lower:
				return now >= found && r.Float64() < share || top(now, rate)
			default:
				return now < ends && low(now, rate)
			}
		})
		w.until(ends)
		for w.law.rate < 0.9*demand && w.now < ends+time.Minute {
			w.until(w.now + time.Second)
		}
		if w.law.rate < 0.9*demand {
			t.Errorf("seed %d: %.3g/s, %.2g throttled at random, then %.3g/s for %v: a minute later the rate is %.3g",
				seed, demand, share, part*demand, ends-lower, w.law.rate)
		}
	}
}

// A limit that doubles is found soon, and one that halves at once.
func TestScaledFollowsTheLimit(t *testing.T) {
	const changed = 2 * time.Minute
	for _, tt := range []struct {
		limit, factor float64
		within        time.Duration // 90 % of the new limit is used, or the rate is cut
	}{
		{100, 2, 10 * time.Second}, {5, 2, time.Minute}, {100, 0.5, 0}, {1000, 0.5, 0},
	} {
		before, after := above(tt.limit), above(tt.limit*tt.factor)
		var first time.Duration
		w := newWorld(50*time.Millisecond, func(now time.Duration, rate float64) bool {
			if now < changed {
				return before(now, rate)
			}
			throttled := after(now, rate)
			if throttled && first == 0 {
				first = now
			}
			return throttled
		})
		w.until(changed)
		was, _ := w.law.Pace()
		if tt.factor > 1 {
			w.until(changed + tt.within)
			if rate, _ := w.law.Pace(); rate < 0.9*tt.limit*tt.factor {
				t.Errorf("%g/s doubles: after %v the rate is %.1f", tt.limit, tt.within, rate)
			}
			continue
		}
		for first == 0 {
			w.until(w.now + time.Millisecond)
		}
		w.until(first + 2*w.trip)
		if rate, _ := w.law.Pace(); rate > 0.91*was {
			t.Errorf("%g/s halves: two trips after the first throttling the rate is %.1f, before %.1f", tt.limit, rate, was)
		}
	}
}

var update = flag.Bool("update", false, "rewrite testdata/scaled.json")

// The rates over random outcomes of services of many kinds are those of
// testdata/scaled.json, which -update writes again after an intended change.
func TestScaledVectors(t *testing.T) {
	const file = "testdata/scaled.json"
	want, got := map[string][]float64{}, map[string][]float64{}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil && !*update {
		t.Fatal(err)
	}
	for _, service := range []struct {
		name       string
		limit      float64
		background float64       // share that is throttled at any rate
		trip       time.Duration // at most
		quietOneIn int           // a long silence in so many steps
		phases     int           // changes that must be seen at least
	}{
		{"fast", 300, 0, 20 * time.Millisecond, 500, 20},
		{"slow", 2, 0, 5 * time.Second, 100, 10},
		{"background", 400, 0.07, 20 * time.Millisecond, 1 << 30, 10},
		{"background at times", 100, 0.04, 50 * time.Millisecond, 2000, 20},
	} {
		changes := 0
		for seed := range uint64(8) {
			random := rand.New(rand.NewPCG(seed, 0))
			s, now := newScaled(0.9), time.Duration(0)
			for step := range 10_000 {
				rate, _ := s.Pace()
				if step%2500 == 2499 {
					got[service.name] = append(got[service.name], rate)
				}
				if rate == 0 || random.IntN(10) == 0 {
					rate = 2 * service.limit // before it limits, and others' requests
				}
				now += time.Duration((0.2 + random.ExpFloat64()) / rate * float64(time.Second))
				if random.IntN(service.quietOneIn) == 0 {
					now += time.Duration(random.IntN(20_000)) * time.Millisecond
				}
				sent := max(now-time.Duration(random.Int64N(int64(service.trip))), 0)
				throttled := random.Float64() < service.background || rate > service.limit && random.IntN(2) == 0
				was := s.phase
				s.Update(now, sent, throttled)
				if s.phase != was {
					changes++
				}
			}
		}
		if changes < service.phases {
			t.Errorf("%s: %d changes of the phase: the outcomes show too little", service.name, changes)
		}
		for i, rate := range want[service.name] {
			if math.Abs(got[service.name][i]/rate-1) > 1e-6 && !*update {
				t.Errorf("%s: seed %d, quarter %d: the rate is %v, want %v",
					service.name, i/4, i%4+1, got[service.name][i], rate)
			}
		}
	}
	if *update {
		data, err := json.Marshal(got)
		if err == nil {
			err = os.WriteFile(file, append(data, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	} else if len(want) != len(got) {
		t.Errorf("%s has %d services, want %d", file, len(want), len(got))
	}
}

// newScaled returns the law with the limiter's defaults, on a clock that begins
// with a whole second.
func newScaled(beta float64) *Scaled {
	meter := NewMeter(time.Unix(1_000_000, 0), 500*time.Millisecond, 0.8)
	return NewScaled(Limits{MinRate: 0.5, MinCapacity: 1}, meter, beta)
}
