package fleet

import (
	"math"
	"time"
)

// known is what a leader knows of the limit of the service. When a request is
// throttled, the service has nothing saved up. From then on it accepts what its
// limit allows, and no more, however the requests are spread.
type known struct {
	settling bool          // the rate has changed much
	limit    float64       // per second; 0 where it is not known
	over     time.Duration // in which it was measured
	since    time.Duration // when the last request was throttled
	at       time.Duration // up to when the outcomes are counted
	base     float64       // count at since

	// All requests since the beginning.
	granted, sent, refused float64
	unused                 float64     // of what was granted, smoothed
	rate                   float64     // in force
	steps                  [3]struct { // the last ones
		at    time.Duration
		count float64
	}
}

const (
	dip        = 0.03 // of the limit, that the rate is below it after a cut
	dipTime    = 1 * time.Second
	leastProbe = 0.01 // of the limit, that the rate is above it after that
	mostProbe  = 0.1
	probe      = 1.0 // requests per second
	lagTime    = 3 * time.Second
	noise      = 1.5
	agree      = 5
	outside    = 6   // requests above the limit that prove a higher one
	growth     = 0.7 // seconds
	mostSaved  = 0.2 // seconds
)

func (k *known) find(now time.Duration, limit float64, over time.Duration) {
	k.limit, k.over = limit, over
	k.since, k.base = now, k.count()
}

// throttled finds the limit again when a request was throttled at a rate.
func (k *known) throttled(now time.Duration, rate, part float64, quick bool) {
	since := max(now-k.since, 100*time.Millisecond)
	k.settling = true
	switch {
	case k.limit > 0 && quick:
		k.find(now, part*rate, since)
		return
	case k.limit == 0 || k.excess(now) > agree: // it was too long ago that the service had nothing
		k.find(now, min(k.recent(), rate), 500*time.Millisecond)
	case math.Abs(k.excess(now)) <= 1.5*noise: // the measurements agree
		k.settling = false
		over := min(k.over+since, 30*time.Second)
		k.find(now, min(k.limit+k.excess(now)/over.Seconds(), rate), over)
	default:
		k.settling = false
		k.find(now, min(k.limit+k.excess(now)/since.Seconds(), rate), since)
	}
}

// add counts what was granted at a rate and accepted and throttled up to now.
func (k *known) add(now, late time.Duration, rate, accepted, throttled float64) {
	passed := (now - k.at).Seconds()
	k.at = now
	k.granted += k.rate * passed
	k.rate = rate
	k.sent += accepted + throttled
	k.refused += throttled
	unused := k.granted - k.sent - rate*late.Seconds()
	settling := k.settling && now-k.since <= dipTime
	if settling || unused < k.unused-outside { // some sent without a grant
		k.unused = unused
	}
	k.unused += (unused - k.unused) * min(passed/lagTime.Seconds(), 1)
	if t := (now - k.since).Seconds(); settling {
		k.base = k.count() - (1-dip)*k.limit*t
	}
	k.base = min(k.base, k.count()-k.limit*((now-k.since).Seconds()-mostSaved))
	copy(k.steps[:], k.steps[1:])
	last := &k.steps[len(k.steps)-1]
	last.at, last.count = now, k.count()
}

// count returns how many requests were accepted. It is what was granted, which
// the processes send evenly, corrected slowly by what they report now and then.
func (k *known) count() float64 { return k.granted - k.unused - k.refused }

// excess returns what was accepted since the last throttling, above the limit.
func (k *known) excess(now time.Duration) float64 {
	return k.count() - k.base - k.limit*(now-k.since).Seconds()
}

// recent returns the rate of the last steps.
func (k *known) recent() float64 {
	first, last := k.steps[0], k.steps[len(k.steps)-1]
	if first.at == 0 {
		return k.rate
	}
	return (last.count - first.count) / max(last.at-first.at, 100*time.Millisecond).Seconds()
}

// more reports whether the outcomes prove that the limit is higher.
func (k *known) more() bool { return k.excess(k.at) > noise }

// most returns the highest rate at now.
func (k *known) most(now time.Duration) float64 {
	if now-k.since < dipTime {
		return k.limit * (1 - dip)
	}
	doubt := min(3/k.over.Seconds(), 0.04*k.limit)
	rate := k.limit + max(leastProbe*k.limit, min(max(probe, doubt), mostProbe*k.limit))
	proven := max(k.excess(now)-noise, 0)
	return rate + min(proven*proven/4, proven/growth)
}
