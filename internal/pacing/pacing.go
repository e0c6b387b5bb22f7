// Package pacing finds the rate at which to send to a service that throttles, from
// the outcomes of the requests.
package pacing

import "time"

// A Law turns outcomes into a send rate. Times are on one clock of the caller's
// and never decrease. A Law is not safe for concurrent use.
type Law interface {
	// Update takes the outcome, at now, of a request that was sent at sent. For a
	// request that took no send token, sent may be 0.
	Update(now, sent time.Duration, throttled bool)

	// Pace returns the current send rate in tokens per second, and the capacity of
	// the token bucket.
	Pace() (rate, capacity float64)

	// Measured returns the rate of outcomes that the law measures, per second.
	Measured() float64

	// Measure counts an outcome without changing the rate.
	Measure(now time.Duration, throttled bool)

	// Adopt begins at rate, as after a cut to it.
	Adopt(now time.Duration, rate float64)

	// Resume continues the curve of another law, which is at rate and returns to
	// limit. Limit returns the limit of the curve, and 0 if there is none.
	Resume(now time.Duration, rate, limit float64)
	Limit() float64

	// Begin begins at rate, as after the first throttling response.
	Begin(now time.Duration, rate float64)

	// SumOf makes it the law of that many equal processes. A new law is that of one.
	// The rate does not change.
	SumOf(now time.Duration, processes float64)
}

// Limits are the lower limits of a law's results.
type Limits struct {
	MinRate     float64 // per second, above 0
	MinCapacity float64 // tokens, at least 1
}
