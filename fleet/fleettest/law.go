package fleettest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A partition is what renew.lua stores of a partition. The fields have the same
// names there. Times are in milliseconds.
type partition struct {
	epoch, settings, pacing, leader, holes, said string

	now, server, pacingAt, leaderUntil, rate, cut, gate                  float64
	accepted, throttled, acceptedBefore, throttledBefore, trips, tripsOf float64
	began, window, mixed, order, highest, left, turn                     float64
	members, asking, granted, placed, places                             sum
	tokens, heldBegan, heldWindow, saidAt                                float64
	held                                                                 sum

	expires time.Time
}

// A sum is the sum over the members that renewed in this window, and over those
// that renewed in the one before.
type sum struct{ this, before float64 }

func (s *sum) total() float64 { return s.this + s.before }

// remove removes what a member added age windows ago.
func (s *sum) remove(n, age float64) {
	switch age {
	case 0:
		s.this = max(s.this-n, 0)
	case 1:
		s.before = max(s.before-n, 0)
	}
}

// next begins a window. gone means that nobody renewed in the one before.
func (s *sum) next(gone bool) {
	s.this, s.before = 0, s.this
	if gone {
		s.before = 0
	}
}

// A renewal is one run of renew.lua.
type renewal struct {
	p    *partition
	args []string

	id      string
	leaving bool
	lease   float64
	server  float64 // the server's clock
	elapsed float64 // on the store's clock, since the renewal before

	rate                               float64 // in tokens per millisecond, with what is left of earlier grants
	members, share, part, place, level float64 // for the reply
	tokens                             float64 // retry tokens that are granted
}

const (
	arguments  = 33
	mostPlaces = 1e5
)

// renew does what renew.lua does, in the same order. If it returns an error, p
// must not be stored. Explicit conversions keep products from being fused into
// additions, so that every platform computes the same numbers.
func (p *partition) renew(args []string, at time.Time) ([]string, error) {
	if len(args) != arguments {
		return nil, fmt.Errorf("fleettest: %d arguments; the Store runs renewals only, which have %d", len(args), arguments)
	}
	r := &renewal{p: p, args: args, id: args[0], leaving: args[19] == "1"}
	r.lease = r.number(2, 10, 60000)
	r.server = float64(at.Unix()*1000) + float64(at.Nanosecond()/1000)/1000
	r.open()
	if err := r.checkSettings(); err != nil {
		return nil, err
	}
	r.addSums()
	r.lead()
	r.moveWindow()
	r.divide()
	r.takePlace()
	r.moveTokens()
	p.gate = max(p.gate, p.now+r.number(21, 0, 86400000))
	if said, at := r.args[31], max(0, r.server-r.number(33, 0, 1e9)); said != "" && len(said) <= 4096 && at >= p.saidAt {
		p.said, p.saidAt = said, at
	}
	p.server = r.server
	p.expires = at.Add(time.Duration(r.number(22, 1000, 604800000)) * time.Millisecond)
	return r.reply(), nil
}

// number returns an argument, counted from 1 as in the script.
func (r *renewal) number(i int, low, high float64) float64 {
	n, err := strconv.ParseFloat(r.args[i-1], 64)
	if err != nil || !(n >= low) {
		return low
	}
	return min(n, high)
}

// open makes the partition if it is new, and moves its clock.
func (r *renewal) open() {
	p, seedTokens := r.p, r.number(5, 0, 1e9)
	if p.epoch == "" {
		p.epoch = fmt.Sprintf("%s %.0f", r.id, r.server)
		p.rate, p.tokens, p.server = r.number(4, 0, 1e9), min(seedTokens, r.number(3, 0, 1e9)), r.server
	}
	if known := r.args[28]; known != "" && (known != p.epoch || r.number(15, 0, 1e15) > p.window) {
		p.tokens = min(p.tokens, seedTokens)
		if p.rate == 0 {
			p.rate = r.number(4, 0, 1e9)
		}
	}
	r.elapsed = max(0, min(r.server-p.server, 10*r.lease))
	p.now += r.elapsed
	p.rate = min(p.rate, 1e9-1)
	p.leaderUntil, p.saidAt = min(p.leaderUntil, p.now+r.lease), min(p.saidAt, r.server)
}

// checkSettings returns an error if other members have other settings.
func (r *renewal) checkSettings() error {
	p, settings, pacing := r.p, r.args[23], r.args[24]
	silence := max(60000, 20*r.lease)
	differ := func(name, theirs, ours string) error {
		return fmt.Errorf("awsretry: the processes that share the key have %s%.99s; this one has %.99s", name, theirs, ours)
	}
	if p.settings != "" && p.settings != settings && r.server-p.server < silence {
		return differ("", p.settings, settings)
	}
	p.settings = settings
	if pacing == "" {
		return nil
	}
	if p.pacing != "" && p.pacing != pacing && r.server-p.pacingAt < silence {
		return differ("the pacing ", p.pacing, pacing)
	}
	p.pacing, p.pacingAt = pacing, r.server
	return nil
}

func (r *renewal) addSums() {
	p := r.p
	accepted, throttled := &p.accepted, &p.throttled
	if p.cut > r.number(23, 0, 1e15) { // the member has not heard of the last cut
		accepted, throttled = &p.acceptedBefore, &p.throttledBefore
	}
	for i, to := range []*float64{
		accepted, throttled, &p.acceptedBefore, &p.throttledBefore, &p.trips, &p.tripsOf,
	} {
		*to += r.number(6+i, 0, 1e9)
	}
}

