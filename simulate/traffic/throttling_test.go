package traffic

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A bucket that explains a few refusals can sustain what was admitted.
func TestFewRefusals(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		const rate, burst = 50, 10
		bins := make([]count, 2000) // of 10 ms
		tokens := float64(burst)
		var refused int64
		for i := range bins {
			tokens = min(tokens+rate/100., burst)
			for range 3 {
				if random.Float64() > 0.42/3 {
					continue
				}
				bins[i].sent++
				if tokens >= 1 {
					tokens--
				} else {
					bins[i].throttled++
					refused++
				}
			}
		}
		fit := fitThrottling(bins, 10*time.Millisecond)
		if refused >= 2 && fit.share == 0 && (fit.rate < 40 || fit.rate > 60) {
			t.Errorf("seed %d: %d refusals: %.1f/s, burst %.1f; want 50/s, burst 10", seed, refused, fit.rate, fit.burst)
		}
	}
}
