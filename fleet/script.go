package fleet

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"time"
)

//go:embed renew.lua
var script string

// A request is the arguments of the script, in its order. Rates are in requests
// per second.
type request struct {
	id         string
	lease      time.Duration
	capacity   int     // of the retry token bucket
	seedRate   float64 // if the key is new
	seedTokens int     // if the key is new

	sums sums // since the last renewal that succeeded

	rate float64 // that the leader found; negative means none
	cut  bool    // the leader cut the rate

	wanted float64 // send tokens in half a lease
	unused float64 // send tokens of the last grant
	last   reply

	returned, asked, held int // retry tokens
	counted               counted
	joining               bool // asked is all that the process begins with

	leaving bool
	gate    time.Duration // until the end of a Retry-After
	expiry  time.Duration
	cutSeen time.Duration // the last cut that this process knows of

	settings, pacing string // see member
	epoch            string // of the last renewal; "" means none

	said said
}

// A counted is how many retry tokens the store has recorded for a process, and
// in which of the store's windows.
type counted struct {
	tokens int
	window float64
}

// A sums counts the outcomes of one process, or of all processes.
type sums struct {
	accepted, throttled             float64
	acceptedBefore, throttledBefore float64
	trips, tripsOf                  float64 // round trips: milliseconds, and number of attempts
}

func (s *sums) add(t sums) {
	s.accepted += t.accepted
	s.throttled += t.throttled
	s.acceptedBefore += t.acceptedBefore
	s.throttledBefore += t.throttledBefore
	s.trips += t.trips
	s.tripsOf += t.tripsOf
}

// since returns what was added to t, and 0 for what the store has lost.
func (s sums) since(t sums) sums {
	return sums{
		max(s.accepted-t.accepted, 0), max(s.throttled-t.throttled, 0),
		max(s.acceptedBefore-t.acceptedBefore, 0), max(s.throttledBefore-t.throttledBefore, 0),
		max(s.trips-t.trips, 0), max(s.tripsOf-t.tripsOf, 0),
	}
}

func (r *request) args() []string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	flag := func(set bool) string {
		if set {
			return "1"
		}
		return "0"
	}
	s := r.sums
	return []string{
		r.id, milliseconds(r.lease), strconv.Itoa(r.capacity), number(r.seedRate), strconv.Itoa(r.seedTokens),
		number(s.accepted), number(s.throttled), number(s.acceptedBefore), number(s.throttledBefore),
		number(s.trips), number(s.tripsOf),
		number(r.rate), flag(r.cut), number(r.wanted), number(r.last.window), number(r.last.share),
		strconv.Itoa(r.returned), strconv.Itoa(r.asked), strconv.Itoa(r.held),
		flag(r.leaving), milliseconds(r.gate), milliseconds(r.expiry), milliseconds(r.cutSeen),
		r.settings, r.pacing,
		number(r.last.part), strconv.Itoa(r.last.place), number(r.unused),
		r.epoch, number(r.counted.window), strconv.Itoa(r.counted.tokens),
		r.said.text, milliseconds(r.said.age),
	}
}

// A reply is what the script returns, in its order.
type reply struct {
	epoch   string        // changes when the key is made again
	now     time.Duration // of the store's clock
	window  float64
	rate    float64 // of all processes; 0 means not limited
	share   float64 // this process's part of rate
	members int
	leader  bool
	cut     time.Duration // when the rate was last cut
	tokens  int           // retry tokens that are granted to this process
	left    int           // retry tokens in the store
	gate    time.Duration // until the end of a Retry-After
	totals  sums
	part    float64 // of a fair share that this process wants, at most 1
	place   int     // and order, in the round of those that want more than a fair share; 0 means none
	level   float64 // how much of its next send token the process should have; noLevel means any

	heldWindow float64 // see counted

	said said
}

const noLevel = 2

