package pacer

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/tokens"
	"example.com/awsretry/internal/worlds"
)

// outOfBounds returns which of the limiter's numbers is out of bounds, or "".
func outOfBounds(p *Pacer) string {
	measured, send, _ := p.Rates()
	tokens, capacity := p.bucket.Tokens(), max(send, p.config.MinCapacity)
	switch {
	case !(measured >= 0 && measured <= math.MaxFloat64):
		return fmt.Sprintf("the measured rate is %v", measured)
	case p.TakesTokens() && !(send >= p.config.MinFillRate && send <= math.MaxFloat64):
		return fmt.Sprintf("the send rate is %v", send)
	case !(tokens >= 0 && tokens <= capacity):
		return fmt.Sprintf("%v of %v tokens", tokens, capacity)
	}
	return ""
}

// Whatever the clock and the configuration, the numbers stay in bounds.
func TestOddClocks(t *testing.T) {
	const end time.Duration = 1 << 62 // of the bucket's clock
	for _, c := range []Config{
		{},
		{MeasureInterval: math.MaxInt64, ScaleConstant: math.SmallestNonzeroFloat64},
		{MeasureInterval: 1, ScaleConstant: math.MaxFloat64, Smoothing: 1e-300},
		{MinFillRate: math.MaxFloat64, MinCapacity: math.MaxFloat64, Beta: 1},
		{Scaled: true, MeasureInterval: 1},
		{Scaled: true, MinFillRate: math.MaxFloat64, MinCapacity: math.MaxFloat64, MeasureInterval: math.MaxInt64},
		{Scaled: true, Beta: math.SmallestNonzeroFloat64, MinFillRate: tokens.MinRate, Smoothing: 1e-300},
	} {
		for _, clock := range [][]time.Duration{
			{-1, math.MinInt64, math.MinInt64, 0, -1},
			{end, end, end, 0, end},
			{time.Second, 0, time.Second, 0, 3 * time.Second, 3 * time.Second},
		} {
			for bits := range 1 << 3 { // which of the outcomes are throttled
				p := New(c)
				for i, now := range clock {
					p.update(now, now-time.Duration(bits), bits>>(i%3)&1 == 1)
					fault := outOfBounds(p)
					p.bucket.Take(1)
					if fault = cmp.Or(fault, outOfBounds(p)); fault != "" {
						t.Fatalf("update at %v of %v with %+v: %s", now, clock, c, fault)
					}
				}
			}
		}
	}
}

// The capacity follows the rate also below MinFillRate.
func TestCapacityBelowTheLowestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{MinFillRate: 100, ScaleConstant: 1e9})
		p.UpdateNow(false) // sets the lowest rate and capacity
		time.Sleep(time.Second)
		for range 9 {
			p.UpdateNow(false) // the first measures: 2 outcomes in 1 s
		}
		time.Sleep(time.Second)
		_, send, _ := p.Rates()
		if got := p.bucket.Tokens(); send != 100 || math.Abs(got-3.2) > 1e-8 {
			t.Errorf("%v tokens at the rate %v, want 3.2 at 100", got, send)
		}
	})
}

// If no limits are announced, the send rate is that of a Pacer that reads none.
func TestNoLimits(t *testing.T) {
	worlds.Each(t, 20, func(t *testing.T, r *rand.Rand) {
		c := Config{Scaled: worlds.Chance(r, .7)}
		unread := New(c)
		c.Limits = true
		pacers := []*Pacer{unread, New(c)}
		trip, refused := time.Duration(1+r.Int64N(4e9)), r.Float64()/2
		for range 200 {
			throttled := r.Float64() < refused
			for _, p := range pacers {
				sent, ok := p.SendFree(), true
				if p.TakesTokens() {
					sent, ok = p.Take(announced.Request{})
				}
				if ok {
					time.AfterFunc(trip, func() { p.Update(sent, throttled) })
				}
			}
			time.Sleep(time.Duration(r.Int64N(int64(trip))))
			_, want, _ := unread.Rates()
			if _, got, _ := pacers[1].Rates(); got != want {
				t.Fatalf("%v/s, want %v/s", got, want)
			}
		}
	})
}

