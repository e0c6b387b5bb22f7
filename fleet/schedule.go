package fleet

import (
	"math/rand/v2"
	"time"

	"example.com/awsretry/internal/retrier"
)

// A schedule decides what is otherwise random. Its methods must be safe for
// concurrent use.
type schedule interface {
	// RenewIn returns how long to wait for a renewal that is due in d.
	RenewIn(d time.Duration) time.Duration

	// BeginRenewal is called when a renewal begins, and may wait.
	BeginRenewal()

	// FirstToken returns the part of a send token that a process begins with,
	// from 0 to below 1.
	FirstToken() float64
}

// Schedule makes s decide for f, so that package simulate can repeat a run. It must be
// called before f is used.
func (f *Fleet) Schedule(_ retrier.Seal, s schedule) { f.schedule = s }

// random spreads the renewals of processes that start together.
type random struct{}

func (random) RenewIn(d time.Duration) time.Duration { return d - d/20 + rand.N(d/10+1) }

func (random) BeginRenewal() {}

func (random) FirstToken() float64 { return rand.Float64() }
