package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet/fleettest"
)

// While a deploy changes MaxRate, the lowest one counts; afterwards the new one.
func TestDeployChangesMaxRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{
			T: t, pacing: awsretry.ScaledPacing, maxRate: 50, service: &service{rate: 50, burst: 1000},
			store: &fleettest.Store{Latency: time.Millisecond},
		}
		r.join(5, 4)
		r.phase("old", 10, figures{0.9, 0, 1.02, 0, 0})
		old := r.processes
		r.processes, r.maxRate = nil, 60
		r.join(5, 4)
		for _, p := range old[1:] {
			p.leave()
		}
		time.Sleep(2 * time.Second)
		r.processes = append(r.processes, old[0])
		r.phase("both", 10, figures{0.9, 0, 1.02, 0, 0})
		r.processes = r.processes[:5]
		old[0].leave()
		r.service.setRate(60)
		time.Sleep(2 * time.Second)
		r.phase("new", 10, figures{0.9, 0, 1.02, 0, 0})
		r.end(0)
	})
}
