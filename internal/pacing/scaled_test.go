package pacing

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
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
		if accepted < tt.least || throttled > tt.share+0.06 {
			t.Errorf("%g/s and %.0f %% at random: %.3f of the limit is accepted, want %g; %.1f %% are throttled",
				tt.limit, 100*tt.share, accepted, tt.least, 100*throttled)
		}
	}
}

// A look tells a background from throttling that the rate causes, and both from
// a limit that has fallen below the look.
func TestLook(t *testing.T) {
	for _, tt := range []struct {
		name      string
		oneIn     int // response is throttled; 0: none
		odds      func(float64) bool
		least     time.Duration // that the look takes
		most      time.Duration
		low, high float64 // rate after it
	}{
		{"as much as before", 20, func(odds float64) bool { return odds > 0 }, 4 * time.Second, 5 * time.Second, 80, 92},
		{"nothing", 0, func(odds float64) bool { return odds < 0 }, 500 * time.Millisecond, 3 * time.Second, 80, 92},
		{"nearly all", 1, func(odds float64) bool { return odds == 0 }, 0, time.Second, 40, 56},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, now := newScaled(0.9), time.Second
			s.Begin(now, 100)
			s.fallen = outcomes{responses: 101, throttled: 6}
			s.look(now, 100)
			begin := now
			if rate, _ := s.Pace(); rate != 60 {
				t.Fatalf("the rate of a look at 100/s is %v, want 60", rate)
			}
			for i := 1; s.phase == holding; i++ {
				sent := now + time.Nanosecond
				now += time.Second / 60
				s.Update(now, sent, tt.oneIn > 0 && i%tt.oneIn == 0)
			}
			rate, _ := s.Pace()
			if !tt.odds(s.odds) || now-begin < tt.least || now-begin > tt.most || rate < tt.low || rate > tt.high {
				t.Errorf("the odds are %.2f after %v, and the rate is %.1f", s.odds, now-begin, rate)
			}
		})
	}
}

// Where a background is known, a cut goes by what was accepted, but some
// responses by chance do not halve the rate: it would not come back.
func TestFewResponsesCutLittle(t *testing.T) {
	for _, tt := range []struct {
		responses, throttled int
		rate                 float64 // of them
		limit                float64
	}{
		{4, 4, 10, 7.1}, {200, 100, 10, 5.7},
	} {
		s, now := newScaled(0.9), time.Minute
		s.cut(now, 10)
		s.background, s.odds = 0.08, s.MostOdds
		now += time.Duration(s.rise * float64(time.Second))
		s.rate, s.suspectedAt = 10, now
		s.suspects = outcomes{tt.responses, tt.throttled}
		now += time.Duration(float64(tt.responses) / tt.rate * float64(time.Second))
		if got := s.throttledAt(now); math.Abs(got-tt.limit) > 0.05 {
			t.Errorf("%d of %d responses are throttled, at 10/s: the limit is %.2f, want %.2f", tt.throttled, tt.responses, got, tt.limit)
		}
	}
}

// A look is worth its cost only if its responses can tell the share from an
// eighth of it.
func TestTelling(t *testing.T) {
	for _, tt := range []struct {
		limit, share float64
		want         bool
	}{
		{6, 0.2, false}, {7, 0.2, true}, {7, 0.05, true}, {6, 0.05, false}, {7, 0.03, false}, {12, 0.03, true}, {12, 0.02, false}, {20, 0.02, true},
	} {
		if got := newScaled(0.9).telling(tt.limit, tt.share); got != tt.want {
			t.Errorf("at %g/s with %g %%: %v", tt.limit, 100*tt.share, got)
		}
	}
}

// Returns to the limit make the law forget what was accepted before the fall
// only if more would have been throttled on the way than stays away by luck, in
// one return or in several with no other cut between them.
func TestFallIsRemembered(t *testing.T) {
	for _, tt := range []struct {
		name     string
		clean    []int // responses before each cut; below 0: before the rate is back at the limit
		accepted float64
	}{
		{"few", []int{40}, 100},
		{"few, and few", []int{40, 40}, 20},
		{"few, and few, with a cut between them", []int{40, -10, 40}, 100},
		{"many", []int{400}, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, now := newScaled(0.9), time.Second
			s.Begin(now, 100)
			s.cut(now, 20)
			s.meter.rate = 20
			for _, clean := range tt.clean {
				s.top, s.fallen = 110, outcomes{responses: 301, throttled: 31}
				s.accepted = max(s.accepted, 100)
				s.fresh = outcomes{responses: max(clean, -clean)}
				sent := s.since + time.Duration(s.rise*float64(time.Second))
				if clean < 0 {
					sent = s.since
				}
				now += time.Minute
				s.phase, s.limit, s.rate = following, 20, 20
				s.slowDown(now, sent)
			}
			if math.Abs(s.accepted-tt.accepted) > 1 {
				t.Errorf("%.1f/s are remembered, want %.1f", s.accepted, tt.accepted)
			}
		})
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

// Throttling responses of a slow service come much sooner than the others. That
// does not make their share look higher.
func TestScaledSlowResponses(t *testing.T) {
	s, now := newScaled(0.9), time.Duration(1)
	s.Update(now, now, true)
	s.measureTrip(time.Second)
	s.cut(now, 100)
	for range 10 {
		now += 50 * time.Millisecond
		s.Update(now, now-10*time.Millisecond, true)
	}
	if rate, _ := s.Pace(); rate < 90 {
		t.Errorf("half a second after a cut to 90/s, before any response can be there, the rate is %.1f", rate)
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
