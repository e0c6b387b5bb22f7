package fleet

import (
	"math"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/pacer"
)

// grant returns what the process may use by the reply to a renewal that began at
// asked. It sets when the lease ends.
func (m *member) grant(got *protocol.Reply, asked time.Time) pacer.Grant {
	lease, received := m.fleet.config.Lease, time.Now()
	g := pacer.Grant{
		Until: asked.Add(lease), Slow: m.slow >= slowRenewals,
		Rate: got.Share, Burst: lease / 40, FirstToken: m.fleet.schedule.FirstToken(), RetryAfter: duration(got.Gate),
		FleetRate: got.Rate, Members: int(got.Members), FleetTokens: int(got.Left), SpareTokens: int(got.Spare),
		Said: m.hear(got, asked),
	}
	if m.maxRate > 0 {
		g.Until = asked.Add(lease * 7 / 8)
		g.FleetRate = got.MaxRate
		if got.Rate > 0 {
			g.FleetRate = min(got.Rate, got.MaxRate)
		}
		g.AloneAtMost, g.Slots, g.Every = m.alonePart(got), int(got.Slots), duration(got.Every)+1
		g.FirstSlot = received.Add(duration(got.At) - received.Sub(asked)/2)
	}
	g.Limited, g.IdleUntil = g.FleetRate > 0, g.Until
	if m.idle() {
		g.IdleUntil = g.Until.Add(m.idlePause())
	}
	if m.pacing == "" || m.maxRate > 0 {
		// Without a rate, no request waits for the lease. With slots, an idle process
		// must not send alone because its lease ended.
		g.Until = g.IdleUntil
	}
	m.until = g.Until
	return g
}

// alonePart returns the rate of one member without a lease. If all members send at
// it, they keep MaxRate in any second.
func (m *member) alonePart(last *protocol.Reply) float64 {
	part := last.MaxRate * (1 + variation.Seconds()) / max(last.Members, 1)
	if part > 1 { // in some seconds it would send one more than its part
		part = math.Floor(part * (1 + rounding))
	}
	return part / (1 + variation.Seconds())
}
