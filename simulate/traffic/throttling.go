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
	better      float64 // the squared errors of the other model, relative to those of this one
}

// fitThrottling finds the throttling that best explains when how many requests were
// refused.
func fitThrottling(bins []count, width time.Duration) throttling {
	group := groupOf(bins)
	var sent, refused int64
	for _, c := range bins {
		sent += c.sent
		refused += c.throttled
	}
	t := throttling{share: float64(refused) / float64(sent)}
	random := 0.0
	for _, c := range widened(bins) {
		random += square(float64(c.throttled) - t.share*float64(c.sent))
	}
	limit, errors := fitBucket(bins, width, group)
	overfit := 1 + 150/float64(sent) // a rate and a burst can be fitted to what chance does to a hundred requests
	if overfit*errors < random {
		limit.better = random / max(errors, 1)
		return limit
	}
	t.better = errors / max(random, 1)
	return t
}

// groupOf returns how many bins together have twenty requests, so that their sum
// shows a share and a rate.
func groupOf(bins []count) int {
	sent, busy := int64(0), int64(0)
	for _, c := range bins {
		if sent += c.sent; c.sent > 0 {
			busy++
		}
	}
	const enough = 20
	if sent == 0 || sent/max(busy, 1) >= enough {
		return 1
	}
	return int(min((enough*int64(len(bins))+sent-1)/sent, int64(len(bins))))
}

// widened merges bins into groups.
func widened(bins []count) []count {
	group := groupOf(bins)
	merged := make([]count, (len(bins)+group-1)/group)
	for i, c := range bins {
		merged[i/group].add(c)
	}
	return merged
}

// fitBucket finds the token bucket with the least squared errors, on a grid of
// bursts and of rates around what was admitted while the service throttled. The
// grid becomes finer around the best bucket. A log with few refusals may fit any
// rate above what was admitted. Then fitBucket returns the lowest rate whose errors
// are as small, that refuses no more of the admitted requests than the best bucket
// does, and that can sustain what was admitted.
func fitBucket(bins []count, width time.Duration, group int) (best throttling, errors float64) {
	passed, throttling, all := 0.0, 0.0, 0.0
	for _, c := range widened(bins) {
		all += float64(c.sent - c.throttled)
		if c.throttled > 0 {
			passed += float64(c.sent - c.throttled)
			throttling += width.Seconds() * float64(group)
		}
	}
	errors = math.Inf(1)
	if passed == 0 {
		return best, errors
	}
	type candidate struct{ rate, burst, errors, denied float64 }
	var good []candidate
	busy := busyBins(bins, group)
	asGood := func() float64 { return 1.02*errors + 4 }
	var denied float64 // by the best
	try := func(rate, burst float64) {
		if burst < 1 {
			return
		}
		e, wrong := bucketErrors(busy, rate*width.Seconds(), burst, asGood())
		if e < asGood() {
			good = append(good, candidate{rate, burst, e, wrong})
		}
		if e < errors {
			best.rate, best.burst, errors, denied = rate, burst, e, wrong
		}
	}
	guess := passed / throttling
	for burst := 1.0; burst <= max(64*guess, 2); burst *= 1.4 {
		for i := -80; i <= 40; i++ {
			try(guess*math.Pow(1.015, float64(i)), burst)
		}
	}
	for fine := 0.015; fine > 0.0005; fine /= 2 {
		rate, burst := best.rate, best.burst
		for _, r := range []float64{1 - fine, 1, 1 + fine} {
			for _, b := range []float64{1 - 16*fine, 1, 1 + 16*fine} {
				try(rate*r, burst*b)
			}
		}
	}
	most, least := asGood(), all/(width.Seconds()*float64(len(bins)))
	for _, c := range good {
		if c.errors < most && c.denied <= denied && c.rate < best.rate && c.rate >= least {
			best.rate, best.burst, errors = c.rate, c.burst, c.errors
		}
	}
	return best, errors
}

// A busyBin is a bin with requests, for the fit of a bucket.
type busyBin struct {
	idle            float64 // bins without requests before it
	sent, throttled float64
	last            bool // of its group
}

func busyBins(bins []count, group int) []busyBin {
	var busy []busyBin
	before := -1
	for i, c := range bins {
		if c.sent == 0 {
			continue
		}
		if before >= 0 && before/group != i/group {
			busy[len(busy)-1].last = true
		}
		busy = append(busy, busyBin{idle: float64(i - before - 1), sent: float64(c.sent), throttled: float64(c.throttled)})
		before = i
	}
	if before >= 0 {
		busy[len(busy)-1].last = true
	}
	return busy
}

// bucketErrors returns the squared errors of a token bucket that is full at first
// and gains that many tokens in a bin, or a number above most, and how many
// admitted requests it would have refused.
func bucketErrors(bins []busyBin, gain, burst, most float64) (errors, denied float64) {
	tokens, excess := burst, 0.0
	for i := range bins {
		b := &bins[i]
		tokens = min(tokens+b.idle*gain, burst) + gain
		passes := min(b.sent, math.Floor(tokens+1e-9))
		tokens = min(tokens-passes, burst)
		excess += b.throttled - b.sent + passes
		if b.last {
			errors += excess * excess
			denied += max(-excess, 0)
			if excess = 0; errors > most {
				return errors, denied
			}
		}
	}
	return errors, denied
}

func square(x float64) float64 { return x * x }