// lead takes the leader's rate, and finds a leader.
func (r *renewal) lead() {
	p, leads := r.p, r.p.leader == r.id
	if rate := r.number(12, -1, 1e9); leads && rate >= 0 && rate < 1e9 {
		if r.args[12] == "1" {
			p.cut = math.Floor(p.now)
		}
		p.rate = rate
	}
	switch {
	case r.leaving && leads:
		p.leader = ""
	case !r.leaving && r.args[24] != "" && (p.leader == "" || leads || p.leaderUntil < p.now):
		p.leader, p.leaderUntil = r.id, p.now+r.lease
	}
}

func (r *renewal) moveWindow() {
	p := r.p
	if p.window > 0 && p.now-p.began < r.lease {
		return
	}
	placed := p.placed.total()
	if p.places.total() == placed*(placed+1)*(2*placed+1)/6 {
		p.mixed = 0
	} else {
		p.mixed++
	}
	if p.mixed >= 4 {
		p.mixed, p.holes, p.highest, p.order = 0, "", 0, math.Mod(p.order+1, 1000)
	}
	gone := p.now-p.began >= 2*r.lease
	for _, s := range []*sum{&p.members, &p.asking, &p.granted, &p.placed, &p.places} {
		s.next(gone)
	}
	p.began = p.now
	p.window++
}

// divide finds the member's share of the rate.
func (r *renewal) divide() {
	p, age := r.p, r.p.window-r.number(15, 0, 1e15)
	share, part := r.number(16, 0, 1e9)/1000, r.number(26, 0, 1)
	inOrder := math.Floor(r.number(27, 0, 1e9))
	r.place = math.Mod(inOrder, mostPlaces)

	most := p.rate / 1000
	saved := r.lease / 8 * most
	p.left = p.left + float64(r.elapsed*(most-p.granted.total())) + r.number(28, 0, 1e9)
	p.left = max(min(p.left, saved), -saved)
	r.rate = most + p.left/r.lease
	p.turn = fraction(p.turn + r.elapsed*r.rate/max(p.asking.total(), 1))

	p.members.remove(1, age)
	p.asking.remove(part, age)
	p.granted.remove(share, age)
	p.placed.remove(min(r.place, 1), age)
	p.places.remove(r.place*r.place, age)
	if math.Floor(inOrder/mostPlaces) != p.order {
		r.place = 0
	}
	if age != 0 && age != 1 {
		share = 0
	}
	r.members = p.members.total()
	if r.leaving {
		return
	}
	r.members++
	asking := p.asking.total()
	fair := r.rate / (asking + 1)
	least := r.rate / (10 * r.members)
	want := max(r.number(14, 0, 1e9)/(r.lease/2), least)
	r.share = max(min(want, fair, max(share, r.rate-p.granted.total()), most), least)
	r.part = 1
	if want < fair {
		r.part = min(max(want/r.rate, want*asking/(r.rate-want)), 1)
	}
	p.members.this++
	p.asking.this += r.part
	p.granted.this += r.share
}

// takePlace finds the member's place in the round, or gives it up.
func (r *renewal) takePlace() {
	p := r.p
	r.level = 2
	switch {
	case r.part == 1:
		p.placed.this++
		r.findPlace(p.placed.total())
		p.places.this += r.place * r.place
		if r.share > 0.9*r.rate/max(p.asking.total(), 1) {
			r.level = fraction(p.turn - r.place/p.placed.total())
		}
	case r.place > 0:
		p.holes = text(r.place) + " " + p.holes
		if len(p.holes) > 60 {
			p.holes = ""
		}
		r.place = 0
	}
}

// findPlace finds a place if the member has none of the places from 1 on.
func (r *renewal) findPlace(places float64) {
	p := r.p
	p.highest = min(p.highest, places)
	if r.place != 0 && r.place <= places {
		return
	}
	left := ""
	r.place = places
	for hole := range strings.FieldsSeq(p.holes) {
		if n, _ := strconv.ParseFloat(hole, 64); r.place == places && n < places {
			r.place = n
		} else {
			left += hole + " "
		}
	}
	p.holes = left
	if r.place == places && p.highest < places {
		p.highest++
		r.place = p.highest
	}
}

// moveTokens moves retry tokens between the store and the member.
func (r *renewal) moveTokens() {
	p, held := r.p, r.number(19, 0, 1e9)
	if p.now-p.heldBegan >= 12*r.lease || p.heldWindow == 0 {
		p.held.next(p.now-p.heldBegan >= 24*r.lease)
		p.heldBegan = p.now
		p.heldWindow++
	}
	if r.args[28] == p.epoch {
		p.held.remove(r.number(31, 0, 1e9), p.heldWindow-r.number(30, 0, 1e15))
	}
	room := max(0, r.number(3, 0, 1e9)-p.held.total()-held)
	p.tokens = min(p.tokens+r.number(17, 0, 1e9), room)
	r.tokens = min(r.number(18, 0, 1e9), math.Floor(p.tokens))
	p.tokens -= r.tokens
	if !r.leaving {
		p.held.this += held + r.tokens
	}
}

func (r *renewal) reply() []string {
	p := r.p
	leads, place := "0", 0.0
	if p.leader == r.id {
		leads = "1"
	}
	if r.place > 0 {
		place = r.place + p.order*mostPlaces
	}
	age := 0.0
	if p.said != "" {
		age = max(0, r.server-p.saidAt)
	}
	return []string{
		p.epoch, text(p.now), text(p.window), text(p.rate), text(min(r.share*1000, p.rate)), text(r.members),
		leads, text(p.cut), text(r.tokens), text(p.tokens), text(max(0, p.gate-p.now)),
		text(p.accepted), text(p.throttled), text(p.acceptedBefore), text(p.throttledBefore),
		text(p.trips), text(p.tripsOf),
		text(r.part), text(place), text(r.level), text(p.heldWindow),
		p.said, text(age),
	}
}

func fraction(x float64) float64 { return x - math.Floor(x) }

func text(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
