package fleettest

import (
	"fmt"
	"math"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

// format is the version of the hash's fields.
const format = "5"

// A partition has the fields that renew.lua stores, with the same names. Times are
// in milliseconds.
type partition struct {
	format, epoch, other, slotsOf, settings, pacing, leader, said string

	now, server, renewals, pacingAt, leaderUntil, rate, limit, trip float64
	gate, saidAt                                                    float64
	sent, throttled, trips, tripsOf                                 float64
	left, next, tokens, spare, traffic                              float64
	opens, leased, slotsAt                                          float64
	members, asking, granted, most, held                            sum

	expires time.Time
}

// A sum adds up values of the members that renewed in the current window of the
// clock, and of those that renewed in the one before.
type sum struct{ this, before float64 }

func (s *sum) total() float64 { return s.this + s.before }

// remove removes what a member added age windows ago. A negative age means that it
// added nothing.
func (s *sum) remove(n, age float64) {
	switch age {
	case 0:
		s.this = max(s.this-n, 0)
	case 1:
		s.before = max(s.before-n, 0)
	}
}

// move moves on by that many windows.
func (s *sum) move(passed float64) {
	if passed > 0 {
		s.this, s.before = 0, s.this
	}
	if passed > 1 {
		s.before = 0
	}
}

// A renewal is one run of renew.lua.
type renewal struct {
	*protocol.Request
	p        *partition
	server   float64 // the server's clock
	before   float64 // the store's clock at the renewal before
	elapsed  float64 // on that clock, since then
	same     bool    // the member knows the epoch
	capacity float64 // for retry tokens
	reply    protocol.Reply
}

// renew does what renew.lua does, in the same order. Explicit conversions keep
// products from being fused into additions, so that every platform computes the
// same numbers.
func (p *partition) renew(a *protocol.Request, at time.Time) protocol.Reply {
	r := &renewal{Request: a, p: p, server: float64(at.Unix()*1000) + float64(at.Nanosecond()/1000)/1000}
	if name, theirs := r.differs(); name != "" {
		return protocol.Reply{Differs: name, Theirs: theirs[:min(len(theirs), 1000)]}
	}
	r.open()
	r.addSums()
	r.lead()
	r.moveWindows()
	r.divide()
	r.moveTokens()
	p.gate = max(p.gate, p.now+a.Gate)
	if at := max(0, r.server-a.SaidAge); a.Said != "" && at >= p.saidAt {
		p.said, p.saidAt = a.Said, at
	}
	expiry := a.Expiry
	known := p.rate > 0 || p.gate > p.now || p.said != "" || p.tokens+p.held.total() < min(r.capacity, float64(a.Capacity))
	if !known {
		expiry = min(expiry, r.silence())
	}
	p.expires = at.Add(time.Duration(expiry) * time.Millisecond)

	r.reply.Epoch, r.reply.Now, r.reply.Renewals = p.epoch, math.Floor(p.now), p.renewals
	r.reply.Law = protocol.Law{Rate: p.rate, Limit: p.limit, Trip: p.trip}
	r.reply.Left, r.reply.Spare, r.reply.Gate = p.tokens, p.spare, p.gate-p.now
	if r.reply.Said = p.said; p.said != "" {
		r.reply.SaidAge = r.server - p.saidAt
	}
	return r.reply
}

// differs returns the name of a setting that the other members have with another
// value, and that value.
func (r *renewal) differs() (name, theirs string) {
	for _, s := range []struct {
		name, theirs, ours string
		at                 float64
	}{
		{"format", r.p.format, format, r.p.server},
		{"settings", r.p.settings, r.Settings, r.p.server},
		{"pacing", r.p.pacing, r.Pacing, r.p.pacingAt},
	} {
		silent := math.Abs(r.server-s.at) >= r.silence()
		if s.ours != "" && s.theirs != "" && s.theirs != s.ours && !silent {
			return s.name, s.theirs
		}
	}
	return "", ""
}

// silence is how long a key must not have been renewed before processes with other
// settings may use it.
func (r *renewal) silence() float64 { return max(60000, 20*r.Lease) }

// open advances the clock, and re-creates the partition if it is new or an older
// copy.
func (r *renewal) open() {
	p := r.p
	r.elapsed = max(0, min(r.server-p.server, 10*r.Lease))
	r.before = p.now
	p.now += r.elapsed
	if p.epoch == "" || p.epoch == r.Epoch && (r.before < r.Now || p.renewals < r.Renewals) {
		*p = partition{
			format: format, epoch: fmt.Sprintf("%s %.0f", r.ID, r.server),
			rate: r.SeedRate, limit: r.SeedRate, tokens: float64(min(r.SeedTokens, r.Capacity)),
			opens: r.Lease, leased: 2 * r.Lease, other: r.Epoch,
		}
		r.before, r.elapsed = 0, 0
	}
	p.server, p.settings, p.saidAt = r.server, r.Settings, min(p.saidAt, r.server)
	p.renewals++
	if r.Pacing != "" {
		p.pacing, p.pacingAt = r.Pacing, r.server
	}
	if r.same = p.epoch == r.Epoch; !r.same && r.Epoch != "" {
		p.tokens = min(p.tokens, float64(r.SeedTokens))
		if p.rate == 0 {
			p.rate, p.limit = r.SeedRate, r.SeedRate
		}
	}
}

func (r *renewal) addSums() {
	p := r.p
	p.sent += r.Sent
	p.throttled += r.Throttled
	p.trips += r.Trips
	p.tripsOf += r.TripsOf
}

// lead stores the leader's rate, and chooses the leader, which gets the sums.
func (r *renewal) lead() {
	p, leads := r.p, r.p.leader == r.ID
	if leads && r.Rate >= 0 {
		p.rate, p.limit, p.trip = r.Rate, r.Limit, r.Trip
	}
	switch {
	case r.Leaving && leads:
		p.leader = ""
	case !r.Leaving && r.Pacing != "" && (p.leader == "" || leads || p.leaderUntil < p.now):
		p.leader, p.leaderUntil = r.ID, p.now+r.Lease
	}
	if r.reply.Leader = p.leader == r.ID; r.reply.Leader {
		r.reply.Sums = protocol.Sums{Sent: p.sent, Throttled: p.throttled, Trips: p.trips, TripsOf: p.tripsOf}
		p.sent, p.throttled, p.trips, p.tripsOf = 0, 0, 0, 0
	}
}

// longWindow is the window for the tokens that members hold, in leases.
const longWindow = 12

func (r *renewal) moveWindows() {
	p, passed := r.p, r.passed(r.Lease, r.before)
	p.members.move(passed)
	p.asking.move(passed)
	p.granted.move(passed)
	p.most.move(passed)
	p.held.move(r.passed(longWindow*r.Lease, r.before))
}

// passed returns how many windows have begun since a time.
func (r *renewal) passed(window, since float64) float64 {
	return math.Floor(r.p.now/window) - math.Floor(since/window)
}

// age returns how many windows ago the member last renewed, or -1 if it has not
// renewed in this epoch.
func (r *renewal) age(window float64) float64 {
	if !r.same {
		return -1
	}
	return r.passed(window, r.Now)
}

// divide finds the member's share of the rate.
func (r *renewal) divide() {
	p, age, had := r.p, r.age(r.Lease), r.Share/1000
	pace := p.rate
	if r.MaxRate > 0 {
		if pace = r.lowestMaxRate(); p.rate > 0 {
			pace = min(p.rate, pace)
		}
		r.reply.Every = 1000 / pace
		r.close()
		if p.opens > p.now {
			p.next = max(p.next, p.opens+min(p.members.total()*r.reply.Every, r.Lease)/2)
		}
		if p.slotsOf == r.asker() {
			p.next = p.slotsAt
		}
		p.next = min(max(p.next, p.now+r.Away), p.now+2*r.Lease+r.reply.Every)
	}
	most := pace / 1000
	saved := r.Lease / 8 * most
	p.left = p.left + float64(r.elapsed*(most-p.granted.total())) + r.Unused
	if r.MaxRate > 0 {
		p.left = (p.now + r.Lease*3/8 + r.reply.Every - p.next) * most
	}
	p.left = max(min(p.left, saved), -saved)
	rate := most + p.left/r.Lease

	p.members.remove(1, age)
	p.asking.remove(r.Part, age)
	p.granted.remove(had, age)
	if age != 0 && age != 1 {
		had = 0
	}
	r.reply.Members = p.members.total()
	if r.Leaving {
		return
	}
	r.reply.Members++
	asking := p.asking.total()
	fair := rate / (asking + 1)
	least := rate / (10 * r.reply.Members)
	want := max(r.Wanted/(r.Lease/2), least)
	share := max(min(want, fair, max(had, rate-p.granted.total()), most), least)
	r.reply.Part = 1
	if want < fair {
		r.reply.Part = min(max(want/rate, want*asking/(rate-want)), 1)
	}
	p.members.this++
	p.asking.this += r.reply.Part
	p.granted.this += share
	r.reply.Share = min(share*1000, pace)
	if r.MaxRate > 0 {
		r.grantSlots(share, want < fair)
	}
}

// lowestMaxRate adds the member's MaxRate, and returns the lowest one of all.
func (r *renewal) lowestMaxRate() float64 {
	p, lowest := r.p, r.MaxRate
	if !r.Leaving && (p.most.this == 0 || p.most.this > lowest) {
		p.most.this = lowest
	}
	for _, other := range []float64{p.most.this, p.most.before} {
		if other > 0 {
			lowest = min(lowest, other)
		}
	}
	r.reply.MaxRate = lowest
	return lowest
}

// close closes the key for a time if members may send in slots that it did not
// grant, or without a lease.
func (r *renewal) close() {
	p, lapsed := r.p, !r.same || r.Ends < r.p.now
	switch copied := !r.same && r.Epoch != "" && r.Epoch != p.other; {
	case copied:
		p.opens, p.leased, p.other = p.now+r.Lease, p.now+2*r.Lease, r.Epoch
	case lapsed && p.leased < p.now:
		p.opens, p.leased, p.other = p.now+r.Lease/2, p.now+2*r.Lease, r.Epoch
	case !lapsed:
		p.leased = max(p.leased, p.now+r.Lease)
	}
	p.opens, p.leased = min(p.opens, p.now+r.Lease), min(p.leased, p.now+2*r.Lease)
	r.reply.Opens = max(p.opens-p.now, 0)
}

// asker returns what only a repetition of the renewal has in common with it.
func (r *renewal) asker() string { return fmt.Sprintf("%s %.0f", r.ID, r.Renewals) }

// grantSlots grants a member the slots that it needs, or its share of them.
func (r *renewal) grantSlots(share float64, enough bool) {
	p, own := r.p, min(r.Credit+float64(share*r.Since), max(share*r.Lease, 1))
	before := func(time float64) float64 { return math.Ceil((time - p.next) / r.reply.Every) }
	needed := math.Floor(r.Wanted)
	offered := max(math.Floor(own), before(p.now+r.Lease/4))
	if enough {
		offered = needed
	}
	if r.reply.Opens == 0 {
		r.reply.Slots = max(min(needed, offered, before(p.now+r.Lease)), 0)
	}
	if r.reply.Slots > 0 {
		p.slotsOf, p.slotsAt = r.asker(), p.next
	}
	r.reply.At, r.reply.Credit = p.next-p.now, max(own-r.reply.Slots, 0)
	p.next += float64(r.reply.Slots * r.reply.Every)
}

// moveTokens moves retry tokens between the store and the member.
func (r *renewal) moveTokens() {
	p, held := r.p, float64(r.Held)
	p.held.remove(float64(r.Counted), r.age(longWindow*r.Lease))
	p.traffic = float64(p.traffic*max(0, 1-r.elapsed/60000)) + max(r.Traffic, 0)
	r.capacity = float64(r.Capacity)
	if r.Traffic >= 0 {
		r.capacity = min(p.traffic, r.reply.Members*r.capacity)
	}
	r.capacity = max(r.capacity, r.reply.Members*float64(r.PerCall))
	room := max(0, r.capacity-p.held.total()-held)
	p.tokens = min(p.tokens+float64(r.Returned), room)
	r.reply.Tokens = min(float64(r.Asked), math.Floor(p.tokens))
	p.tokens -= r.reply.Tokens
	p.spare = min(p.spare+float64(r.Spare), r.reply.Members*float64(r.Capacity))
	spared := min(float64(r.Asked)-r.reply.Tokens, float64(r.Spared), math.Floor(p.spare))
	p.spare -= spared
	r.reply.Tokens += spared
	if !r.Leaving {
		p.held.this += held + r.reply.Tokens
	}
}
