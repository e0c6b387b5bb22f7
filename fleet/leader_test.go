package fleet

import (
	"testing"
	"time"

	"example.com/awsretry/internal/pacing"
)

// A led service allows so many requests per second. Its leader hears each
// half lease what was accepted and throttled at the rate that it set.
type led struct {
	leader *leader
	got    reply
	cuts   int
}

const ledLease = 400 * time.Millisecond

func lead(law pacing.Adopter, rate float64) *led {
	l := &led{got: reply{now: time.Minute, rate: rate}}
	l.leader = newLeader(law, ledLease, l.got)
	return l
}

func (l *led) run(limit float64, length time.Duration) {
	const step = ledLease / 2
	for range int(length / step) {
		sent := l.got.rate * step.Seconds()
		accepted := min(sent, limit*step.Seconds())
		l.got.now += step
		l.got.totals.add(sums{
			accepted: accepted, throttled: sent - accepted, trips: 10 * sent, tripsOf: sent,
		})
		rate, cut := l.leader.step(l.got)
		if l.got.rate = max(rate, 0); cut {
			l.cuts++
			l.got.cut = l.got.now
		}
	}
}

func laws() map[string]func() pacing.Adopter {
	limits := pacing.Limits{MinRate: 0.5, MinCapacity: 1}
	meter := func() pacing.Meter { return pacing.NewMeter(time.Unix(0, 0), 500*time.Millisecond, 0.8) }
	return map[string]func() pacing.Adopter{
		"cubic":  func() pacing.Adopter { return pacing.NewCubic(limits, meter(), 0.7, 0.4) },
		"scaled": func() pacing.Adopter { return pacing.NewScaled(limits, meter(), 0.9) },
	}
}

// A new leader goes on at the rate of the one before.
func TestLeaderTakesOver(t *testing.T) {
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) {
			l := lead(law(), 90)
			for range 10 {
				l.run(1000, ledLease/2)
				if l.got.rate < 85 || l.got.rate > 135 {
					t.Fatalf("rate %.1f, want about 90", l.got.rate)
				}
			}
		})
	}
}

// What many processes report in one step cuts the rate once, and not again
// before all of them have heard of it.
func TestLeaderCutsOnce(t *testing.T) {
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) {
			l := lead(law(), 100)
			l.run(1000, ledLease/2) // what was sent before it led does not cut
			for range 2 {
				l.run(60, ledLease/2)
				if l.cuts != 1 || l.got.rate < 55 || l.got.rate > 95 {
					t.Errorf("%d cuts to %.1f", l.cuts, l.got.rate)
				}
			}
		})
	}
}

// A rate far above what is accepted falls there within a few leases.
func TestLeaderFollowsALargeDrop(t *testing.T) {
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) {
			l := lead(law(), 200)
			l.run(200, 4*time.Second)
			l.run(20, 2*time.Second)
			if l.got.rate > 30 || l.got.rate < 8 {
				t.Errorf("after two seconds at a limit of 20/s the rate is %.1f", l.got.rate)
			}
		})
	}
}
