package announced

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const s = time.Second

// A story is a sequence of events for a Ledger. Only at moves its clock.
type story struct {
	*testing.T
	*Ledger
	now time.Duration
}

// at sets the clock.
func (y *story) at(now time.Duration) { y.now = now }

// request returns a request with these costs. Without any, all costs are learned.
func (y *story) request(costs []float64) Request {
	if len(costs) == 0 {
		return Request{}
	}
	r := Request{Costs: make(map[string]float64)}
	for i, m := range y.limits {
		if i < len(costs) {
			r.Costs[m.name] = costs[i]
		}
	}
	return r
}

// send sends a request, which must not have to wait.
func (y *story) send(costs ...float64) (sent time.Duration) {
	y.Helper()
	sent, held, _ := y.Take(y.now, y.request(costs))
	if held != 0 {
		y.Fatalf("at %v: refused; wait %v", y.now, y.wait(y.request(costs)))
	}
	return sent
}

// sendAt is send at the given time.
func (y *story) sendAt(now time.Duration) (sent time.Duration) {
	y.Helper()
	y.at(now)
	return y.send()
}

// wait returns how long a request has to wait.
func (y *story) wait(r Request) time.Duration { return y.Wait(y.now, nil, y.Of(r), r) }

// waits checks how long a request has to wait, and that it cannot be sent before.
func (y *story) waits(want time.Duration, costs ...float64) {
	y.Helper()
	if got := y.wait(y.request(costs)); got.Round(10*time.Millisecond) != want {
		y.Fatalf("at %v: wait %v, want %v", y.now, got, want)
	}
	if want == 0 {
		return
	}
	if _, held, _ := y.Take(y.now, y.request(costs)); held == 0 {
		y.Fatalf("at %v: not held back", y.now)
	}
}

// hearFrom sends a GET at once, and hears limits of its route.
func (y *story) hearFrom(path string, limits ...Limit) { y.hear(y.sendTo(path), limits...) }

// sendTo sends a request to a path.
func (y *story) sendTo(path string) (sent time.Duration) {
	sent, _, _ = y.Take(y.now, Request{Route: RouteOf("GET", path)})
	return sent
}

// hear is a response to the request that was sent at sent.
func (y *story) hear(sent time.Duration, limits ...Limit) {
	y.Announce(y.now, sent, Answer{Limits: limits})
	y.Settle(sent, true)
}

// throttle is hear for a throttling response.
func (y *story) throttle(sent time.Duration, limits ...Limit) {
	y.Announce(y.now, sent, Answer{Limits: limits, Throttled: true, Free: true})
	y.Settle(sent, false)
}

// respond sends a request, which must not have to wait, and hears its response.
func (y *story) respond(r Request, limits ...Limit) {
	y.Helper()
	sent, held, _ := y.Take(y.now, r)
	if held != 0 {
		y.Fatalf("at %v: refused", y.now)
	}
	y.hear(sent, limits...)
}

// left checks how much remains of each limit, after the requests in flight.
func (y *story) left(want ...float64) {
	y.Helper()
	var got []float64
	for _, l := range y.State(y.now) {
		got = append(got, math.Round(l.Remaining*100)/100)
	}
	if !slices.Equal(got, want) {
		y.Fatalf("at %v: left %v, want %v", y.now, got, want)
	}
}

func of100(remaining float64, reset time.Duration) Limit {
	return Limit{Quota: 100, Remaining: remaining, Reset: reset}
}

// refill returns a limit to which one unit comes back each second.
func refill(remaining float64) Limit {
	return Limit{Quota: 100, Remaining: remaining, Reset: time.Duration(100-remaining) * s, Refills: true}
}

func called(name string, l Limit) Limit { l.Name = name; return l }

