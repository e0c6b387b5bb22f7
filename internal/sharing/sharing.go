// Package sharing is what a Transport and the processes that share its buckets
// exchange. Package fleet is on the other side.
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

	// RetryTokens returns the capacity of the retry token bucket of a process
	// alone, and the most that one retry and the retries of one call cost. ok is
	// false if there is no quota.
	RetryTokens() (capacity, cost, perCall int, ok bool)

	// Settings returns what all processes must have in common, as texts: the quota,
	// and the law of the rate limiter, which is "" except in adaptive mode. Words
	// that are separated by spaces name settings that are not the default, and
	// their values.
	Settings() (quota, law string)

	// FirstTokens returns how many tokens the retry token bucket of all
	// processes begins with if this one makes it: what the bucket of a process
	// alone begins with or, if the partition replaces another one because there are
	// too many, what that one had left. So made-up names lead to no more retries
	// than one bucket pays for.
	FirstTokens() int

	// NewLaw returns a new law of the rate limiter, for the rate of all
	// processes, on a clock whose zero is start. ok is false except in adaptive
	// mode.
	NewLaw(start time.Time) (law pacing.Adopter, ok bool)

	// Wake returns a channel that is signaled when the lease should be renewed
	// early: a retry drew tokens or was refused, a response was throttled, a
	// Retry-After came, a request will wait for a send token longer than the
	// lease or was refused one, an outcome came after the end of the lease, or
	// the partition was dropped.
	Wake() <-chan struct{}

	// Dropped reports whether the Transport does not have the partition any
	// more, or nothing refers to the Transport.
	Dropped() bool

	// Usage returns what was used since the last call, and what is needed.
	Usage() Usage

	// TakeTokens draws up to n tokens from the retry token bucket of this
	// process, and returns how many.
	TakeTokens(n int) int

	// AddTokens adds n tokens to the retry token bucket of this process.
	AddTokens(n int)

	// Grant sets what the process may use from now on.
	Grant(Grant)

	// Alone ends the lease. The process may send rate requests per second at
	// most until it has one.
	Alone(rate float64)
}

// A Usage is what a process used of its share and what it needs.
type Usage struct {
	Sent          int // attempts since the last Usage, in adaptive mode only
	pacing.Counts     // of those whose outcome was throttling

	Waiting    int     // requests in line for a send token
	NotSent    int     // attempts since the last Usage that were refused, because a send token would come too late
	SendTokens float64 // saved up, at most 1, or slots ahead
	Unused     float64 // send tokens since the last Usage that were lost because the bucket was full
	Tokens     int     // in the retry token bucket
	Traffic    float64 // retry tokens that the calls since the last Usage add to the capacity for a minute; negative if that does not change
	Refused    int     // retries that the bucket refused since the last Usage
	Spared     int     // of them, those after a throttling response

	// RetryAfter is how long a Retry-After is in force, with
	// Transport.ShareRetryAfter.
	RetryAfter time.Duration

	// Said is what a response announced last, nil if none did. Others have it
	// only if they have announced their own limits.
	Said *Said
}

// A Said is the limits that a response announced.
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
	Burst      time.Duration // a quiet process saves up the tokens of this time
	FirstToken float64       // part of a send token, 0 to 1, for a process that had no rate: not all send at once
	RetryAfter time.Duration // how long the fleet's Retry-After is in force; 0: none

	// When the lease has ended, the process continues at its part of the fleet's
	// rate.
	FleetRate float64 // of all processes, in requests per second
	Members   int     // how many Transports share the partition, without those that are idle

	// AloneAtMost is the highest rate of this process without a lease. With it,
	// a process with a lease sends in slots: N of them, one after every interval.
	// 0 means that there is no such rate.
	AloneAtMost float64
	FirstSlot   time.Time
	Every       time.Duration
	Slots       int

	// Said is what a response to another process announced last, nil if none did.
	Said *Said

	FleetTokens int // in the retry token bucket of all processes, without those that a process has
	SpareTokens int // for retries after a throttling response, besides
}
