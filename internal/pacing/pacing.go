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
}

// Limits are the lower limits of a law's results.
type Limits struct {
	MinRate     float64 // per second, above 0
	MinCapacity float64 // tokens, at least 1
}