func TestStories(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reserve float64
		tell    func(y *story)
	}{
		{"nothing is known", 0, func(y *story) {
			for range 1000 {
				y.send()
			}
			y.left()
		}},
		{"a window with nothing left", 0, func(y *story) {
			y.hear(y.send(), of100(0, 30*s))
			y.waits(30 * s)
			y.at(30 * s)
			y.waits(0)
		}},
		{"a window that ends later than was said", 0, func(y *story) {
			y.hear(y.send(), of100(0, 30*s))
			y.throttle(y.sendAt(31*s), of100(0, time.Millisecond))
			y.waits(50 * time.Millisecond) // and what a clock may be off
		}},
		{"a Retry-After of a second without a reset tells nothing", 0, func(y *story) {
			for range 9 { // of which none is spaced
				sent := y.send()
				y.Announce(y.now, sent, Answer{Limits: []Limit{of100(0, -1)}, Throttled: true, Free: true, RetryAfter: s})
				y.Settle(sent, false)
			}
			y.waits(0)
		}},
		{"a few units that others use too are left to the pacing", 0, func(y *story) {
			few := Limit{Quota: 5, Remaining: 5, Reset: 20 * s}
			for _, sent := range []time.Duration{y.send(), y.send(), y.send(), y.send(), y.send()} {
				few.Remaining--
				y.hear(sent, few)
			}
			y.waits(21 * s) // this process took all of them
			y.hear(y.sendAt(40*s), few)
			y.waits(0)
		}},
		{"a few units that a process took before a restart come back at the reset", 0, func(y *story) {
			y.hear(y.send(), Limit{Quota: 5, Reset: 20 * s})
			y.waits(21 * s)
		}},
		{"a few units of an hour are waited for", 0, func(y *story) {
			y.hear(y.send(), Limit{Quota: 5, Reset: 20 * s})
			y.hear(y.sendAt(40*s), Limit{Quota: 5, Reset: time.Hour})
			y.waits(750 * time.Millisecond) // then a probe is sent
		}},
		{"a reserve of a few units is left to others", .2, func(y *story) {
			y.hear(y.send(), Limit{Quota: 5, Reset: 20 * s})
			y.hear(y.sendAt(40*s), Limit{Quota: 5, Remaining: 1, Reset: 20 * s})
			y.waits(21 * s)
		}},
		{"a few units without a reset are left to the pacing", 0, func(y *story) {
			for i := range 40 { // one a second comes back, and is taken
				y.hear(y.sendAt(time.Duration(i)*s), Limit{Quota: 5, Reset: -1})
			}
			y.waits(0)
		}},
		{"more units without a reset come back steadily", 0, func(y *story) {
			for i := range 40 {
				y.hear(y.sendAt(time.Duration(i)*s), Limit{Quota: 20, Reset: -1})
			}
			y.waits(10 * time.Millisecond) // until a probe, as each was served
		}},
		{"a window of two seconds that others use, in seconds, is left to the pacing", 0, func(y *story) {
			y.hear(y.send(), of100(0, 2*s))
			y.waits(0)
			y.hear(y.send(), of100(0, 2450*time.Millisecond))
			y.waits(2500 * time.Millisecond)
		}},
		{"a Retry-After of two seconds is no such window", 0, func(y *story) {
			sent := y.send()
			y.Announce(y.now, sent, Answer{Limits: []Limit{of100(0, time.Hour)}, Throttled: true, Free: true, RetryAfter: 2 * s})
			y.Settle(sent, false)
			y.waits(2400 * time.Millisecond) // and what a clock may be off
		}},
		{"a quota that changes back is another limit", 0, func(y *story) {
			hour := Limit{Name: "core", Quota: 1000, Remaining: 500, Reset: time.Hour}
			minute := Limit{Name: "core", Quota: 10, Remaining: 5, Reset: 60 * s}
			y.hear(y.send(), hour)
			y.hear(y.send(), minute) // it may have changed
			y.left(5)
			y.hear(y.send(), hour)
			y.left(5, 500)
			minute.Remaining = 0
			y.hear(y.send(), minute)
			y.left(0, 500)
			y.send() // neither response announced both
		}},
		{"a quota that changes back much later is the same limit", 0, func(y *story) {
			for i, quota := range []float64{100, 200, 200, 200, 100, 100} {
				y.at(time.Duration(i) * 60 * s)
				y.hear(y.send(), Limit{Quota: quota, Remaining: 40 - 8*float64(i), Reset: 60 * s})
			}
			y.waits(5 * s)
		}},
		{"responses that are out of order do not make two limits of one that changes", 0, func(y *story) {
			y.hear(y.sendAt(s), of100(90, 60*s))
			sent := []time.Duration{y.send(), y.send(), y.send()}
			y.at(2 * s)
			for i, quota := range []float64{200, 100, 200} {
				y.hear(sent[i], Limit{Quota: quota, Remaining: quota / 2, Reset: 59 * s})
			}
			y.left(50)
		}},
		{"a reset that is the same in each response", 0, func(y *story) {
			y.hear(y.send(), of100(50, 60*s))
			y.at(3 * s)
			y.hear(y.send(), of100(0, 60*s))
			y.waits(0) // the reset tells nothing
			y.at(4 * s)
			y.hear(y.send(), of100(0, 59*s))
			y.at(7 * s)
			y.hear(y.send(), of100(0, 56*s))
			y.waits(s) // the end stands still
		}},
		{"the end of a bucket is later by what was taken", 0, func(y *story) {
			y.hear(y.send(), of100(90, 6*s))
			y.at(3 * s)
			y.hear(y.send(), of100(50, 30*s))
			y.at(6 * s)
			y.hear(y.send(), of100(0, 60*s))
			y.waits(5 * s)
		}},
		{"one request goes first after the end", 0, func(y *story) {
			y.hear(y.send(), of100(0, 10*s))
			y.at(11 * s)
			first := y.send()
			y.waits(10 * s)
			y.at(12 * s)
			y.hear(first, of100(99, 60*s))
			y.send()
		}},
		{"the one that goes first hangs", 0, func(y *story) {
			y.hear(y.send(), of100(0, 10*s))
			y.at(11 * s)
			y.send()
			y.at(20 * s)
			y.waits(s)
			y.at(21 * s)
			y.send()
		}},
		{"others wait for the one that goes first as long as responses take", 0, func(y *story) {
			sent := y.send()
			y.at(s)
			y.hear(sent, of100(0, 10*s))
			y.at(12 * s)
			y.send()
			y.waits(4 * s)
		}},
		{"a long reset is asked about soon, and believed if it is confirmed", 0, func(y *story) {
			y.hear(y.send(), of100(0, time.Hour))
			y.waits(5 * s)
			y.throttle(y.sendAt(5*s), of100(0, time.Hour-5*s))
			y.waits(20 * s)
			y.throttle(y.sendAt(25*s), of100(0, time.Hour-25*s))
			y.waits(80 * s)
		}},
		{"a long reset that is contradicted", 0, func(y *story) {
			y.hear(y.send(), of100(0, time.Hour))
			y.hear(y.sendAt(5*s), of100(0, time.Hour-5*s))
			y.waits(750 * time.Millisecond)
			y.hear(y.sendAt(5750*time.Millisecond), of100(0, time.Hour-5*s))
			y.waits(560 * time.Millisecond)
		}},
		{"only that nothing is left is left to the pacing", 0, func(y *story) {
			y.hear(y.send(), Limit{Reset: -1})
			y.waits(0)
		}},
		{"requests are spaced from a third on", 0, func(y *story) {
			y.hear(y.send(), of100(42, 30*s))
			for range 8 {
				y.send()
			}
			y.waits(870 * time.Millisecond) // 30 s for 34 that remain, and half a space
		}},
		{"nor before that, although requests had to wait", 0, func(y *story) {
			y.hear(y.send(), of100(0, 10*s))
			y.waits(11 * s)
			y.at(12 * s)
			y.hear(y.send(), of100(99, 60*s))
			for range 60 {
				y.send()
			}
		}},
		{"a cost that was too high does not stay", 0, func(y *story) {
			for k := range 9 { // others send two of three requests
				y.hear(y.send(), of100(float64(97-3*k), 60*s))
			}
			if served := y.limits[0].Sent(-1); served < 20 {
				y.Errorf("9 requests that seem to cost 2.6 are %v units", served)
			}
			for k := range 16 { // they stop
				a, b := y.send(), y.send()
				y.hear(a, of100(float64(72-2*k), 60*s))
				y.hear(b, of100(float64(71-2*k), 60*s))
			}
			if served := y.limits[0].Sent(-1); served != 41 {
				y.Errorf("41 requests that cost 1 are %v units", served)
			}
		}},
		{"a known cost is not a guess", 0, func(y *story) {
			for window := range 12 {
				y.at(time.Duration(window) * 61 * s)
				y.hear(y.send(20), of100(80, 60*s))
				y.hear(y.send(20), of100(60, 60*s))
				y.throttle(y.send(20), of100(1, 60*s))
			}
			if y.limits[0].Doubted == 0 {
				y.Error("a third of the requests of known cost were refused with room, and the limit still counts")
			}
		}},
		{"responses that come before others are settled", 0, func(y *story) {
			y.hear(y.send(), of100(90, 60*s))
			a, b := y.send(), y.send()
			y.Announce(y.now, a, Answer{Limits: []Limit{of100(89, 60*s)}})
			y.Announce(y.now, b, Answer{Limits: []Limit{of100(88, 60*s)}})
			y.Settle(a, true)
			y.Settle(b, true)
			y.left(88)
			if sent := y.limits[0].Sent(-1); sent != 3 {
				y.Errorf("%v of 3 requests were sent", sent)
			}
		}},
		{"a request that was not sent gives back what it took", 0, func(y *story) {
			y.hear(y.send(), of100(50, 60*s))
			sent := y.send()
			y.left(49)
			y.Settle(sent, false)
			y.left(50)
			y.Settle(sent, false)
			y.left(50)
		}},
		{"responses out of order", 0, func(y *story) {
			a, b := y.send(), y.send()
			y.at(s)
			y.hear(b, of100(48, 60*s))
			y.hear(a, of100(49, 60*s))
			y.left(48)
		}},
		{"a response of the window before", 0, func(y *story) {
			y.hear(y.send(), of100(60, 10*s))
			y.at(9 * s)
			old := y.send()
			y.at(12 * s)
			y.hear(y.send(), of100(99, 60*s))
			y.at(13 * s)
			y.hear(old, of100(40, 0))
			y.left(99)
		}},
		{"a response of the next window to a request of this one", 0, func(y *story) {
			y.hear(y.send(), of100(60, 10*s))
			y.at(9900 * time.Millisecond)
			a, b := y.send(), y.send()
			y.at(10 * s)
			y.hear(a, of100(59, 0))
			y.at(10100 * time.Millisecond)
			y.hear(b, of100(99, 60*s))
			y.left(99)
		}},
		{"requests hang", 0, func(y *story) {
			y.hear(y.send(), refill(10))
			for range 10 {
				y.at(y.now + 10*s)
				y.send()
			}
			y.at(y.now + 2*hangTime)
			y.send()
			if len(y.sent.list) > 2 {
				y.Errorf("%d records", len(y.sent.list))
			}
		}},
		{"a cost of more than the quota", .1, func(y *story) {
			y.hear(y.send(), refill(50))
			y.at(29 * s)
			if _, held, _ := y.Take(y.now, y.request([]float64{1e300})); held == 0 {
				y.Error("the reserve is not left")
			}
			y.at(70 * s)
			sent := y.send(math.Inf(1))
			y.left(0)
			y.Settle(sent, false)
			y.send(1)
		}},
		{"costs that are known", 0, func(y *story) {
			y.hear(y.send(), called("requests", of100(90, 60*s)), called("tokens", of100(80, 60*s)))
			sent := y.send(1, 30)
			y.left(89, 50)
			y.Settle(sent, false)
			y.left(90, 80)
			y.send(math.NaN(), -1) // learned, and one so far
			y.left(89, 79)
		}},
		{"a limit that one response says and another does not", 0, func(y *story) {
			y.hear(y.send(), called("a", of100(90, 60*s)), called("b", of100(90, 60*s)))
			y.hear(y.send(), called("a", of100(89, 60*s)))
			y.left(89, 90)
			y.at(62 * s)
			y.hear(y.send(), called("a", of100(99, 60*s)))
			y.left(99)
		}},
		{"a limit that is forgotten and comes back", 0, func(y *story) {
			y.hear(y.send(), called("a", of100(90, s)))
			a := y.send(30)
			y.at(5 * s)
			y.hear(y.send(30))
			y.left()
			y.hear(y.send(), called("a", of100(90, s)))
			y.left(60)
			y.Settle(a, false)
			y.left(90)
		}},
		{"a resource holds back its own requests only", 0, func(y *story) {
			core, audit := RouteOf("GET", "/orgs/a/repos"), RouteOf("GET", "/orgs/a/audit-log")
			send := func(r Route) time.Duration {
				sent, held, _ := y.Take(y.now, Request{Route: r})
				if held != 0 {
					y.Fatalf("held back by %b", held)
				}
				return sent
			}
			y.hear(send(core), called("core", of100(50, time.Hour)))
			y.hear(send(audit), called("audit_log", of100(0, 50*s)))
			y.hear(send(core), called("core", of100(49, time.Hour)))
			if _, held, _ := y.Take(y.now, Request{Route: audit}); held != y.limits[1].bit {
				y.Errorf("held back by %b", held)
			}
			if wait := y.wait(Request{Route: RouteOf("GET", "/orgs/b/audit-log")}); wait.Round(s) != 5*s {
				y.Errorf("the log of another organization waits %v", wait)
			}
			if wait := y.wait(Request{Route: RouteOf("GET", "/orgs/b/repos")}); wait != 0 {
				y.Errorf("the repositories of another organization wait %v", wait)
			}
			y.left(49, 0)
		}},
		{"a request of which nothing is known gives back what it did not take", 0, func(y *story) {
			y.hear(y.send(), called("a", of100(90, 60*s)))
			y.hear(y.send(), called("b", of100(90, 60*s)))
			y.left(90, 90)
		}},
		{"Retry-After goes before the reset", 0, func(y *story) {
			sent := y.send()
			y.Announce(y.now, sent, Answer{Limits: []Limit{of100(0, time.Hour)}, Throttled: true, Free: true, RetryAfter: 2500 * time.Millisecond})
			y.Settle(sent, false)
			y.waits(2550 * time.Millisecond)
		}},
		{"a Retry-After for what remains", 0, func(y *story) {
			y.hear(y.send(), refill(90))
			sent := y.send(50)
			y.Announce(y.now, sent, Answer{Limits: []Limit{refill(40)}, Throttled: true, Free: true, RetryAfter: 2500 * time.Millisecond})
			y.Settle(sent, false)
			y.waits(2550*time.Millisecond, 50)
		}},
		{"what remains in a long window is used in bounded spaces", 0, func(y *story) {
			says := func(at time.Duration, remaining float64) {
				y.at(at)
				y.hear(y.send(1), of100(remaining, 24*time.Hour-at))
			}
			says(0, 10)
			y.waits(5*s, 1)
			says(5*s, 9)
			y.waits(5*s, 1)
			says(10*s, 8)
			y.waits(5*s, 1)
			says(15*s, 8)
			y.waits(750*time.Millisecond, 1) // and contradicted
		}},
		{"a probe for one limit shows nothing of another", 0, func(y *story) {
			says := func(a, b float64) []Limit {
				return []Limit{called("a", of100(a, time.Hour-y.now)), called("b", of100(b, time.Hour-y.now))}
			}
			y.hear(y.send(), says(50, 0)...)
			y.throttle(y.sendAt(5*s), says(50, 0)...)
			y.throttle(y.sendAt(25*s), says(50, 0)...)
			y.hear(y.sendAt(105*s), says(0, 0)...)
			if wait, _ := y.limits[0].Wait(y.now, 0, 0, 0); wait != 5*s {
				y.Errorf("the first probe is sent after %v", wait)
			}
		}},
		{"a bucket's reset is in the unit that is said", 0, func(y *story) {
			y.hear(y.send(), refill(10))
			y.at(2 * s)
			y.hear(y.send(), refill(90))
			if m := y.limits[0]; m.resets.milliseconds {
				y.Error("a bucket that others filled is taken for a countdown of milliseconds")
			}
		}},
		{"limits without a name, of two routes", 0, func(y *story) {
			for quota, path := range map[float64]string{100: "/a", 200: "/b"} {
				sent, _, _ := y.Take(y.now, Request{Route: RouteOf("GET", path)})
				y.hear(sent, Limit{Quota: quota, Remaining: quota - 1, Reset: 60 * s})
			}
			sent, _, _ := y.Take(y.now, Request{Route: RouteOf("GET", "/a")})
			y.hear(sent, of100(0, 60*s))
			if wait := y.wait(Request{Route: RouteOf("GET", "/b")}); wait != 0 {
				y.Errorf("the other route waits %v", wait)
			}
		}},
		{"a trip is what nearly every response takes", 0, func(y *story) {
			for i := range 100 {
				a := y.sendAt(time.Duration(i) * 10 * s)
				y.at(y.now + time.Duration(1+i%3)*s)
				y.hear(a)
			}
			if trip := y.Trip(); trip < 4*s || trip > 6*s {
				y.Errorf("trips of 1 to 3 s, and %v for one", trip)
			}
		}},
		{"a window of a few response times is left to the pacing, a bucket is not", 0, func(y *story) {
			for limit, want := range map[Limit]time.Duration{of100(0, 60*s): 0, of100(0, 90*s): 20 * s, refill(0): 1030 * time.Millisecond} {
				y.Ledger, y.now = New(0), 0
				sent := y.send()
				y.at(20 * s)
				y.hear(sent, limit)
				y.waits(want)
			}
		}},
		{"a limit that is gone", 0, func(y *story) {
			y.hear(y.send(), of100(0, time.Hour))
			y.hear(y.sendAt(5 * s))
			y.left()
		}},
		{"a limit that is gone, beside one that is not", 0, func(y *story) {
			other := Limit{Name: "other", Quota: 10, Remaining: 9, Reset: time.Hour}
			y.hearFrom("/a/x", of100(0, time.Hour), other)
			y.at(5 * s)
			y.hearFrom("/a/x", other)
			y.left(9)
		}},
		{"a countdown in milliseconds", 0, func(y *story) {
			y.hear(y.send(), of100(50, 30_000*s))
			y.at(2 * s)
			y.hear(y.send(), of100(0, 28_000*s))
			y.waits(29 * s)
			sent := y.sendAt(31 * s)
			y.Announce(y.now, sent, Answer{Limits: []Limit{of100(0, 29_000*s)}, Throttled: true, Free: true, RetryAfter: 5 * s})
			y.Settle(sent, false)
			y.waits(6 * s) // it is always in seconds
		}},
		{"what makes no sense", 0, func(y *story) {
			for _, l := range []Limit{
				{Remaining: -1}, {Remaining: math.NaN()}, {Remaining: math.Inf(1)}, {Remaining: 1, Quota: -1},
				{Remaining: 1, Quota: math.NaN()}, {Reset: math.MaxInt64}, {Name: strings.Repeat("x", 256)},
			} {
				y.hear(y.send(), l)
				y.left()
			}
			y.hear(y.send(), Limit{Remaining: 1, Reset: math.MaxInt64})
			y.left(1)
		}},
		{"names without end", 0, func(y *story) {
			for i := range 100 {
				y.at(time.Duration(i))
				other := called(strings.Repeat("x", i), of100(90, time.Hour))
				y.hear(y.send(), called("the one", of100(90, 60*s)), other)
			}
			if n := y.Names(); len(n) != maxLimits || !slices.Contains(n, "the one") {
				y.Errorf("%q", n)
			}
		}},
		{"two routes whose remainders move together", 0, func(y *story) {
			a, b := Request{Route: RouteOf("GET", "/a")}, Request{Route: RouteOf("GET", "/b")}
			y.respond(a, of100(99, 20*s))
			y.respond(b, of100(98, 20*s))
			y.left(98)
			y.respond(a, of100(0, 20*s))
			if y.wait(b) == 0 {
				y.Error("the limit is both routes'")
			}
		}},
		{"two routes that both got the only unit at once", 0, func(y *story) {
			a, b := y.sendTo("/a"), y.sendTo("/b")
			y.at(s / 10)
			y.hear(a, Limit{Quota: 1, Reset: 10 * s})
			y.hear(b, Limit{Quota: 1, Reset: 10 * s})
			y.left(0, 0)
		}},
		{"two routes of which one got the only unit", 0, func(y *story) {
			a, b := y.sendTo("/a"), y.sendTo("/b")
			y.at(s / 10)
			y.hear(a, Limit{Quota: 1, Reset: 10 * s})
			y.throttle(b, Limit{Quota: 1, Reset: 10 * s})
			y.left(0)
		}},
		{"two routes that were taken for one, and move apart", 0, func(y *story) {
			a, b := Request{Route: RouteOf("GET", "/a")}, Request{Route: RouteOf("GET", "/b")}
			y.respond(a, of100(80, 20*s))
			y.respond(b, of100(79, 20*s))
			y.left(79)
			y.at(s)
			y.respond(a, of100(0, 19*s))
			y.at(6 * s) // a probe
			y.respond(b, of100(78, 14*s))
			y.left(0, 78)
			if y.wait(a) == 0 || y.wait(b) != 0 {
				y.Errorf("waits of %v, and %v with much left", y.wait(a), y.wait(b))
			}
		}},
		{"a limit that contradicts itself, and that of another route under the same name", 0, func(y *story) {
			a, b := Request{Route: RouteOf("GET", "/a")}, Request{Route: RouteOf("GET", "/b")}
			y.at(s)
			y.respond(a, of100(50, 60*s))
			y.respond(b, of100(99, 60*s))
			y.at(2 * s)
			y.respond(a, of100(99, 58*s))
			y.respond(b, of100(0, 58*s))
			y.respond(a, of100(0, 58*s))
			if len(y.limits) != 2 || y.wait(a) != 0 || y.wait(b) != 0 {
				y.Errorf("%d limits; waits of %v and %v", len(y.limits), y.wait(a), y.wait(b))
			}
		}},
		{"requests in flight cost as much of a route's own limit", 0, func(y *story) {
			a, b := Request{Route: RouteOf("GET", "/a")}, Request{Route: RouteOf("GET", "/b")}
			for i := range 30 {
				r := a
				if i == 3 {
					r = b
				}
				sent, _, _ := y.Take(y.now, r)
				y.at(y.now + s/10)
				y.hear(sent, called("x", Limit{Quota: 1000, Remaining: float64(990 - 10*i), Reset: 60*s - y.now}))
			}
			y.at(4 * s)
			sent, _, _ := y.Take(y.now, b)
			y.Take(y.now, b)
			y.at(4*s + s/10)
			y.hear(sent, called("x", Limit{Quota: 1000, Remaining: 980, Reset: 60*s - y.now}))
			if m := y.limits[len(y.limits)-1]; len(y.limits) != 2 || m.Cost(0) != 10 || m.Sent(0) != 20 {
				y.Errorf("%d limits; %v units of %v each", len(y.limits), m.Sent(0), m.Cost(0))
			}
		}},
		{"a route whose responses announce limits in turn", 0, func(y *story) {
			a := Request{Route: RouteOf("POST", "/graphql")}
			y.respond(a, called("all", of100(90, 20*s)), called("query", of100(0, 20*s)))
			if y.wait(a) == 0 {
				y.Error("a limit that every response announced holds nothing back")
			}
			y.at(30 * s)
			y.respond(a, called("all", of100(89, 20*s)), called("mutation", of100(0, 20*s)))
			if wait := y.wait(a); wait != 0 {
				y.Errorf("limits of other requests hold back for %v", wait)
			}
		}},
		{"a limit that contradicts itself holds nothing back", 0, func(y *story) {
			y.hear(y.send(), of100(0, 20*s))
			y.at(30 * s)
			y.hear(y.send(), of100(0, 60*s))
			y.at(40 * s)
			sent, _, _ := y.Take(y.now, Request{})
			y.hear(sent, of100(90, 50*s))
			y.hear(y.sendAt(41*s), of100(0, 49*s))
			y.waits(0)
		}},
		{"a limit that often refuses what it had room for is left to the pacing", 0, func(y *story) {
			y.hear(y.send(), of100(99, 10*s))
			for i := range time.Duration(3) {
				y.at(i * 20 * s)
				y.hear(y.send(), of100(99, 10*s))
				y.throttle(y.send(), of100(0, 10*s))
				if i < 2 && y.wait(Request{}) == 0 {
					y.Errorf("left alone after %d requests", i+1)
				}
			}
			y.waits(0)
		}},
		{"a request that took the last unit was not certainly refused", 0, func(y *story) {
			for i := range time.Duration(40) {
				y.at(11*s*(i/5) + 2*s*(i%5))
				sent, left := y.send(), float64(4-i%5)
				limit := Limit{Quota: 5, Remaining: left, Reset: 11*s*(i/5) + 10*s - y.now}
				y.Announce(y.now, sent, Answer{Limits: []Limit{limit}, Throttled: left < 1})
				y.Settle(sent, true)
			}
			if y.limits[0].doubts > 0 {
				y.Error("the limit is left to the pacing")
			}
		}},
		{"routes without end", 0, func(y *story) {
			for i := range 3 * maxRoutes {
				sent, _, _ := y.Take(y.now, Request{Route: Route{uint64(i), uint64(i)}})
				y.hear(sent, called(strings.Repeat("x", i/maxRoutes), of100(90, time.Hour)))
			}
			if n := len(y.routes.known); n != maxRoutes {
				y.Errorf("%d routes", n)
			}
		}},
		{"what routes do not have in common they do not after another limit was dropped", 0, func(y *story) {
			y.hearFrom("/a", called("x", of100(90, time.Hour)))
			y.hearFrom("/b", called("y", of100(90, time.Hour)))
			y.hearFrom("/c", called("z", of100(90, 10*s)))
			y.at(20 * s)
			y.hearFrom("/c")
			y.hearFrom("/d", called("x", of100(1, time.Hour)))
			y.hearFrom("/e", called("x", of100(0, time.Hour)))
			if wait := y.wait(Request{Route: RouteOf("GET", "/status")}); wait != 0 {
				y.Errorf("a route that nothing limits waits for %v", wait)
			}
		}},
		{"a route that is not kept changes nothing with each response", 0, func(y *story) {
			for i := range maxRoutes + 10 {
				sent, _, _ := y.Take(y.now, Request{Route: Route{uint64(i + 1), 1}})
				y.hear(sent, of100(90, time.Hour))
			}
			before := y.Routing(y.now)
			sent, _, _ := y.Take(y.now, Request{Route: Route{maxRoutes + 5, 1}})
			y.hear(sent, of100(90, time.Hour))
			if got := y.Routing(y.now); got != before {
				y.Errorf("%d changes", got-before)
			}
		}},
		{"an unknown route takes what several routes, or those like it, have in common", 0, func(y *story) {
			for path, names := range map[string][]string{"/orgs/a": {"all", "core"}, "/orgs/b": {"all", "core", "b"}, "/search/a": {"all", "search"}} {
				var limits []Limit
				for _, name := range names {
					limits = append(limits, called(name, of100(90, time.Hour)))
				}
				sent, _, _ := y.Take(y.now, Request{Route: RouteOf("GET", path)})
				y.hear(sent, limits...)
			}
			for path, want := range map[string]string{
				"/orgs/a": "all core", "/orgs/b": "all b core", "/orgs/c": "all core", "/search/c": "all", "/c": "all", "/1": "all",
			} {
				var got []string
				for _, m := range y.limits {
					if m.bit&y.Of(Request{Route: RouteOf("GET", path)}) != 0 {
						got = append(got, m.name)
					}
				}
				if slices.Sort(got); strings.Join(got, " ") != want {
					y.Errorf("%s takes of %q, want %s", path, got, want)
				}
			}
			y.hear(y.send(), called("new", of100(90, time.Hour)))
			if y.Of(Request{Route: RouteOf("GET", "/d")})&y.find(Limit{Name: "new"}, y.all()).bit != 0 {
				y.Error("the last limit is not everyone's")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.tell(&story{T: t, Ledger: New(tt.reserve)}) })
	}
}

