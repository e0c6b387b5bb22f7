package fleet

import (
	"context"
	"fmt"
	"math"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/sharing"
)

// A member is one Transport of this process in one partition. Only the share may
// be used outside of the goroutine that runs it.
type member struct {
	fleet *Fleet
	share sharing.Share
	key   string
	id    string // unique, also among the members of one Fleet

	settings, pacing string // must be the same in all processes; pacing is "" except in adaptive mode

	capacity, float int  // of retry tokens; float is what the process keeps for its next retries
	quota           bool // there are retry tokens
	paid            bool // the tokens of this process are those of the fleet
	had             int  // after the last renewal
	counted         counted
	adaptive        bool

	unsent   sums // outcomes that the store may not have
	epoch    string
	last     reply
	joined   bool // a renewal has succeeded
	failing  bool // the last renewal failed
	cutAt    time.Time
	cutSeen  time.Duration // last.cut at cutAt
	gateEnd  time.Time     // of the last reply's Retry-After
	leader   *leader       // nil while another process leads
	ledAt    time.Time     // when the leader last got a reply
	proposed float64       // the leader's rate for the next renewal; negative means none
	cut      bool          // proposed is a cut
	sent     float64       // requests in half a lease, with those that were refused; smoothed
	quiet    int           // renewals in a row that were not needed
	heard    *sharing.Said // limits in the last reply; nil if there was nothing new

	told, heardText string // the limits that this process said and heard last
}

func newMember(f *Fleet, share sharing.Share, id string) *member {
	m := &member{
		fleet: f, share: share, id: id, proposed: -1,
		key: f.config.Prefix + ":{" + share.Partition() + "}",
	}
	var cost int
	m.capacity, cost, m.quota = share.RetryTokens()
	m.float = min(cost, m.capacity)
	m.settings = fmt.Sprintf("Lease %v and no retry tokens", f.config.Lease)
	if m.quota {
		m.settings = fmt.Sprintf("Lease %v and %d retry tokens", f.config.Lease, m.capacity)
	}
	var law pacing.Adopter
	if law, m.adaptive = share.NewLaw(time.Now()); m.adaptive {
		m.pacing = pacingOf(law)
	}
	return m
}

func pacingOf(law pacing.Adopter) string {
	if _, ok := law.(*pacing.Cubic); ok {
		return awsretry.CubicPacing.String()
	}
	return awsretry.ScaledPacing.String()
}

// run renews the lease until the fleet or the partition ends.
func (m *member) run() {
	period, schedule := m.fleet.config.Lease/2, m.fleet.schedule
	timer := time.NewTimer(schedule.RenewIn(0))
	defer timer.Stop()
	var earliest time.Time // of the next renewal
	for {
		select {
		case <-m.fleet.ctx.Done():
			m.leave(m.float) // the Transport continues alone
			return
		case <-timer.C:
		case <-m.share.Wake():
			if !m.share.Dropped() {
				timer.Reset(schedule.RenewIn(max(time.Until(earliest), 0)))
				continue
			}
		}
		if m.share.Dropped() {
			m.leave(0)
			return
		}
		schedule.BeginRenewal()
		began, soonest := time.Now(), period/2
		m.renew()
		if m.proposed >= 0 && m.cut { // tell the others at once
			m.renew()
			soonest = period
		}
		pause := max(period-time.Since(began), period/20) // the lease starts at began
		switch {
		case m.idle():
			pause = m.idlePause()
		case m.failing:
			pause = 2 * period
		}
		if m.failing { // not even early: spare a failing store
			soonest = 2 * period
		}
		earliest = time.Now().Add(min(pause, soonest))
		timer.Reset(schedule.RenewIn(pause))
	}
}

// idle reports whether the process has not needed a lease for a while. Then it
// seldom renews it, until the share wakes it.
func (m *member) idle() bool { return m.quiet >= 10 }

// idlePause returns the time between the renewals of an idle process. It is below
// ten leases, the longest step of the script's clock.
func (m *member) idlePause() time.Duration {
	return min(m.fleet.config.Lease*19/2, m.fleet.config.Expiry/2)
}

