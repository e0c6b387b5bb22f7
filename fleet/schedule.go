package fleet

import (
	"math/rand/v2"
	"time"
)

// A schedule decides what is otherwise random. A Client that implements it, such as
// that of a reproducible simulation, is used as the schedule. The methods must be
// safe for concurrent use.
type schedule interface {
	// RenewIn returns how long to wait for a renewal that is due in d.
	RenewIn(d time.Duration) time.Duration

	// BeginRenewal is called when a renewal begins, and may wait.
	BeginRenewal()

	// FirstToken returns the part of a send token that a process begins with,
	// from 0 to below 1.
	FirstToken() float64
}

func scheduleOf(client Client) schedule {
	if s, ok := client.(schedule); ok {
		return s
	}
	return random{}
}

// random spreads the renewals of processes that start together.
type random struct{}

func (random) RenewIn(d time.Duration) time.Duration { return d - d/20 + rand.N(d/10+1) }

func (random) BeginRenewal() {}

func (random) FirstToken() float64 { return rand.Float64() }
