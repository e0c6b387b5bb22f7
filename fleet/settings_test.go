package fleet_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
)

// A couple is two processes, each with its own settings, in virtual time.
type couple struct {
	*testing.T
	store         *fleettest.Store
	first, second *awsretry.Transport
	leaves        func()   // the first process does
	faults        faultLog // of the second process
}

// inCouple tests a couple. The first process joins a second earlier.
func inCouple(t *testing.T, first, second *awsretry.Transport, lease time.Duration, test func(c *couple)) {
	synctest.Test(t, func(t *testing.T) {
		c := &couple{T: t, store: &fleettest.Store{Latency: time.Millisecond}, first: first, second: second}
		start := func(tr *awsretry.Transport, config fleet.Config) *fleet.Fleet {
			shared := newFleet(t, c.store, config)
			tr.Base, tr.Shared = respond(200, 0), shared
			send(t, tr)
			time.Sleep(time.Second)
			return shared
		}
		shared := start(first, fleet.Config{})
		c.leaves = func() { shared.Close() }
		defer start(second, fleet.Config{Lease: lease, OnError: c.faults.add}).Close()
		defer shared.Close()
		test(c)
		runtime.KeepAlive(c)
	})
}

// check uses both processes for five seconds, so that they are not idle.
func (c *couple) check(when string, wantFirst, wantSecond bool) {
	c.Helper()
	for range 25 {
		send(c, c.first)
		send(c, c.second)
		time.Sleep(200 * time.Millisecond)
	}
	if a, b := stateOf(c.first).Fleet.Leased, stateOf(c.second).Fleet.Leased; a != wantFirst || b != wantSecond {
		c.Errorf("%s the first has a lease: %v, the second: %v", when, a, b)
	}
}

// Which settings must be the same, and which error a process with others gets.
func TestOtherSettings(t *testing.T) {
	adaptive := func(c awsretry.RateLimitConfig) *awsretry.Transport {
		return &awsretry.Transport{Mode: awsretry.Adaptive, RateLimit: c}
	}
	quota := func(c awsretry.QuotaConfig) *awsretry.Transport { return &awsretry.Transport{Quota: c} }
	none := quota(awsretry.QuotaConfig{Capacity: -1})
	none.ShareRetryAfter = true
	for _, test := range []struct {
		first, second *awsretry.Transport
		want          string // of the second's error; "" if they share
	}{
		{new(awsretry.Transport), quota(awsretry.QuotaConfig{Capacity: 7}),
			"have the settings Capacity:500; this one has Capacity:7"},
		{new(awsretry.Transport), none, "this one has Lease:400ms no quota"},
		{new(awsretry.Transport), quota(awsretry.QuotaConfig{TimeoutCost: 1}),
			"have the settings Lease:400ms Capacity:500; this one has Lease:400ms Capacity:500 TimeoutCost:1"},
		{adaptive(awsretry.RateLimitConfig{}), adaptive(awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing}),
			"have the pacing cubic; this one has scaled"},
		{adaptive(awsretry.RateLimitConfig{}), adaptive(awsretry.RateLimitConfig{MinFillRate: 300}),
			"have the pacing cubic; this one has cubic MinFillRate:300"},
		{adaptive(awsretry.RateLimitConfig{}), adaptive(awsretry.RateLimitConfig{
			Pacing: awsretry.CubicPacing, MinFillRate: 0.5, // the defaults
			MaxWait: time.Second, Limits: awsretry.ReadLimits, // each process may have its own
		}), ""},
		{new(awsretry.Transport), adaptive(awsretry.RateLimitConfig{}), ""}, // they share the retry tokens
	} {
		inCouple(t, test.first, test.second, 0, func(c *couple) {
			shares := test.want == ""
			c.check("at the start", true, shares)
			if got := strings.Join(c.faults.all(), "\n"); !strings.Contains(got, test.want) || (got == "") != shares {
				c.Errorf("the errors are %q; want %q", got, test.want)
			}
		})
	}
}

// The first process's settings apply while it is running, and for a minute after
// that. A process with others works alone, also after a shorter outage of the store.
func TestSettingsStay(t *testing.T) {
	inCouple(t, new(awsretry.Transport), new(awsretry.Transport), 800*time.Millisecond, func(c *couple) {
		c.check("at the start", true, false)
		const want = "have the settings Lease:400ms; this one has Lease:800ms"
		if got := c.faults.all(); len(got) != 1 || !strings.Contains(got[0], want) {
			c.Errorf("the errors are %q; want %q", got, want)
		}
		c.store.Refuse(errors.New("an outage"))
		time.Sleep(5 * time.Second)
		c.store.Refuse(nil)
		time.Sleep(time.Second)
		c.check("after an outage", true, false)
		c.leaves()
		time.Sleep(45 * time.Second)
		c.check("before a minute of silence", false, false)
		time.Sleep(15 * time.Second)
		c.check("when the first has gone", false, true)
	})
}

// Two Transports with one Fleet are two members.
func TestTransportsOfOneFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newFleet(t, &fleettest.Store{}, fleet.Config{})
		defer shared.Close()
		var transports [2]*awsretry.Transport
		for i := range transports {
			transports[i] = &awsretry.Transport{Base: respond(200, 0), Shared: shared}
			send(t, transports[i])
		}
		time.Sleep(time.Second)
		for i, tr := range transports {
			if n := stateOf(tr).Fleet.Members; n != 2 {
				t.Errorf("Transport %d knows of %d members, want 2", i, n)
			}
		}
	})
}