// Cost is called once for all limits of a name.
func TestCostOfANameIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := New(Config{Limits: true, Cost: func(*http.Request, string) float64 { calls++; return 7 }})
		for _, limit := range []announced.Limit{
			{Name: "tokens", Quota: 100, Remaining: 50, Reset: time.Hour},
			{Name: "tokens", Quota: 1000, Remaining: 900, Reset: time.Hour},
		} {
			sent, _ := p.Take(announced.Request{Route: announced.RouteOf("GET", fmt.Sprint("/", limit.Quota))})
			time.Sleep(time.Second)
			p.Announce(sent, Announcement{Limits: []announced.Limit{limit}})
		}
		if n := len(p.Limits()); n != 2 {
			t.Fatalf("%d limits, want 2", n)
		}
		req := p.Request(httptest.NewRequest(http.MethodGet, "/100", nil))
		if calls != 1 || req.Costs["tokens"] != 7 {
			t.Errorf("%d calls, %v", calls, req.Costs)
		}
	})
}

// With a lease the rate is that of the lease, and outcomes are counted. Afterwards
// the law of this process continues, at its part of the rate.
func TestLease(t *testing.T) {
	const second = time.Second
	for _, scaled := range []bool{false, true} {
		t.Run(fmt.Sprintf("scaled: %v", scaled), func(t *testing.T) {
			c := Config{Scaled: scaled}.WithDefaults()
			l := &leased{alone: c.newLaw(time.Unix(0, 0)), limits: c.limits()}
			check := func(what string, now time.Duration, least, most float64) {
				t.Helper()
				if rate, _ := l.pace(now); rate < least || rate > most {
					t.Errorf("%s: rate %v, want %v to %v", what, rate, least, most)
				}
			}
			l.update(second, second, true) // alone from the first
			check("alone", second, 0.5, 1)
			l.take()

			if l.begin(second, 2*second, &Grant{}) {
				t.Error("a lease without a rate begins")
			}
			check("before the first rate of all", second, 0.5, 1)
			grant := &Grant{Limited: true, Rate: 8, Burst: second / 4, FleetRate: 12, Members: 4}
			if !l.begin(2*second, 5*second, grant) || l.begin(2*second, 5*second, grant) {
				t.Error("a lease begins once")
			}
			for _, sent := range []time.Duration{second, 3 * second, 3 * second} {
				l.update(3500*time.Millisecond, sent, false)
				l.update(3500*time.Millisecond, sent, true)
			}
			if rate, capacity := l.pace(3500 * time.Millisecond); rate != 8 || capacity != 2 {
				t.Errorf("within the lease: rate %v, capacity %v", rate, capacity)
			}
			want := Counts{Throttled: 2, Trips: second, TripsOf: 2} // not what was sent before the lease
			if got := l.take(); got != want {
				t.Errorf("counted %+v, want %+v", got, want)
			}
			if got := l.take(); got != (Counts{}) {
				t.Errorf("counted twice: %+v", got)
			}

			for at := 4 * second; at < 6*second; at += 250 * time.Millisecond {
				l.update(at, at-100*time.Millisecond, false)
			}
			check("after the lease", 6*second, 2, 4.5)

			l.begin(6*second, 9*second, grant)
			l.begin(7*second, 10*second, &Grant{})
			check("a lease that has lost its rate", 7*second, 2.9, 3.1)

			grant.AloneAtMost = 1.5
			l.begin(8*second, 9*second, grant)
			check("a lease with slots", 8*second, 8, 8)
			l.lapse(9 * second)
			if rate, capacity := l.pace(9 * second); rate != 1.5 || capacity != 1 {
				t.Errorf("alone at most at 1.5: rate %v, capacity %v", rate, capacity)
			}
		})
	}
}
