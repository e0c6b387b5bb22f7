package fleet_test

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/internal/retrier"
)

// A metronome is a store and a schedule: the member renews a third later than it is
// due, and must wait for each renewal.
type metronome struct {
	fleettest.Store

	start  time.Time
	begins []time.Duration
}

func (m *metronome) RenewIn(d time.Duration) time.Duration { return d + d/3 }

func (m *metronome) BeginRenewal() {
	time.Sleep(time.Millisecond)
	m.begins = append(m.begins, time.Since(m.start))
}

func (m *metronome) FirstToken() float64 { return 0 }

// A schedule decides when a process renews its lease.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &metronome{start: time.Now()}
		shared := newFleet(t, m, fleet.Config{Lease: 600 * time.Millisecond})
		shared.Schedule(retrier.Seal{}, m)
		tr := &awsretry.Transport{Base: respond(200, 0), Shared: shared}
		send(t, tr)
		time.Sleep(time.Second)
		runtime.KeepAlive(tr) // without it the member leaves
		shared.Close()
		want := []time.Duration{time.Millisecond, 402 * time.Millisecond, 803 * time.Millisecond}
		if !slices.Equal(m.begins, want) {
			t.Errorf("the renewals are at %v, want %v", m.begins, want)
		}
	})
}

// Processes that start together do not stay together.
func TestRenewalsAreSpread(t *testing.T) {
	const due, unit = 200 * time.Millisecond, time.Millisecond
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		least, most = min(least, fleet.RenewIn(due)), max(most, fleet.RenewIn(due))
		if token := fleet.FirstToken(); token < 0 || token >= 1 {
			t.Fatalf("a process begins with %v tokens", token)
		}
	}
	if least < 190*unit || least > 191*unit || most > 210*unit || most < 209*unit || fleet.RenewIn(0) != 0 {
		t.Errorf("renewals that are due in %v are made in %v to %v", due, least, most)
	}
}
