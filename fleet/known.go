package fleet

import "time"

// known is what a leader knows of the limit of the service. When a request is
// throttled, the service has nothing saved up. From then on it accepts what its
// limit allows, and no more, however it sends in between.
type known struct {
	limit  float64       // per second; 0 where it is not known
	since  time.Duration // when it was found
	at     time.Duration // up to when the outcomes are counted
	excess float64       // outcomes since then, above the limit
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
	probe      = 1.0  // requests per second
	proof      = 2.0  // requests above the limit that prove a higher one
	proofPart  = 0.01 // seconds
	growth     = 0.5  // seconds
	mostSaved  = 0.2  // seconds
)

func (k *known) find(now time.Duration, limit float64) {
	k.limit, k.since, k.at, k.excess = limit, now, now, 0
}

// add counts outcomes up to now.
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

// measured returns the limit that the outcomes show when one is throttled.
func (k *known) measured(now time.Duration) float64 {
	if k.limit == 0 || k.more() {
		return k.recent()
	}
	return k.limit + k.excess/max(now-k.since, 100*time.Millisecond).Seconds()
}

func (k *known) proven() float64 { return k.excess - proof - proofPart*k.limit }

// more reports whether the outcomes prove that the limit is higher.
func (k *known) more() bool { return k.proven() > 0 }

// most returns the highest rate at now.
func (k *known) most(now time.Duration) float64 {
	if now-k.since < dipTime {
		return k.limit * (1 - dip)
	}
	rate := k.limit + max(leastProbe*k.limit, min(probe, mostProbe*k.limit))
	return rate + max(k.proven(), 0)/growth
}