// A pair of requests is over if the limit no longer applies to one of them, whichever
// of eight requests they are.
func TestPairOfTwoRoutes(t *testing.T) {
	for before := range 8 {
		y := &story{T: t, Ledger: New(0)}
		y.hearFrom("/b/x", of100(89, 60*s))
		for k := range 8 + before { // others send two of three requests
			y.hearFrom("/a/x", of100(float64(86-3*k), 60*s))
		}
		a, b := y.sendTo("/a/x"), y.sendTo("/b/x")
		y.hear(b, Limit{Name: "other", Quota: 100, Remaining: 90, Reset: 60 * s})
		y.hear(a, of100(38, 60*s))
		y.at(61 * s)
		for k := range 22 {
			sent := []time.Duration{y.sendTo("/a/x"), y.sendTo("/a/x"), y.sendTo("/a/x")}
			for i, at := range sent {
				y.hear(at, of100(float64(99-3*k-i), 60*s))
			}
		}
		if cost := y.limits[0].Cost(0); cost != 1 {
			t.Errorf("after %d requests: those that cost 1 seem to cost %v", before, cost)
		}
	}
}

// A response to another process counts if it is newer. It does not update costs.
func TestHear(t *testing.T) {
	y := &story{T: t, Ledger: New(0)}
	said := func(left float64, reset time.Duration) []Limit {
		return []Limit{{Quota: 600, Remaining: left, Reset: reset}}
	}
	y.at(10 * s)
	y.Hear(y.now, 9*s, 9*s+100*time.Millisecond, said(300, 50*s), false)
	y.left(300)
	y.hear(y.sendAt(11*s), said(200, 49*s)...)
	y.Hear(y.now, 10*s, 10*s, said(500, 50*s), false) // older
	y.left(200)
	if mean := y.limits[0].Cost(0); mean != 1 {
		t.Errorf("a request costs %v", mean)
	}
}

