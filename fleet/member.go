package fleet

import (
	"context"
	"fmt"
	"math"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/pacer"
)

// A member is one Transport of this process in one partition. Only the share may
// be used outside the goroutine that runs it.
type member struct {
	fleet *Fleet
	share *admission.Share
	id    string // unique, also among the members of one Fleet

	maxRate          float64 // lower than Config.MaxRate by the variation
	settings, pacing string  // must be the same in all processes; pacing is "" except in adaptive mode

	capacity, float int  // of retry tokens; float is what the process keeps for its next retries
	perCall         int  // retry tokens that the retries of a call cost at most
	quota           bool // there are retry tokens
	paid            bool // the retry tokens of this process come from the fleet
	had             int  // retry tokens after the last renewal
	counted         int  // retry tokens that the store has recorded as held

	unsent   protocol.Sums  // outcomes that the store may not have
	last     protocol.Reply // zero before the first one
	lastAt   time.Time      // when it was asked for
	until    time.Time      // the end of the lease that it granted
	failing  bool           // the last renewal failed; settle sets it
	failed   int            // renewals in a row
	took     time.Duration  // the last renewal
	away     time.Duration  // how far the store is: half of the shorter of the last two renewals
	slow     int            // renewals in a row that took too much of a lease
	troubled bool           // settle counts it
	short    bool           // the last renewal granted none of the slots that were needed
	gateEnd  time.Time      // of the last reply's Retry-After
	leader   *leader        // nil while another process leads
	ledAt    time.Time      // when the leader last got a reply
	proposed protocol.Law   // by the leader, for the next renewal
	cut      bool           // others should know of proposed at once
	sent     float64        // requests in half a lease, including refused ones; smoothed
	quiet    int            // renewals in a row that were not needed

	told, heard string // the limits that this process last sent and received
}

func newMember(f *Fleet, share *admission.Share, id string) *member {
	m := &member{
		fleet: f, share: share, id: id, proposed: noLaw,
	}
	var cost int
	m.capacity, cost, m.perCall, m.quota = share.RetryTokens()
	m.float = min(cost, m.capacity)
	quota, pacing := share.Settings()
	if m.maxRate = f.config.MaxRate / (1 + variation.Seconds()); m.maxRate > 0 {
		quota = "MaxRate " + quota
	}
	m.settings, m.pacing = fmt.Sprintf("Lease:%v %s", f.config.Lease, quota), pacing
	return m
}

// run renews the lease until the fleet or the partition ends.
func (m *member) run() {
	period, schedule := m.fleet.config.Lease/2, m.fleet.schedule
	timer := time.NewTimer(schedule.RenewIn(0))
	defer timer.Stop()
	m.begin(m.fleet.FirstRate())
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
		if !m.joined() && !m.fleet.admits() {
			earliest = time.Now().Add(period / 2)
			timer.Reset(schedule.RenewIn(period / 2))
			continue
		}
		schedule.BeginRenewal()
		began, soonest := time.Now(), period/2
		m.renew()
		if m.cut { // tell the others at once
			schedule.BeginRenewal() // the first renewal has woken callers
			m.renew()
			soonest = period
		}
		pause := max(period-time.Since(began), period/20) // the lease starts at began
		switch {
		case m.last.Opens > 0 && !m.failing:
			pause = duration(m.last.Opens) * 21 / 20
		case m.idle():
			pause = m.idlePause()
		case m.failing:
			pause = m.retryPause()
		case m.short:
			next := duration(1000 * (1 - m.last.Credit) / m.last.Share)
			pause = max(min(max(period/2, next), period)-time.Since(began), period/20)
		}
		if m.failing { // no early renewals: spare a failing store
			soonest = pause
		}
		earliest = time.Now().Add(min(pause, soonest))
		timer.Reset(schedule.RenewIn(pause))
	}
}

// begin sets the rate before the first lease. Processes that start together begin
// with different parts of a token, so that they do not send at the same time.
func (m *member) begin(rate float64) {
	if m.maxRate > 0 {
		m.share.Alone(rate, m.fleet.schedule.FirstToken())
	}
}

// idle reports whether the process has not needed a lease for a while. An idle
// process seldom renews its lease until the share wakes it.
func (m *member) idle() bool { return m.quiet >= 10 }

// idlePause returns the time between the renewals of an idle process. It is below
// ten leases, the longest step of the script's clock.
func (m *member) idlePause() time.Duration {
	return min(m.fleet.config.Lease*19/2, m.fleet.config.Expiry/2)
}

// retryPause returns how long to wait after a failed renewal: shortly at first, and
// less than half a lease, so that all processes are back when a closed key opens.
func (m *member) retryPause() time.Duration {
	lease := m.fleet.config.Lease
	return min(lease/40<<min(m.failed-1, 10), lease*9/20)
}

