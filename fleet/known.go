package fleet

import (
	"math"
	"time"
)

// known is what a leader knows of the limit of the service. When a request is
// throttled, the service has nothing saved up. From then on it accepts what its
// limit allows, and no more, however the requests are spread.
type known struct {
	limit  float64       // per second; 0 where it is not known
	over   time.Duration // in which it was measured
	since  time.Duration // when the last request was throttled
	at     time.Duration // up to when the outcomes are counted
	excess float64       // accepted since then, above the limit
	steps  [3]struct {   // the last ones
		at       time.Duration
		accepted float64
	}
}

const (
	dip        = 0.03 // of the limit, that the rate is below it after a cut
	dipTime    = 1 * time.Second
	leastProbe = 0.01 // of the limit, that the rate is above it after that
	mostProbe  = 0.1
	probe      = 1.0 // requests per second
	noise      = 3.0 // requests above the limit that prove a higher one
	growth     = 0.7 // seconds
	mostSaved  = 0.2 // seconds
)

func (k *known) find(now time.Duration, limit float64, over time.Duration) {
	k.limit, k.over = limit, over
	k.since, k.at, k.excess = now, now, 0
}

// throttled finds the limit again when a request was throttled at a rate.
func (k *known) throttled(now time.Duration, rate float64) {
	since := max(now-k.since, 100*time.Millisecond)
	switch {
	case k.limit == 0 || k.more(): // it was too long ago that the service had nothing
		k.find(now, min(k.recent(), rate), 500*time.Millisecond)
	case math.Abs(k.excess) <= 1.5*noise: // the measurements agree
		over := min(k.over+since, 30*time.Second)
		k.find(now, min(k.limit+k.excess/over.Seconds(), rate), over)
	default:
		k.find(now, min(k.limit+k.excess/since.Seconds(), rate), since)
	}
}

// add counts what was accepted up to now.
func (k *known) add(now time.Duration, accepted float64) {
	k.excess += accepted - k.limit*(now-k.at).Seconds()
	k.excess = max(k.excess, -mostSaved*k.limit)
	copy(k.steps[:], k.steps[1:])
	last := &k.steps[len(k.steps)-1]
	last.at, last.accepted = k.at, accepted
	k.at = now
}

// recent returns the rate of the last steps.
func (k *known) recent() float64 {
	sum := 0.0
	for _, s := range k.steps {
		sum += s.accepted
	}
	return sum / max(k.at-k.steps[0].at, 100*time.Millisecond).Seconds()
}

// more reports whether the outcomes prove that the limit is higher.
func (k *known) more() bool { return k.excess > noise }

// most returns the highest rate at now.
func (k *known) most(now time.Duration) float64 {
	if now-k.since < dipTime {
		return k.limit * (1 - dip)
	}
	doubt := 2 / k.over.Seconds()
	rate := k.limit + max(leastProbe*k.limit, min(max(probe, doubt), mostProbe*k.limit))
	proven := max(k.excess-noise, 0)
	return rate + min(proven*proven/4, proven/growth)
}