// Between two responses of one window, what this process took is known, so the
// rest is the flow.
func TestFlow(t *testing.T) {
	for _, tt := range []struct {
		name string
		rate float64 // units that come back per second, minus those that others take
	}{{"a window", 0}, {"a bucket", 2}, {"a bucket and others", 1}} {
		y := &story{T: t, Ledger: New(0)}
		remaining := 5000.0
		for i := range 400 {
			y.at(time.Duration(i) * 250 * time.Millisecond)
			sent := y.send(1)
			remaining += tt.rate/4 - 1
			y.at(y.now + 100*time.Millisecond)
			y.hear(sent, Limit{Quota: 10000, Remaining: math.Floor(remaining), Reset: time.Hour - y.now.Truncate(s)})
		}
		if got := y.limits[0].Rate(); math.Abs(got-tt.rate) > .2 {
			t.Errorf("%s: a flow of %v/s, want %v/s", tt.name, got, tt.rate)
		}
	}
}

// A request that the service did not count does not change the flow, no matter when
// this becomes known.
func TestFlowOfRefusedRequests(t *testing.T) {
	y := &story{T: t, Ledger: New(0)}
	for i := range 400 {
		y.at(time.Duration(i) * 250 * time.Millisecond)
		sent := y.send()
		limit := Limit{Quota: 10000, Remaining: 5000, Reset: time.Hour - y.now.Truncate(s)}
		y.at(y.now + 100*time.Millisecond)
		y.throttle(sent, limit)
	}
	if got := y.limits[0].Rate(); math.Abs(got) > .01 {
		t.Errorf("a flow of %v/s, want none", got)
	}
}