// used reports whether the process has used anything since the last renewal, or
// needs anything.
func (m *member) used(usage sharing.Usage, r *request) bool {
	return r.sums != sums{} || usage.Waiting > 0 || usage.NotSent > 0 || usage.Refused > 0 || usage.RetryAfter > 0 ||
		r.returned > 0 || m.quota && usage.Tokens != m.had
}

// changed reports whether a renewal changed the lease, or the outcomes that the
// leader counts.
func (m *member) changed(got reply) bool {
	return got.tokens > 0 || got.gate > 0 || got.epoch != m.epoch || m.leader != nil && got.totals != m.last.totals
}

// renew renews the lease, and passes the grant to the share.
func (m *member) renew() {
	usage := m.share.Usage()
	r := m.request(usage)
	if m.quiet++; m.used(usage, &r) {
		m.quiet = 0
	}
	m.had = usage.Tokens - r.returned
	ctx, cancel := context.WithTimeout(m.fleet.ctx, m.fleet.config.Lease)
	asked := time.Now()
	got, err := m.fleet.renew(ctx, m.key, &r)
	cancel()
	if err == nil && m.leader != nil {
		err = m.leader.check(got, asked.Sub(m.ledAt))
	}
	if err != nil {
		m.fail(err)
		return
	}
	m.failing = false
	if m.changed(got) {
		m.quiet = 0
	}
	m.unsent, m.proposed, m.cut = sums{}, -1, false
	if m.epoch != got.epoch {
		m.epoch, m.leader, m.cutSeen = got.epoch, nil, 0
	}
	if got.cut > m.cutSeen {
		m.cutSeen, m.cutAt = got.cut, time.Now()
	}
	if m.paid || r.joining {
		m.counted = counted{r.held + got.tokens, got.heldWindow}
	}
	if r.joining { // drop the tokens from when it was alone
		m.share.TakeTokens(math.MaxInt32)
		m.paid, m.had = true, 0
	}
	m.had += got.tokens
	m.last, m.joined = got, true
	m.share.AddTokens(got.tokens)
	var due time.Time // of the next send token, from the level when the script ran
	if got.level < 1 && got.share > 0 {
		replied := time.Now()
		due = asked.Add(replied.Sub(asked)/2 + time.Duration((1-got.level)/got.share*float64(time.Second)))
	}
	until := asked.Add(m.fleet.config.Lease)
	if m.idle() && !m.adaptive {
		until = until.Add(m.idlePause()) // without a rate, nobody waits for the lease
	}
	m.hear(&got, asked)
	m.share.Grant(sharing.Grant{
		Until: until, Limited: got.rate > 0,
		Rate: got.share, Burst: m.fleet.config.Lease / 40, Due: due,
		FirstToken: m.fleet.schedule.FirstToken(), Cut: m.cutAt, RetryAfter: got.gate,
		FleetRate: got.rate, Members: got.members, FleetTokens: got.left, Said: m.heard,
	})
	if end := time.Now().Add(got.gate); end.After(m.gateEnd) { // replies are in whole milliseconds
		m.gateEnd = end
	}
	m.lead(got)
}

// hear sets heard to what another process said, unless it is known already.
func (m *member) hear(got *reply, asked time.Time) {
	m.heard = nil
	if got.said.text == m.told || got.said.text == m.heardText {
		return
	}
	m.heardText = got.said.text
	heard, err := got.said.limits()
	if err != nil {
		m.fleet.report(m.share.Partition(), fmt.Errorf("fleet: %s: %w", m.key, err))
		return
	}
	if heard != nil { // the reply took some time, too
		late := time.Since(asked) / 2
		heard.Sent, heard.Heard = heard.Sent+late, heard.Heard+late
	}
	m.heard = heard
}

