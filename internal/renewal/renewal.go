// Package renewal is when the members of a fleet renew their leases: at random
// times, or as a simulation that repeats itself decides.
package renewal

import (
	"math/rand/v2"
	"time"
)

// A Schedule decides what a fleet would otherwise leave to chance. Its methods
// must be safe for concurrent use.
type Schedule interface {
	// In returns how long to wait for a renewal that is due in d.
	In(d time.Duration) time.Duration

	// Begin is called when a renewal begins, and may wait.
	Begin()

	// Token returns the part of a send token that a process begins with, from 0
	// to below 1.
	Token() float64
}

// A Scheduler is a client of a fleet whose renewals follow a Schedule.
type Scheduler interface{ Schedule() Schedule }

// Of returns the Schedule of a fleet's client.
func Of(client any) Schedule {
	if s, ok := client.(Scheduler); ok {
		return s.Schedule()
	}
	return random{}
}

// random spreads the renewals of processes that start together.
type random struct{}

func (random) In(d time.Duration) time.Duration { return d - d/20 + rand.N(d/10+1) }

func (random) Begin() {}

func (random) Token() float64 { return rand.Float64() }