// What a rounded value hides remains, as far as neither this process used it nor
// others, if a value in the window has shown that.
func TestRoundedValues(t *testing.T) {
	y := &story{T: t, Ledger: New(0)}
	begin := time.Duration(0)
	respond := func(left float64) {
		t.Helper()
		y.hear(y.send(), Limit{Quota: 60, Remaining: math.Floor(left/10) * 10, Reset: begin + 60*s - y.now})
	}
	for used := range 39 {
		y.at(time.Duration(used) * s / 10)
		respond(60 - float64(used+1))
	}
	y.left(21)

	begin = 62 * s
	y.at(begin)
	respond(59)
	respond(58)
	y.left(58)
	respond(42)
	y.left(40)
	respond(39)
	y.left(30)

	begin = 124 * s
	y.at(begin)
	respond(59)
	for left := 53.; left >= 40; left-- { // others took five
		respond(left)
	}
	if got := y.limits[0].Left(y.now); got < 40 || got > 43 {
		t.Errorf("%v are left, want 40 or little more", got)
	}
}

// Values that are rounded show the cost of a request only over a span, here of
// a bucket that gets as much as is taken.
func TestCostOfRoundedValues(t *testing.T) {
	y := &story{T: t, Ledger: New(0)}
	for i := range 60 {
		y.at(time.Duration(i) * 10 * s)
		left := 9000 + 1000*float64(i%2)
		sent, _, _ := y.Take(y.now, Request{})
		y.at(y.now + s)
		y.hear(sent, Limit{Quota: 20_000, Remaining: left, Reset: time.Duration((20_000-left)/48) * s, Refills: true})
	}
	if got := y.limits[0].Cost(0); math.Abs(got-480) > 60 {
		t.Errorf("a cost of %v, want 480", got)
	}
}