// used reports whether the process has used anything since the last renewal, or
// needs anything.
func (m *member) used(usage admission.Usage, r *protocol.Request) bool {
	return r.Sums != protocol.Sums{} || usage.Waiting > 0 || usage.NotSent > 0 || usage.Refused > 0 ||
		usage.RetryAfter > 0 || r.Returned > 0 || m.quota && usage.Tokens != m.had
}

// changed reports whether a renewal changed the lease, or has outcomes that the
// leader counts.
func (m *member) changed(got *protocol.Reply) bool {
	return got.Tokens > 0 || got.Gate > 0 || got.Epoch != m.last.Epoch || got.Sums != protocol.Sums{}
}

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
	m.timed(time.Since(asked))
	m.fleet.settle(m, false)
	if m.changed(&got) {
		m.quiet = 0
	}
	m.unsent, m.proposed, m.cut, m.failed = protocol.Sums{}, noLaw, false, 0
	if m.last.Epoch != got.Epoch {
		m.leader = nil
	}
	tokens := int(got.Tokens)
	if m.paid || joining {
		m.counted = r.Held + tokens
	}
	if joining { // drop the tokens from when it was alone
		m.share.TakeTokens(math.MaxInt32)
		m.paid, m.had = true, 0
	}
	m.had += tokens
	m.last, m.lastAt, m.short = got, asked, m.maxRate > 0 && got.Slots == 0 && r.Wanted >= 1
	m.share.AddTokens(tokens)
	if got.Opens > 0 {
		m.lead(&got)
		return
	}
	until := asked.Add(m.fleet.config.Lease)
	if m.maxRate > 0 {
		until = asked.Add(m.fleet.config.Lease * 7 / 8)
	}
	idleUntil := until
	if m.idle() {
		idleUntil = until.Add(m.idlePause())
	}
	if m.pacing == "" || m.maxRate > 0 {
		// Without a rate, no request waits for the lease. With slots, an idle process
		// must not send alone because its lease ended.
		until = idleUntil
	}
	m.until = until
	gate, received, rate := duration(got.Gate), time.Now(), got.Rate
	if m.maxRate > 0 && !(rate > 0 && rate < got.MaxRate) {
		rate = got.MaxRate
	}
	m.share.Grant(pacer.Grant{
		Until: until, IdleUntil: idleUntil, Slow: m.slow >= slowRenewals, Limited: rate > 0,
		Rate: got.Share, Burst: m.fleet.config.Lease / 40,
		FirstToken: m.fleet.schedule.FirstToken(), RetryAfter: gate,
		FleetRate: rate, Members: int(got.Members), FleetTokens: int(got.Left), SpareTokens: int(got.Spare), Said: m.hear(&got, asked),
		AloneAtMost: m.alonePart(&got), Slots: int(got.Slots), Every: duration(got.Every) + 1,
		FirstSlot: received.Add(duration(got.At) - received.Sub(asked)/2),
	})
	if end := time.Now().Add(gate); end.After(m.gateEnd) {
		m.gateEnd = end
	}
	m.lead(&got)
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

// alonePart returns the rate of one member without a lease. If all members send at
// it, they keep MaxRate in any second.
func (m *member) alonePart(last *protocol.Reply) float64 {
	part := last.MaxRate * (1 + variation.Seconds()) / max(last.Members, 1)
	if part > 1 { // in some seconds it would send one more than its part
		part = math.Floor(part * (1 + rounding))
	}
	return part / (1 + variation.Seconds())
}

// hear returns the limits that another process sent, or nil if they are not new.
func (m *member) hear(got *protocol.Reply, asked time.Time) *pacer.Said {
	if got.Said == "" || got.Said == m.told || got.Said == m.heard {
		return nil
	}
	m.heard = got.Said
	late := time.Since(asked) / 2 // the age of the reply
	said, err := readLimits(got.Said, duration(got.SaidAge)+late)
	if err != nil {
		m.fleet.report(m.share.Partition(), err)
	}
	return said
}

// request returns the request of the next renewal.
func (m *member) request(usage admission.Usage) protocol.Request {
	news := protocol.Sums{
		Sent: float64(usage.Sent), Throttled: float64(usage.Throttled),
		Trips: milliseconds(usage.Trips.Sum), TripsOf: float64(usage.Trips.Of),
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

// lead finds the rate of the fleet if this process leads.
func (m *member) lead(got *protocol.Reply) {
	if !got.Leader {
		m.leader = nil
		return
	}
	if m.leader == nil {
		law, _ := m.share.NewLaw(time.Unix(0, 0))
		m.leader = newLeader(law, m.fleet.config.Lease, got)
	}
	m.ledAt = time.Now()
	m.proposed, m.cut = m.leader.step(got)
	if !(m.proposed.Rate < mostRate && m.proposed.Limit < mostRate) { // start over rather than exceed the bound
		m.leader, m.proposed, m.cut = nil, noLaw, false
	}
}
