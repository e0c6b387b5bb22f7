package pacer

import "time"

// A Grant is what a process may use.
type Grant struct {
	Until      time.Time     // the end of the lease of the rate
	IdleUntil  time.Time     // later than Until if the process is idle: it renews until then
	Slow       bool          // renewals take too much of a lease
	Limited    bool          // the fleet's rate is limited
	Rate       float64       // of this process, in requests per second
	Burst      time.Duration // a quiet process saves the tokens of at most this time
	FirstToken float64       // a fraction of a send token for a process that had no rate, so that not all send at once
	RetryAfter time.Duration // how long the fleet's Retry-After remains in force; 0 means none

	// After the end of the lease, the process continues at its part of the fleet's
	// rate.
	FleetRate float64 // of all processes, in requests per second
	Members   int     // how many Transports share the partition, without those that are idle

	// AloneAtMost is the highest rate of this process without a lease, or 0 if
	// there is none. If it is set, a process with a lease sends in slots: the first
	// one at FirstSlot, and the others at intervals of Every.
	AloneAtMost float64
	FirstSlot   time.Time
	Every       time.Duration
	Slots       int

	// Said has the limits that a response to another process announced last, or is
	// nil if none did.
	Said *Announcement

	FleetTokens int // tokens in the shared retry token bucket, without those that processes hold
	SpareTokens int // additional tokens for retries after a throttling response
}
