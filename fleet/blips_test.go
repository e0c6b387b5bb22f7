package fleet_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
)

// A store that fails for moments costs a fleet little more than a dead store does.
func TestBlips(t *testing.T) {
	for name, test := range map[string]struct {
		every, lasts time.Duration
		kind         faultKind
		least        float64 // requests a second, of 50
		gap          time.Duration
	}{
		"refuses each two seconds":         {2 * time.Second, 20 * time.Millisecond, storeRefuses, 45, 500 * time.Millisecond},
		"refuses each 0.7 s":               {700 * time.Millisecond, 20 * time.Millisecond, storeRefuses, 45, 500 * time.Millisecond},
		"pauses half of each second":       {time.Second, 500 * time.Millisecond, storePauses, 40, 500 * time.Millisecond},
		"pauses 0.6 s in each two seconds": {2 * time.Second, 600 * time.Millisecond, storePauses, 40, 500 * time.Millisecond},
		"forgets each 30 ms":               {30 * time.Millisecond, time.Millisecond, storeForgets, 40, 500 * time.Millisecond},
		"forgets each 5 s":                 {5 * time.Second, time.Millisecond, storeForgets, 45, 500 * time.Millisecond},
		"is gone":                          {time.Hour, time.Hour, storeRefuses, 45, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{
					maxRate: 50, lease: 400 * time.Millisecond, pacing: awsretry.ScaledPacing, length: 40 * time.Second,
					callers: 4, answer: 10 * time.Millisecond,
				}
				for range 5 {
					w.members = append(w.members, span{0, w.length})
				}
				for at := 10 * time.Second; at < w.length; at += test.every {
					w.faults = append(w.faults, storeFault{span{at, at + test.lasts}, test.kind})
				}
				w.run(t)
				from, gap, n := 11*time.Second, time.Duration(0), 0.0
				last := from
				for _, s := range w.sent {
					if s.at >= from {
						gap, last, n = max(gap, s.at-last), s.at, n+1
					}
				}
				rate := n / (w.length - from).Seconds()
				most, at := w.most()
				t.Logf("%.1f a second, at most %d in one from %v, gap %v", rate, most, at, gap)
				if rate < test.least || most > 52 || gap > test.gap {
					t.Errorf("want at least %g a second, at most 52, and no gap above %v", test.least, test.gap)
				}
			})
		})
	}
}

// With each MaxRate, one process and forty send nearly as much as they may.
func TestGoodputOfMaxRate(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for long with the race detector; make test runs it without")
	}
	for _, maxRate := range []float64{0.1, 0.5, 1, 2.5, 15, 100} {
		for _, n := range []int{1, 40} {
			for _, lease := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond} {
				if n == 40 && lease < 400*time.Millisecond && maxRate < 15 {
					continue // it takes long
				}
				synctest.Test(t, func(t *testing.T) {
					w := &world{
						maxRate: maxRate, lease: lease, pacing: awsretry.ScaledPacing, callers: 4, answer: 10 * time.Millisecond,
						length: max(20*time.Second, time.Duration(30/maxRate)*time.Second),
					}
					for range n {
						w.members = append(w.members, span{0, w.length})
					}
					w.run(t)
					most, _ := w.most()
					got := float64(len(w.sent)) / maxRate / (w.length - 3*lease/2).Seconds() // a new key is closed for a lease
					t.Logf("MaxRate %g, %d processes, lease %v: goodput %.3f, at most %d; %.1f renewals a second of each", maxRate, n, lease, got, most, float64(w.renewals.Load())/w.length.Seconds()/float64(n))
					if got < 0.95-1/maxRate/w.length.Seconds() || float64(most) > w.allowed() {
						t.Errorf("MaxRate %g, %d processes, lease %v: goodput %.3f, at most %d in a second", maxRate, n, lease, got, most)
					}
				})
			}
		}
	}
}

// A process whose few callers are busy loses the slots that come meanwhile.
func TestSlotsOfBusyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			maxRate: 450, lease: 400 * time.Millisecond, pacing: awsretry.ScaledPacing, callers: 1, answer: 10 * time.Millisecond,
			length: 20 * time.Second, members: slices.Repeat([]span{{0, 20 * time.Second}}, 12),
		}
		w.run(t)
		if rate := float64(len(w.sent)) / w.length.Seconds() / w.maxRate; rate < 0.35 {
			t.Errorf("%.2f of MaxRate was sent, want at least 0.35", rate)
		} else {
			t.Logf("%.2f of MaxRate was sent", rate)
		}
	})
}
