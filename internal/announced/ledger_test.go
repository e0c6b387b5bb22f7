package announced

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const s = time.Second

// A story is what happens to a Ledger. Its clock stands still but for at.
type story struct {
	*testing.T
	*Ledger
	now time.Duration
}

// at sets the clock.
func (y *story) at(now time.Duration) { y.now = now }

// send takes what a request costs, which must be there.
func (y *story) send(costs ...float64) (sent time.Duration) {
	y.Helper()
	sent, ok := y.Take(y.now, y.costs(costs))
	if wait := y.Wait(y.now, y.costs(costs)); !ok {
		y.Fatalf("at %v: refused; wait %v", y.now, wait)
	}
	return sent
}

// waits checks how long a request has to wait.
func (y *story) waits(want time.Duration, costs ...float64) {
	y.Helper()
	if got := y.Wait(y.now, y.costs(costs)); got.Round(10*time.Millisecond) != want {
		y.Fatalf("at %v: wait %v, want %v", y.now, got, want)
	}
	if _, ok := y.Take(y.now, y.costs(costs)); ok != (want == 0) {
		y.Fatalf("at %v: Take %v", y.now, ok)
	}
}

// sendAt is send at a time.
func (y *story) sendAt(now time.Duration) (sent time.Duration) {
	y.Helper()
	y.at(now)
	return y.send()
}

// costs returns costs of 1 if there are no others.
func (y *story) costs(values []float64) *Costs {
	c := &Costs{Names: y.Names()}
	if len(values) == 0 {
		values = slices.Repeat([]float64{1}, len(c.Names))
	}
	copy(c.Values[:], values)
	return c
}

// hear has a response come whose request was sent at that time.
func (y *story) hear(sent time.Duration, limits ...Limit) {
	y.Announce(y.now, sent, limits, false)
	y.Settle(sent, true)
}

// throttle is hear for a throttling response.
func (y *story) throttle(sent time.Duration, limits ...Limit) (explained bool) {
	explained = y.Announce(y.now, sent, limits, true)
	y.Settle(sent, false)
	return explained
}

// left checks what remains of the limits, with what is in flight taken off.
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

func window(remaining float64, reset time.Duration) Limit {
	return Limit{Quota: 100, Remaining: remaining, Reset: reset}
}

