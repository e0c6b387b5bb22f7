package fleet

import (
	"context"
	"fmt"
	"math"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

// renew renews the lease, and passes the grant to the share.
func (m *member) renew() {
	usage := m.share.Usage()
	r := m.request(usage)
	if m.quiet++; m.used(usage, &r) {
		m.quiet = 0
	}
	m.had = usage.Tokens - r.Returned
	ctx, cancel := context.WithTimeout(m.fleet.ctx, 2*m.fleet.config.Lease)
	asked := time.Now()
	got, err := m.fleet.renew(ctx, m.share.Partition(), &r)
	cancel()
	if err == nil && m.leader != nil {
		err = checkSums(&got.Sums, asked.Sub(m.ledAt))
	}
	took := time.Since(asked)
	m.away, m.took = min(m.took, took)/2, took
	m.fleet.renewed(m.share.Partition(), took, err)
	if err != nil {
		m.fail(err)
		return
	}
	joining := m.quota && !m.paid && !m.failing
	m.timed(took)
	m.fleet.settle(m, false)
	if m.changed(&got) {
		m.quiet = 0
	}
	if m.last.Epoch != got.Epoch {
		m.leader = nil
	}
	m.unsent, m.proposed, m.cut, m.failed = protocol.Sums{}, noLaw, false, 0
	m.last, m.lastAt, m.short = got, asked, m.maxRate > 0 && got.Slots == 0 && r.Wanted >= 1
	m.takeTokens(int(got.Tokens), r.Held, joining)
	if got.Opens == 0 {
		g := m.grant(&got, asked)
		m.share.Grant(g)
		if end := time.Now().Add(g.RetryAfter); end.After(m.gateEnd) {
			m.gateEnd = end
		}
	}
	m.lead(&got)
}

// takeTokens adds retry tokens to those that were held. A member that joins drops
// those from when it was alone.
func (m *member) takeTokens(n, held int, joining bool) {
	if m.paid || joining {
		m.counted = held + n
	}
	if joining {
		m.share.TakeTokens(math.MaxInt32)
		m.paid, m.had = true, 0
	}
	m.had += n
	m.share.AddTokens(n)
}

// timed reports a store that is slow, if it is not only for a moment: leases end
// before they are renewed, or slots pass before the process knows of them.
func (m *member) timed(took time.Duration) {
	trips := time.Duration(2)
	if m.maxRate > 0 {
		trips = 4
	}
	if m.slow++; took <= m.fleet.config.Lease/trips {
		m.slow = 0
	}
	if m.slow >= slowRenewals {
		m.fleet.report(m.share.Partition(), fmt.Errorf("the store took %v to respond, and Config.Lease is %v; it must be more "+
			"than %d times as long, or the process sends less than its share", took.Round(time.Millisecond), m.fleet.config.Lease, trips))
	}
}

// fail handles a failed renewal. The outcomes are kept for the next renewal
// only: later they are out of date, and the store may have them already. Returned
// retry tokens are lost, because the store may have them.
func (m *member) fail(err error) {
	if m.fleet.ctx.Err() != nil {
		return
	}
	if m.failing {
		m.unsent = protocol.Sums{}
	}
	m.told = "" // unlike the outcomes, the limits are not out of date
	if m.failed++; m.failed == 1 && m.until.IsZero() {
		m.begin(m.fleet.rateWithoutStore())
	}
	if time.Since(m.lastAt) > m.fleet.config.Lease {
		m.leader, m.proposed, m.cut = nil, noLaw, false
	}
	if now := time.Now(); m.maxRate > 0 && now.Before(m.until) && now.Sub(m.lastAt) > m.fleet.config.Lease {
		m.until = now // the lease was longer because the process was idle
		m.share.Alone(m.alonePart(&m.last), m.fleet.schedule.FirstToken())
	}
	m.fleet.settle(m, true)
	m.fleet.report(m.share.Partition(), err)
}

// leave returns the lease, and the retry tokens above keep.
func (m *member) leave(keep int) {
	known := m.joined() && !m.failing
	m.slow = 0
	m.fleet.settle(m, false)
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout/2)
	defer cancel()
	usage := m.share.Usage()
	r := m.request(usage)
	r.Leaving, r.Wanted, r.Asked = true, 0, 0
	if m.paid {
		more := m.share.TakeTokens(max(r.Held-keep, 0))
		r.Returned += more
		r.Held -= more
	}
	_, _ = m.fleet.renew(ctx, m.share.Partition(), &r) // the member ends: nobody could handle the error
}
