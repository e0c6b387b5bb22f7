package fleet

import (
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/admission"
)

// request returns the request of the next renewal.
func (m *member) request(usage admission.Usage) protocol.Request {
	news := protocol.Sums{
		Sent: float64(usage.Sent), Throttled: float64(usage.Throttled),
		Trips: milliseconds(usage.Trips), TripsOf: float64(usage.TripsOf),
	}
	sent := news.Sent + float64(usage.NotSent)
	m.sent += (sent - m.sent) / sentMemory
	if usage.Waiting > 0 && m.maxRate == 0 {
		m.sent = max(m.sent, sent)
	}
	m.unsent.Add(news)
	r := protocol.Request{
		ID: m.id, Last: m.last.Last, Settings: m.settings, Pacing: m.pacing,
		Lease: milliseconds(m.fleet.config.Lease), Expiry: milliseconds(m.fleet.config.Expiry),
		SeedRate: m.last.Rate, SeedTokens: m.share.FirstTokens(),
		Sums: m.unsent, Law: m.proposed,
		Wanted: m.wanted(usage), Unused: m.unused(usage),
		MaxRate: m.maxRate, Ends: m.ends(), Away: milliseconds(m.away), Since: milliseconds(min(time.Since(m.lastAt), m.fleet.config.Lease)),
		Capacity: m.capacity, PerCall: m.perCall, Traffic: usage.Traffic, Counted: m.counted,
	}
	if said := sayLimits(usage.Said); said != m.told {
		m.told = said
		r.Said = said
		if said != "" {
			r.SaidAge = milliseconds(usage.Said.Sent)
		}
	}
	if usage.RetryAfter > time.Until(m.gateEnd) { // do not send back what came from a reply
		r.Gate = milliseconds(usage.RetryAfter)
	}
	if m.joined() {
		r.SeedTokens = int(m.last.Left)
	}
	if m.quota {
		m.balance(&r, usage)
	}
	return r
}

// ends returns the end of the lease on the store's clock, and 0 before the first
// lease.
func (m *member) ends() float64 {
	if m.until.IsZero() {
		return 0
	}
	return max(m.last.Now+milliseconds(m.until.Sub(m.lastAt)), 0)
}

// joined reports whether a renewal has succeeded.
func (m *member) joined() bool { return m.last.Epoch != "" }

// wanted returns how many send tokens the process needs until the next renewal:
// for the requests that it usually sends, with a reserve, but at least one, and
// for the requests in line or refused.
func (m *member) wanted(usage admission.Usage) float64 {
	reserve, least := 1.25, 1.0
	if usage.Waiting > 0 && (m.maxRate == 0 || usage.SendTokens == 0) { // nobody knows how many they would be
		reserve = 2
	}
	if m.maxRate > 0 { // an unused slot is lost for all
		least = 0
	}
	return max(max(reserve*m.sent, least)+float64(usage.Waiting+usage.NotSent)-usage.SendTokens, 0)
}

// unused returns how many send tokens of the last grant were lost because no
// request needed them.
func (m *member) unused(usage admission.Usage) float64 {
	if !m.joined() || m.failing || m.last.Rate == 0 {
		return 0
	}
	return min(usage.Unused, m.last.Share*m.fleet.config.Lease.Seconds())
}

// sentMemory is the number of renewals over which the number of requests is
// smoothed. Requests in line are not smoothed, so that they get tokens at once.
const sentMemory = 5

// balance asks for the retry tokens that this process lacks, or returns the
// surplus. After a failed renewal it moves none, because the store may have moved
// them already.
func (m *member) balance(r *protocol.Request, usage admission.Usage) {
	if !m.paid {
		if !m.failing {
			r.Asked, r.Spare = m.float, m.share.FirstTokens()
		}
		return
	}
	want := min(m.float*(1+min(usage.Refused-usage.Spared, 4)+usage.Spared), m.capacity)
	r.Held, r.Spared = usage.Tokens, m.float*usage.Spared
	switch {
	case m.failing:
	case usage.Tokens < want:
		r.Asked = want - usage.Tokens
	case usage.Tokens > 2*m.float:
		r.Returned = m.share.TakeTokens(usage.Tokens - m.float)
		r.Held -= r.Returned
	}
}
