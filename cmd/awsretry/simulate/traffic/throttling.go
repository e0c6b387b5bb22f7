package traffic

import (
	"math"
	"time"
)

// A throttling is how a service refuses requests: those above a rate, which a
// token bucket limits, or a share of all.
type throttling struct {
	rate, burst float64 // 0: a share
	share       float64 // of all requests, if the rate is 0
	better      float64 // the squared errors of the other model, in those of this one
}

// fitThrottling finds the throttling that explains best how many requests of
// each bin were refused.
func fitThrottling(bins []count, width time.Duration) throttling {
	bins, width = widened(bins, width)
	var sent, refused int64
	for _, c := range bins {
		sent += c.sent
		refused += c.throttled
	}
	t := throttling{share: float64(refused) / float64(sent)}
	random := 0.0
	for _, c := range bins {
		random += square(float64(c.throttled) - t.share*float64(c.sent))
	}
	limit, errors := fitBucket(bins, width)
	switch {
	case errors < random:
		limit.better = random / max(errors, 1)
		return limit
	default:
		t.better = errors / max(random, 1)
		return t
	}
}

// widened merges bins until they have twenty requests each, so that a bin shows
// a share and a rate.
func widened(bins []count, width time.Duration) ([]count, time.Duration) {
	sent, busy := int64(0), int64(0)
	for _, c := range bins {
		if sent += c.sent; c.sent > 0 {
			busy++
		}
	}
	const enough = 20
	if sent == 0 || sent/max(busy, 1) >= enough {
		return bins, width
	}
	factor := int(min((enough*int64(len(bins))+sent-1)/sent, int64(len(bins))))
	merged := make([]count, (len(bins)+factor-1)/factor)
	for i, c := range bins {
		merged[i/factor].add(c)
	}
	return merged, width * time.Duration(factor)
}

// fitBucket finds the token bucket with the least squared errors: on a grid of
// rates around what was let through while the service throttled, and of bursts,
// which becomes finer around the best.
func fitBucket(bins []count, width time.Duration) (best throttling, errors float64) {
	passed, throttling := 0.0, 0.0
	for _, c := range bins {
		if c.throttled > 0 {
			passed += float64(c.sent - c.throttled)
			throttling += width.Seconds()
		}
	}
	if passed == 0 {
		return best, math.Inf(1)
	}
	errors = math.Inf(1)
	try := func(rate, burst float64) {
		if rate <= 0 || burst < 1 {
			return
		}
		if e := bucketErrors(bins, width, rate, burst, errors); e < errors {
			best.rate, best.burst, errors = rate, burst, e
		}
	}
	guess := passed / throttling
	for i := -20; i <= 8; i++ {
		for burst := 1.0; burst <= max(64*guess, 2); burst *= 2 {
			try(guess*math.Pow(1.06, float64(i)), burst)
		}
	}
	for fine := 0.03; fine > 0.0005; fine /= 2 {
		rate, burst := best.rate, best.burst
		for _, r := range []float64{1 - fine, 1, 1 + fine} {
			for _, b := range []float64{1 - 8*fine, 1, 1 + 8*fine} {
				try(rate*r, burst*b)
			}
		}
	}
	return best, errors
}

// bucketErrors returns the squared errors of a token bucket that is full at
// first, or any number above most. A bin's requests spread over the bin.
func bucketErrors(bins []count, width time.Duration, rate, burst, most float64) float64 {
	tokens, errors := burst, 0.0
	for _, c := range bins {
		tokens += rate * width.Seconds()
		passes := min(float64(c.sent), tokens)
		errors += square(float64(c.throttled) - (float64(c.sent) - passes))
		if errors > most {
			return errors
		}
		tokens = min(tokens-passes, burst)
	}
	return errors
}

func square(x float64) float64 { return x * x }