// The limits of a reply. A store that exceeds them does not run the script.
const (
	mostRate    = 1e9
	mostTokens  = math.MaxInt32
	mostMembers = 1e6
	mostTotal   = 1e15
	mostPlace   = 1e8
	longestGate = 24 * time.Hour

	longestEpoch = 300 // bytes
)

const (
	leastShare = 100  // a process is granted at least an equal share divided by this
	rounding   = 1e-9 // relative error of a rate
)

// renew runs the script and checks its reply.
func (f *Fleet) renew(ctx context.Context, key string, r *request) (reply, error) {
	values, err := f.eval(ctx, key, r.args())
	if err != nil {
		return reply{}, err
	}
	const length = 23
	if len(values) != length {
		return reply{}, fmt.Errorf("fleet: %s: the store returned %d values; it must return %d", key, len(values), length)
	}
	p := parser{values: values[1:]}
	got := reply{
		epoch:   values[0],
		now:     p.duration("now", math.MaxInt64),
		window:  p.number("window", 1e15),
		rate:    p.number("rate", mostRate),
		share:   p.number("share", mostRate),
		members: int(p.number("members", mostMembers)),
		leader:  p.number("leader", 1) == 1,
		cut:     p.duration("cut", math.MaxInt64),
		tokens:  int(p.number("tokens", mostTokens)),
		left:    int(p.number("tokens left", mostTokens)),
		gate:    p.duration("Retry-After", longestGate),
	}
	t := &got.totals
	for _, sum := range []*float64{
		&t.accepted, &t.throttled, &t.acceptedBefore, &t.throttledBefore, &t.trips, &t.tripsOf,
	} {
		*sum = p.number("sum", mostTotal)
	}
	got.part = p.number("part", 1)
	got.place = int(p.number("place", mostPlace))
	got.level = p.number("level", noLevel)
	got.heldWindow = p.number("window of held tokens", 1e15)
	got.said.text, p.values = p.values[0], p.values[1:]
	got.said.age = p.duration("age of limits", math.MaxInt64)
	switch {
	case p.err != nil:
		return reply{}, fmt.Errorf("fleet: %s: %w", key, p.err)
	case len(got.epoch) > longestEpoch:
		return reply{}, fmt.Errorf("fleet: %s: the store has an epoch of %d bytes", key, len(got.epoch))
	case got.tokens > r.asked:
		return reply{}, fmt.Errorf("fleet: %s: the store granted %d retry tokens; %d were asked for",
			key, got.tokens, r.asked)
	case got.share < got.rate/(leastShare*float64(max(got.members, 1))) && !r.leaving: // requests would wait for ever
		return reply{}, fmt.Errorf("fleet: %s: the store granted a rate of %g; that of %d processes is %g",
			key, got.share, got.members, got.rate)
	case got.share > got.rate*(1+rounding):
		return reply{}, fmt.Errorf("fleet: %s: the store granted a rate of %g; that of all processes is %g",
			key, got.share, got.rate)
	}
	return got, nil
}

// eval calls the client and returns its panic as an error, so that requests
// continue without the store.
func (f *Fleet) eval(ctx context.Context, key string, args []string) (values []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fleet: %s: the client panicked: %v", key, p)
		}
	}()
	return f.client.Eval(ctx, script, []string{key}, args)
}

// A parser reads the numbers of a reply in order, and keeps the first error.
type parser struct {
	values []string
	err    error
}

// number returns the next number, which must be from 0 to most.
func (p *parser) number(name string, most float64) float64 {
	text := p.values[0]
	p.values = p.values[1:]
	x, err := strconv.ParseFloat(text, 64)
	if p.err == nil && (err != nil || !(x >= 0 && x <= most)) {
		p.err = fmt.Errorf("the store returned %.40q for %s; it must be a number from 0 to %g", text, name, most)
	}
	if p.err != nil {
		return 0
	}
	return x
}

// duration returns the next number of milliseconds as a duration.
func (p *parser) duration(name string, most time.Duration) time.Duration {
	return time.Duration(p.number(name, float64(most.Milliseconds())) * float64(time.Millisecond))
}
