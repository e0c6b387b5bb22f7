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
