package fleet

import (
	"fmt"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/internal/admission"
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

// retryPause returns how long to wait after a failed renewal: shortly at first, and
// less than half a lease, so that all processes are back when a closed key opens.
func (m *member) retryPause() time.Duration {
	lease := m.fleet.config.Lease
	return min(lease/40<<min(m.failed-1, 10), lease*9/20)
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
