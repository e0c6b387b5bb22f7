package pacer

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/announced"
	"example.com/awsretry/internal/tokens"
)

// complete returns c with the defaults of the AWS SDKs.
func complete(c Config) Config {
	c.Beta = cmp.Or(c.Beta, .7)
	c.ScaleConstant = cmp.Or(c.ScaleConstant, .4)
	c.Smoothing = cmp.Or(c.Smoothing, .8)
	c.MinRate = cmp.Or(c.MinRate, .5)
	c.MinCapacity = cmp.Or(c.MinCapacity, 1)
	c.Interval = cmp.Or(c.Interval, time.Second/2)
	return c
}

// outOfBounds returns which of the limiter's numbers is out of bounds, or "".
func outOfBounds(p *Pacer) string {
	measured, send, _ := p.Rates()
	tokens, capacity := p.bucket.Tokens(), max(send, p.config.MinCapacity)
	switch {
	case !(measured >= 0 && measured <= math.MaxFloat64):
		return fmt.Sprintf("the measured rate is %v", measured)
	case p.TakesTokens() && !(send >= p.config.MinRate && send <= math.MaxFloat64):
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
		{Interval: math.MaxInt64, ScaleConstant: math.SmallestNonzeroFloat64},
		{Interval: 1, ScaleConstant: math.MaxFloat64, Smoothing: 1e-300},
		{MinRate: math.MaxFloat64, MinCapacity: math.MaxFloat64, Beta: 1},
		{Scaled: true, Interval: 1},
		{Scaled: true, MinRate: math.MaxFloat64, MinCapacity: math.MaxFloat64, Interval: math.MaxInt64},
		{Scaled: true, Beta: math.SmallestNonzeroFloat64, MinRate: tokens.MinRate, Smoothing: 1e-300},
	} {
		for _, clock := range [][]time.Duration{
			{-1, math.MinInt64, math.MinInt64, 0, -1},
			{end, end, end, 0, end},
			{time.Second, 0, time.Second, 0, 3 * time.Second, 3 * time.Second},
		} {
			for bits := range 1 << 3 { // which of the outcomes are throttled
				p := New(complete(c))
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

// The capacity follows the rate also below MinRate.
func TestCapacityBelowTheLowestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(complete(Config{MinRate: 100, ScaleConstant: 1e9}))
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

// Cost is called once for all limits of a name.
func TestCostOfANameIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := New(complete(Config{Limits: true, Cost: func(*http.Request, string) float64 { calls++; return 7 }}))
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
