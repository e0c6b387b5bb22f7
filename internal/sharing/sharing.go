// Package sharing defines what a Transport exchanges with the other processes that
// share its buckets. Package fleet is the other side of the exchange.
package sharing

import (
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/pacing"
)

// A Share is this process's part of a shared partition: the tokens and the rate
// that it may use without asking. A Share is safe for concurrent use.
type Share interface {
	// Partition returns the name of the partition.
	Partition() string

	// RetryTokens returns the capacity of the retry token bucket of a single
	// process, the maximum cost of a retry, and the maximum cost of all retries of
	// one call. ok is false if there is no quota.
	RetryTokens() (capacity, cost, perCall int, ok bool)

	// Settings describes the settings that all processes must have in common: those
	// of the quota, and those of the rate limiter, which are "" except in adaptive
	// mode. Each text lists the settings that differ from the default, with their
	// values, as words separated by spaces.
	Settings() (quota, law string)

	// FirstTokens returns how many tokens the shared retry token bucket starts with
	// if this process creates it: as many as the bucket of a single process starts
	// with or, if the partition replaces another one because there are too many, as
	// many as the other one had left. So made-up partition names allow no more
	// retries than one bucket pays for.
	FirstTokens() int

	// NewLaw returns a new pacing law for the rate of all processes, on a clock
	// that starts at start. ok is false except in adaptive mode.
	NewLaw(start time.Time) (law pacing.Adopter, ok bool)

	// Wake returns a channel that is signaled when the lease should be renewed
	// early: a retry drew tokens or was refused, a response was throttled, a
	// Retry-After came, a request will wait for a send token longer than the
	// lease or was refused one, an outcome came after the end of the lease, or
	// the partition was dropped.
	Wake() <-chan struct{}

	// Dropped reports whether the Transport no longer has the partition, or nothing
	// refers to the Transport.
	Dropped() bool

	// Usage returns what the process has used since the last call, and what it
	// needs.
	Usage() Usage

	// TakeTokens draws up to n tokens from the retry token bucket of this
	// process, and returns how many it drew.
	TakeTokens(n int) int

	// AddTokens adds n tokens to the retry token bucket of this process.
	AddTokens(n int)

	// Grant sets what the process may use from now on.
	Grant(Grant)

	// Alone ends the lease. Until the next one, the process may send at most rate
	// requests per second.
	Alone(rate float64)
}

// A Usage is what a process has used of its share, and what it needs.
type Usage struct {
	Sent          int // attempts since the last Usage, in adaptive mode only
	pacing.Counts     // the throttled outcomes since the last Usage

	Waiting    int     // requests in line for a send token
	NotSent    int     // attempts since the last Usage that were refused because a send token would come too late
	SendTokens float64 // send tokens in the bucket, at most 1, or the number of slots that are still ahead
	Unused     float64 // send tokens since the last Usage that were lost because the bucket was full
	Tokens     int     // tokens in the retry token bucket
	Traffic    float64 // how much the calls since the last Usage add to the capacity for a minute; negative if it is fixed
	Refused    int     // retries that the retry token bucket refused since the last Usage
	Spared     int     // those of Refused that followed a throttling response

	// RetryAfter is how long a Retry-After remains in force, with
	// Transport.ShareRetryAfter.
	RetryAfter time.Duration

	// Said has the limits that a response announced last, or is nil if none did.
	// Other processes use them only if they read limits themselves.
	Said *Said
}

// A Said has the limits that a response announced.
type Said struct {
	Limits      []announced.Limit
	Throttled   bool
	Sent, Heard time.Duration // how long ago the request was sent and the response came
}

// A Grant is what a process may use.
type Grant struct {
	Until      time.Time     // the end of the lease of the rate
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
	Said *Said

	FleetTokens int // tokens in the shared retry token bucket, without those that processes hold
	SpareTokens int // additional tokens for retries after a throttling response
}
