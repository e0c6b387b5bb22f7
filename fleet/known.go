package fleet

import (
	"math"
	"time"
)

// known is what a leader knows of the limit of the service. When a request is
// throttled, the service has nothing saved up. From then on it accepts what its
// limit allows and no more, however the requests are spread: what was accepted
// between two throttled ones is the limit. If more than that is accepted, the
// limit has risen.
type known struct {
	limit    float64       // per second; 0 where it is not known
	over     time.Duration // in which it was measured
	since    time.Duration // when it was found: a request was throttled
	base     float64       // count at that time
	settling bool          // the rate has changed much at that time

	at             time.Duration // up to when the outcomes are counted
	rate           float64       // of the fleet since then
	granted        float64       // requests
	sent, refused  float64       // requests whose outcomes are known, and throttled ones of them
	unused         float64       // part of granted that was not sent, smoothed
	earlier, later count         // the last but one and the last but two
}

// A count is how many requests were accepted up to a time.
type count struct {
	at       time.Duration
	accepted float64
}

const (
	// The rate is a little below a limit after it was found, so that the service
	// is not at once out of what it saved up.
	dip     = 0.03
	dipTime = time.Second

	// After that it is above the limit, by this part of it or by this much per
	// second, but by no more than the larger part: to notice a limit that rises.
	// So a throttled request follows every 5 to 10 seconds.
	probePart, probe, mostProbe = 0.01, 1.0, 0.1

	// The limit may be wrong by so many requests in the time in which it was
	// measured: the rate goes so far above it too.
	miscount = 2.0

	// noise is how many requests more than the limit allows prove a higher one,
	// surely how many show that it rose a while ago. The rate then grows by a
	// factor of e in growth.
	noise, surely = 1.5, 5.0
	growth        = 700 * time.Millisecond

	// mostSaved is what a service is expected to save up at most, in seconds of
	// its limit: what is sent less than the limit allows counts only so far.
	mostSaved = 0.2

	// smoothing is the time over which what processes report corrects what they
	// were granted: reports come in lumps. More than outside requests without a
	// grant are those of processes that join.
	smoothing = 3 * time.Second
	outside   = 6.0

	longestOver  = 30 * time.Second // that measurements which agree are averaged over
	shortestOver = 500 * time.Millisecond
)

// find sets the limit, which was measured over a time up to now.
func (k *known) find(now time.Duration, limit float64, over time.Duration) {
	k.limit, k.over = limit, max(over, shortestOver)
	k.since, k.base = now, k.accepted()
}

// throttled finds the limit when a request was throttled at a rate. soon says
// that this is not long after the last time; then the part of the requests that
// was accepted at that rate shows the limit.
func (k *known) throttled(now time.Duration, rate, part float64, soon bool) {
	since := max(now-k.since, shortestOver)
	excess := k.excess(now)
	k.settling = true
	switch {
	case k.limit > 0 && soon:
		k.find(now, part*rate, since)
	case k.limit == 0 || excess > surely:
		k.find(now, min(k.recent(now), rate), shortestOver)
	case math.Abs(excess) <= 1.5*noise: // as before
		k.settling = false
		over := min(k.over+since, longestOver)
		k.find(now, min(k.limit+excess/over.Seconds(), rate), over)
	default:
		k.settling = false
		k.find(now, min(k.limit+excess/since.Seconds(), rate), since)
	}
}

// add counts outcomes up to now, when the rate of the fleet is rate. Processes
// report what they sent so much later.
func (k *known) add(now, later time.Duration, rate, accepted, throttled float64) {
	k.earlier, k.later = k.later, count{k.at, k.accepted()}
	passed := (now - k.at).Seconds()
	k.granted += k.rate * passed
	k.at, k.rate = now, rate
	k.sent += accepted + throttled
	k.refused += throttled
	unused := k.granted - k.sent - rate*later.Seconds()
	settling := k.settling && now-k.since <= dipTime
	if settling || unused < k.unused-outside {
		k.unused = unused
	}
	k.unused += (unused - k.unused) * min(passed/smoothing.Seconds(), 1)
	since := (now - k.since).Seconds()
	if settling {
		k.base = k.accepted() - (1-dip)*k.limit*since
	}
	k.base = min(k.base, k.accepted()-k.limit*(since-mostSaved))
}

// accepted returns how many requests were accepted. It goes by what was granted,
// which the processes send evenly.
func (k *known) accepted() float64 { return k.granted - k.unused - k.refused }

// excess returns how many more were accepted since the limit was found than it
// allows.
func (k *known) excess(now time.Duration) float64 {
	return k.accepted() - k.base - k.limit*(now-k.since).Seconds()
}

// recent returns the rate of what was accepted in the last steps.
func (k *known) recent(now time.Duration) float64 {
	if k.earlier.at == 0 {
		return k.rate
	}
	return (k.accepted() - k.earlier.accepted) / max(now-k.earlier.at, shortestOver/5).Seconds()
}

// more reports whether the outcomes prove that the limit is higher.
func (k *known) more() bool { return k.excess(k.at) > noise }

// most returns the highest rate at now.
func (k *known) most(now time.Duration) float64 {
	if now-k.since < dipTime {
		return k.limit * (1 - dip)
	}
	doubt := min(1.5*miscount/k.over.Seconds(), 0.04*k.limit)
	rate := k.limit + max(probePart*k.limit, min(max(probe, doubt), mostProbe*k.limit))
	proven := max(k.excess(now)-noise, 0)
	return rate + min(proven*proven/4, proven/growth.Seconds())
}