// refill is a limit to which one unit comes back each second.
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
		{"nothing is left", 0, func(y *story) {
			y.hear(y.send(), window(0, 30*s))
			y.waits(31 * s) // the reset may have been rounded
			y.at(30 * s)
			y.waits(s)
			y.at(31 * s)
			y.waits(0)
		}},
		{"a window that ends later than was said", 0, func(y *story) {
			y.hear(y.send(), window(0, 30*s))
			y.throttle(y.sendAt(31*s), window(0, time.Millisecond))
			y.waits(50 * time.Millisecond) // and what a clock may be off
		}},
		{"only that nothing is left", 0, func(y *story) {
			y.hear(y.send(), Limit{Reset: -1})
			y.waits(s)
			y.throttle(y.sendAt(s), Limit{Reset: -1})
			y.waits(2 * s) // the pause doubles
			y.hear(y.sendAt(3*s), Limit{Reset: -1})
			y.waits(s) // and is halved
		}},
		{"a window after one that was used up is spread from the start", 0, func(y *story) {
			y.hear(y.send(), window(1, 10*s))
			y.hear(y.sendAt(11*s), window(99, 10*s))
			y.waits(100 * time.Millisecond)
		}},
		{"a request that was not sent gives back what it took", 0, func(y *story) {
			y.hear(y.send(), window(50, 60*s))
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
			y.hear(b, window(48, 60*s))
			y.hear(a, window(49, 60*s))
			y.left(48)
		}},
		{"a response of the window before", 0, func(y *story) {
			y.hear(y.send(), window(60, 10*s))
			y.at(9 * s)
			old := y.send()
			y.at(12 * s)
			y.hear(y.send(), window(99, 60*s))
			y.at(13 * s)
			y.hear(old, window(40, -1*s+s))
			y.left(99)
		}},
		{"one request goes first after the end", 0, func(y *story) {
			y.hear(y.send(), window(0, 10*s))
			y.at(11 * s)
			probe := y.send()
			y.waits(probePatience)
			y.at(12 * s)
			y.hear(probe, window(99, 60*s))
			y.waits(0)
		}},
		{"the one that goes first hangs", 0, func(y *story) {
			y.hear(y.send(), window(0, 10*s))
			y.at(11 * s)
			y.send()
			y.at(20 * s)
			y.waits(s)
			y.at(21 * s)
			y.waits(0)
		}},
		{"requests hang", 0, func(y *story) {
			y.hear(y.send(), refill(10))
			for range 10 {
				y.at(y.now + 10*s)
				y.send()
			}
			y.at(y.now + 2*hangTime)
			y.waits(0)
			if len(y.sent.list) > 2 {
				y.Errorf("%d records", len(y.sent.list))
			}
		}},
		{"a bucket without a rate waits for what is in flight", 0, func(y *story) {
			y.hear(y.send(), Limit{Remaining: 1, Reset: -1})
			y.at(30 * s)
			a := y.send()
			y.waits(probePatience)
			y.at(31 * s)
			y.hear(a, Limit{Remaining: 1, Reset: -1})
			y.waits(0)
		}},
		{"a cost of more than the quota", .1, func(y *story) {
			y.hear(y.send(), refill(50))
			y.at(49 * s)
			if _, ok := y.Take(y.now, y.costs([]float64{1e300})); ok {
				y.Error("the reserve is not left")
			}
			y.at(50 * s)
			sent := y.send(math.Inf(1))
			y.left(0)
			y.waits(hangTime, 1)
			y.Settle(sent, false)
			y.left(100)
			y.waits(0, 1)
		}},
		{"costs that are told", 0, func(y *story) {
			y.hear(y.send(), called("requests", window(90, 60*s)), called("tokens", window(80, 60*s)))
			sent := y.send(1, 30)
			y.left(89, 50)
			y.Settle(sent, false)
			y.left(90, 80)
			y.send(math.NaN(), -1) // learned, and one so far
			y.left(89, 79)
		}},
		{"costs that are learned", 0, func(y *story) {
			for i := range 10 {
				y.at(time.Duration(i) * s)
				y.hear(y.send(0), window(100-float64(5*i), 60*s-y.now))
			}
			y.left(55)
			y.send(0)
			y.left(50)
		}},
		{"a limit that one response says and another does not", 0, func(y *story) {
			y.hear(y.send(), called("a", window(90, 60*s)), called("b", window(90, 60*s)))
			y.hear(y.send(), called("a", window(89, 60*s)))
			y.left(89, 89)
			y.at(62 * s)
			y.hear(y.send(), called("a", window(99, 60*s)))
			y.left(99)
		}},
		{"a limit that is forgotten and comes back", 0, func(y *story) {
			y.hear(y.send(), called("a", window(90, s)))
			a := y.send(30)
			y.at(5 * s)
			y.hear(y.send(30))
			y.left()
			y.hear(y.send(), called("a", window(90, s)))
			y.left(60)
			y.Settle(a, false)
			y.left(90)
		}},
		{"a bucket whose rate makes no sense", 0, func(y *story) {
			y.hear(y.send(), Limit{Quota: 10, Remaining: 9.999, Reset: time.Hour, Refills: true})
			y.Settle(y.send(9.999), true)
			y.waits(time.Hour + s + lieTimeout)
			y.at(time.Hour + s + lieTimeout)
			y.waits(0)
		}},
		{"a window in which units come back", 0, func(y *story) {
			y.hear(y.send(), window(40, 60*s))
			for i := range 7 {
				y.hear(y.sendAt(time.Duration(i)*s), window(40, time.Duration(56-8*i)*s))
			}
			if m := y.limits[0]; !m.flowing() {
				y.Error("it is taken for a window that ends")
			}
		}},
		{"lies: nothing is left, and requests succeed", 0, func(y *story) {
			for i := range mostBarren + 1 {
				y.hear(y.sendAt(time.Duration(i)*40*s), window(0, 30*s))
			}
			y.waits(0)
			if y.throttle(y.send(), window(0, 30*s)) {
				y.Error("what is not believed explains")
			}
		}},
		{"lies: two limits under one name", 0, func(y *story) {
			for i := range 8 {
				y.at(time.Duration(i) * 100 * time.Millisecond)
				sent, ok := y.Take(y.now, nil)
				if !ok {
					sent = y.now // as if it had been in flight for long
				}
				y.hear(sent, window(float64(90-80*(i%2)), 60*s))
			}
			y.waits(0)
		}},
		{"throttling that a limit explains", 0, func(y *story) {
			a, b, c := y.send(), y.send(), y.send()
			if y.throttle(a) {
				y.Error("nothing explains")
			}
			y.hear(b, window(0, 30*s))
			if !y.throttle(c, window(0, 30*s)) {
				y.Error("not explained")
			}
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
				other := called(strings.Repeat("x", i), window(90, time.Hour))
				y.hear(y.send(), called("the one", window(90, 60*s)), other)
			}
			if n := y.Names(); len(n) != maxLimits || !slices.Contains(n, "the one") {
				y.Errorf("%q", n)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.tell(&story{T: t, Ledger: New(tt.reserve)}) })
	}
}

// What others were told counts where it is newer, and teaches neither costs nor
// mistrust.
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
	for i := range 5 { // windows that begin with nothing left: others have used them up
		y.at(time.Duration(i+2) * 60 * s)
		y.Hear(y.now, y.now-s, y.now-s/2, said(0, 30*s), false)
	}
	m := y.limits[0]
	if m.mistrusted != 0 || m.lies != 0 || m.cost.mean != 1 {
		t.Errorf("mistrusted until %v after %d lies; a request costs %v", m.mistrusted, m.lies, m.cost.mean)
	}
}

// Two requests far apart say nothing of the cost of one: others have taken their
// part in between.
func TestCostOfASlowProcess(t *testing.T) {
	y := &story{T: t, Ledger: New(0)}
	for i := range 5 { // windows of a minute, two requests in each
		begin := time.Duration(i) * 60 * s
		y.hear(y.sendAt(begin+s), Limit{Quota: 600, Remaining: 598, Reset: 59 * s})
		y.hear(y.sendAt(begin+21*s), Limit{Quota: 600, Remaining: 310, Reset: 39 * s})
	}
	if mean := y.limits[0].cost.mean; mean > 1 {
		t.Errorf("a request costs %v", mean)
	}
}