// request returns the request of the next renewal.
func (m *member) request(usage sharing.Usage) request {
	m.unsent.add(sums{
		accepted: float64(usage.Accepted), throttled: float64(usage.Throttled),
		acceptedBefore: float64(usage.AcceptedBefore), throttledBefore: float64(usage.ThrottledBefore),
	})
	if outcomes := usage.Accepted + usage.Throttled; outcomes > 0 && usage.Trip > 0 {
		m.unsent.trips += float64(outcomes) * float64(usage.Trip.Milliseconds())
		m.unsent.tripsOf += float64(outcomes)
	}
	sent := usage.Accepted + usage.Throttled + usage.AcceptedBefore + usage.ThrottledBefore
	m.sent += (float64(sent+usage.NotSent) - m.sent) / sentMemory
	r := request{
		id: m.id, lease: m.fleet.config.Lease, capacity: m.capacity,
		seedRate: m.last.rate, seedTokens: m.share.FirstTokens(),
		sums: m.unsent, rate: m.proposed, cut: m.cut,
		last:   m.last,
		wanted: m.wanted(usage), unused: m.unused(usage),
		expiry: m.fleet.config.Expiry, cutSeen: m.cutSeen,
		settings: m.settings, pacing: m.pacing, epoch: m.epoch, counted: m.counted,
	}
	if r.said = sayLimits(usage.Said); r.said.text == m.told {
		r.said = said{}
	} else {
		m.told = r.said.text
	}
	if usage.RetryAfter > time.Until(m.gateEnd) { // do not send back what came from a reply
		r.gate = usage.RetryAfter
	}
	if m.joined {
		r.seedTokens = m.last.left
	}
	if m.quota {
		m.balance(&r, usage)
	}
	return r
}

// wanted returns how many send tokens the process needs until the next renewal:
// for the requests that it usually sends, with a reserve, but at least one, and
// for the requests in line or refused.
func (m *member) wanted(usage sharing.Usage) float64 {
	const reserve = 1.25
	return max(max(reserve*m.sent, 1)+float64(usage.Waiting+usage.NotSent)-usage.SendTokens, 0)
}

// unused returns how many send tokens of the last grant were lost because no
// request needed them.
func (m *member) unused(usage sharing.Usage) float64 {
	if !m.joined || m.failing || m.last.rate == 0 {
		return 0
	}
	return min(usage.Unused, m.last.share*m.fleet.config.Lease.Seconds())
}

// sentMemory is over how many renewals the number of requests is smoothed.
// Requests in line are not smoothed, so that they get tokens at once.
const sentMemory = 5

// balance asks for the retry tokens that this process lacks, or returns the
// surplus. It moves none after a renewal that failed, because the store may have
// moved them then.
func (m *member) balance(r *request, usage sharing.Usage) {
	if !m.paid {
		if r.joining = !m.failing; r.joining {
			r.asked = m.float
		}
		return
	}
	want := min(m.float*(1+min(usage.Refused, 4)), m.capacity)
	r.held = usage.Tokens
	switch {
	case m.failing:
	case usage.Tokens < want:
		r.asked = want - usage.Tokens
	case usage.Tokens > 2*m.float:
		r.returned = m.share.TakeTokens(usage.Tokens - m.float)
		r.held -= r.returned
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
		m.unsent, m.leader, m.proposed, m.cut = sums{}, nil, -1, false
		return
	}
	m.failing = true
	m.fleet.report(m.share.Partition(), err)
}

// leave returns the lease, and the retry tokens above keep.
func (m *member) leave(keep int) {
	if !m.joined || m.failing {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout/2)
	defer cancel()
	usage := m.share.Usage()
	r := m.request(usage)
	r.leaving, r.wanted, r.asked = true, 0, 0
	if m.paid {
		more := m.share.TakeTokens(max(r.held-keep, 0))
		r.returned += more
		r.held -= more
	}
	_, _ = m.fleet.renew(ctx, m.key, &r) // the Fleet ends: nobody could handle the error
}

// lead finds the rate of the fleet if this process leads.
func (m *member) lead(got reply) {
	if !m.adaptive || !got.leader {
		m.leader = nil
		return
	}
	if m.leader == nil {
		law, _ := m.share.NewLaw(time.Unix(0, 0))
		m.leader = newLeader(law, m.fleet.config.Lease, got)
	}
	m.ledAt = time.Now()
	m.proposed, m.cut = m.leader.step(got)
	if !(m.proposed < mostRate) { // start over rather than exceed the bound
		m.leader, m.proposed, m.cut = nil, -1, false
	}
}
