package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/pacing"
)

// A led service allows limit requests per second. In each half lease its leader
// learns how many were accepted and throttled at the rate that it set.
type led struct {
	leader *leader
	got    protocol.Reply
	cuts   int
}

const ledLease = 400 * time.Millisecond

func lead(law func() pacing.Law, rate float64) *led { return leadAt(60000, law, rate) }

func leadAt(now float64, law func() pacing.Law, rate float64) *led {
	l := &led{got: protocol.Reply{Last: protocol.Last{Now: now}, Law: protocol.Law{Rate: rate, Limit: rate}}}
	l.leader = newLeader(law(), ledLease, &l.got)
	return l
}

func (l *led) run(limit float64, length time.Duration) {
	const step = ledLease / 2
	for range int(length / step) {
		sent := l.got.Rate * step.Seconds()
		accepted := min(sent, limit*step.Seconds())
		l.got.Now += milliseconds(step)
		l.got.Sums = protocol.Sums{Sent: sent, Throttled: sent - accepted, Trips: 10 * (sent - accepted), TripsOf: sent - accepted}
		law, cut := l.leader.step(&l.got)
		if l.got.Rate = max(law.Rate, 0); cut {
			l.cuts++
		}
	}
}

func laws() map[string]func() pacing.Law {
	limits := pacing.Limits{MinRate: 0.5, MinCapacity: 1}
	meter := func() pacing.Meter { return pacing.NewMeter(time.Unix(0, 0), 500*time.Millisecond, 0.8) }
	return map[string]func() pacing.Law{
		"cubic":  func() pacing.Law { return pacing.NewCubic(limits, meter(), 0.7, 0.4) },
		"scaled": func() pacing.Law { return pacing.NewScaled(limits, meter(), 0.7) },
	}
}

func eachLaw(t *testing.T, test func(t *testing.T, law func() pacing.Law)) {
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) { test(t, law) })
	}
}

// How a rate develops at a limit of the service.
func TestLeader(t *testing.T) {
	eachLaw(t, func(t *testing.T, law func() pacing.Law) {
		expect := func(what string, l *led, least, most float64, cuts int) {
			t.Helper()
			if l.got.Rate < least || l.got.Rate > most || l.cuts != cuts {
				t.Errorf("%s: %d cuts to %.1f, want %d, to %g to %g", what, l.cuts, l.got.Rate, cuts, least, most)
			}
		}
		next := lead(law, 90)
		for range 10 {
			next.run(1000, ledLease/2)
			expect("a new leader", next, 85, 135, 0)
		}
		l := leadAt(-milliseconds(ledLease/2), law, 100) // its clock begins again with the step
		l.run(55, ledLease/2)
		expect("what was throttled before a key was created again", l, 85, 135, 0)
		l = lead(law, 100)
		l.run(1000, ledLease/2) // requests from before it led do not cut
		for range 2 {           // no second cut before all know of the first
			l.run(60, ledLease/2)
			expect("what many processes report in one step", l, 58, 95, 1)
		}
		l = lead(law, 200)
		l.run(200, 4*time.Second)
		l.run(20, 2*time.Second)
		expect("two seconds after a large drop", l, 8, 30, l.cuts)
	})
}

// If nothing is accepted, the rate falls to the lowest one, and is still a limit.
func TestLeaderWhereNothingIsAccepted(t *testing.T) {
	eachLaw(t, func(t *testing.T, law func() pacing.Law) {
		for _, limited := range []float64{0, 200} {
			l := lead(law, limited)
			for i := range 30 {
				l.got.Now += milliseconds(ledLease / 2)
				l.got.Sums = protocol.Sums{Sent: 20, Throttled: 20}
				if law, _ := l.leader.step(&l.got); law.Rate < 0.5 && (limited > 0 || i > 2) || i > 20 && law.Rate > 5 {
					t.Fatalf("from %g: in step %d the rate is %g; it must fall to 0.5", limited, i, law.Rate)
				}
			}
		}
	})
}

// Whatever the totals are, the rate is finite, and not below the lowest.
func TestLeaderOfABadStore(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		number := func() float64 {
			return [...]float64{mostNumber * random.Float64(), 0, 1e11 * random.Float64(), 5e-324, 300, 300}[random.IntN(6)]
		}
		at := func() float64 {
			return [...]float64{mostTime * random.Float64(), 0, 1e4 * random.Float64(), 1e4}[random.IntN(4)]
		}
		for name, law := range laws() {
			var l *leader
			for range 12 {
				got := protocol.Reply{
					Last: protocol.Last{Now: at()}, Law: protocol.Law{
						Rate: math.Min(number(), mostRate), Limit: math.Min(number(), mostRate), Trip: at() / 1e8,
					},
					Sums: protocol.Sums{
						Sent: number(), Throttled: number(), Trips: number(), TripsOf: number(),
					},
				}
				if l == nil {
					l = newLeader(law(), ledLease, &got)
				}
				if checkSums(&got.Sums, ledLease) != nil {
					continue
				}
				if law, _ := l.step(&got); !(law.Rate >= 0.5 && law.Rate < math.Inf(1) || law == noLaw) {
					t.Fatalf("seed %d, %s: the law is %+v", seed, name, law)
				}
			}
		}
	}
}
