package contract_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacer"
)

// A store is a Shared that the test itself plays.
type store struct {
	shares []*admission.Share
	err    error
	rate   float64
	join   func(*admission.Share) // may be nil
}

func (s *store) Validate(awsretry.Mode) error { return s.err }

func (s *store) FirstRate() float64 { return s.rate }

func (s *store) Join(share *admission.Share) {
	s.shares = append(s.shares, share)
	if s.join != nil {
		s.join(share)
	}
}

// joined sends a request through tr, and returns what its partition shares.
func joined(t *testing.T, tr *transport) *admission.Share {
	t.Helper()
	s := &store{}
	tr.Shared = s
	sendGet(t, tr).response(t)
	return s.shares[0]
}

// awake reports whether share has been woken since the last call.
func awake(share *admission.Share) bool {
	select {
	case <-share.Wake():
		return true
	default:
		return false
	}
}

// durationOf returns how long n requests take, one after the other.
func durationOf(t *testing.T, tr *transport, n int) time.Duration {
	t.Helper()
	start := time.Now()
	for range n {
		sendGet(t, tr)
	}
	return time.Since(start).Round(time.Millisecond)
}

func TestSharedInvalid(t *testing.T) {
	for want, tr := range map[string]*transport{
		"Transport.Shared": {Shared: &store{err: errReset}},
		"Quota.InitialCost is 5; with Shared it must be 0": {Shared: &store{}, Quota: quota{InitialCost: 5}},
		"Quota.RefillPerSecond is 0.5; with Shared it must be 0": {
			Shared: &store{}, Quota: quota{RefillPerSecond: 0.5}},
	} {
		if err := tr.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Retry tokens come and go. A retry that finds none wakes the store, and does
// not wait for it.
func TestSharedTokens(t *testing.T) {
	tr := retrying(always(busy))
	share := joined(t, tr)
	if capacity, cost, perCall, ok := share.RetryTokens(); capacity != 500 || cost != 10 || perCall != 20 || !ok {
		t.Errorf("capacity %d, cost %d, per call %d, %v", capacity, cost, perCall, ok)
	}
	if taken := share.TakeTokens(1 << 30); taken != 490 {
		t.Errorf("took %d tokens, want 490", taken)
	}
	share.Usage()
	if r := sendGet(t, tr); r.stop != awsretry.StopQuota || !awake(share) {
		t.Errorf("%v, or the store was not woken", r)
	}
	if usage := share.Usage(); usage.Refused != 1 || usage.Tokens != 0 {
		t.Errorf("%+v", usage)
	}
	share.AddTokens(10)
	if r := sendGet(t, tr); r.stop != awsretry.StopMaxAttempts {
		t.Errorf("with 10 tokens: %v", r)
	}
}

// A retry without tokens waits for those of the fleet, if there are any, and after a
// failure no longer than its delay.
func TestSharedTokensInTheDelay(t *testing.T) {
	const lease = time.Minute
	for name, tt := range map[string]struct {
		fleetTokens int
		lease       time.Duration // 0: there is no grant yet
		give        bool          // tokens after half the delay
		want        awsretry.Stop
		took        time.Duration
	}{
		"they come":             {10, lease, true, awsretry.StopMaxAttempts, time.Second},
		"they do not come":      {10, lease, false, awsretry.StopQuota, time.Second},
		"there are none":        {4, lease, true, awsretry.StopQuota, 0},
		"the lease has ended":   {10, -lease, true, awsretry.StopQuota, 0},
		"before the first one":  {0, 0, true, awsretry.StopMaxAttempts, time.Second},
		"the first one is late": {0, 0, false, awsretry.StopQuota, time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			tr := retrying(always(busy))
			tr.Backoff, tr.MaxAttempts = delayed(time.Second), 2
			tr.Shared = &store{join: func(share *admission.Share) {
				share.TakeTokens(1 << 30)
				if tt.give {
					time.AfterFunc(500*time.Millisecond, func() { share.AddTokens(5) })
				}
				if tt.lease != 0 {
					share.Grant(pacer.Grant{FleetTokens: tt.fleetTokens, Until: time.Now().Add(tt.lease)})
				}
			}}
			sendGet(t, tr).want(t, 503, tt.want, tt.took)
		})
	}
}

// For a retry after throttling there are the spare tokens too, and time to hear of
// them, however short its delay is.
func TestSharedTokensAfterThrottling(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome outcome
		status  int
		want    awsretry.Stop
		took    time.Duration
		spared  int
	}{
		"throttled": {throttled, 429, awsretry.StopMaxAttempts, 100 * time.Millisecond, 1},
		"busy":      {busy, 503, awsretry.StopQuota, 0, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			tr := retrying(always(tt.outcome))
			s := &store{join: func(share *admission.Share) {
				share.TakeTokens(1 << 30)
				time.AfterFunc(100*time.Millisecond, func() { share.AddTokens(10) })
				share.Grant(pacer.Grant{SpareTokens: 10, Until: time.Now().Add(time.Minute)})
			}}
			tr.Backoff, tr.MaxAttempts, tr.Shared = delayed(10*time.Millisecond), 2, s
			sendGet(t, tr).want(t, tt.status, tt.want, tt.took)
			if u := s.shares[0].Usage(); u.Refused != 1 || u.Spared != tt.spared {
				t.Errorf("%+v, want %d of 1 refused after throttling", u, tt.spared)
			}
		})
	}
}

// A retry does not wait for the tokens of a fleet up to its deadline, after which
// the response would be lost.
func TestSharedTokensBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(always(throttled))
		tr.Backoff = delayed(10 * time.Millisecond)
		tr.Shared = &store{join: func(share *admission.Share) { share.TakeTokens(1 << 30) }}
		ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer end()
		r := send(tr, httpfake.Request(t, ctx, "GET", nil))
		r.want(t, 429, awsretry.StopQuota, 50*time.Millisecond)
	})
}

// A retry that waits for a fleet that is not heard from gives way to cheaper ones.
func TestSharedTokensOfASilentFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcome := responds(429, "Retry-After", "60")
		tr := retrying(func(req *http.Request) (*http.Response, error) { return outcome(req, http.NoBody) })
		tr.MaxAttempts = 2
		tr.Shared = &store{join: func(share *admission.Share) {
			share.TakeTokens(1 << 30)
			share.AddTokens(9)
			share.Grant(pacer.Grant{FleetTokens: 20, Until: time.Now().Add(time.Second)})
		}}
		go sendGet(t, tr)
		synctest.Wait()
		outcome = busy
		time.Sleep(3 * time.Second)
		sendGet(t, tr).want(t, 503, awsretry.StopMaxAttempts, 0)
	})
}

// A partition whose retries wait for a fleet's tokens is not replaced by newer ones.
func TestSharedTokensKeepTheirPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(always(throttled))
		tr.MaxPartitions, tr.Backoff = 1, delayed(time.Second)
		tr.Shared = &store{join: func(share *admission.Share) { share.TakeTokens(1 << 30) }}
		go sendGet(t, tr)
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			send(tr, httpfake.Request(t, awsretry.WithPartition(t.Context(), name), "GET", nil))
		}
		if _, ok := tr.State("service.example"); !ok {
			t.Error("the partition of a retry that waits was replaced")
		}
	})
}

// A grant paces the process until its end. Then the process goes on by itself,
// at its part of the rate of all.
func TestSharedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcome := ok
		tr := retrying(func(req *http.Request) (*http.Response, error) { return outcome(req, http.NoBody) })
		adaptive(tr)
		share := joined(t, tr)
		if took := durationOf(t, tr, 100); took != 0 {
			t.Errorf("without a rate 100 requests took %v", took)
		}
		grant := func(rate, firstToken float64) {
			share.Grant(pacer.Grant{
				Until: time.Now().Add(10 * time.Second), Limited: rate > 0, Rate: rate, FleetRate: 8, Members: 4,
				FirstToken: firstToken,
			})
		}
		wantAlone := func(when string) {
			t.Helper()
			if took := durationOf(t, tr, 5); took < time.Second || took > 3*time.Second {
				t.Errorf("%s 5 requests took %v", when, took)
			}
		}
		grant(5, 0.5)
		grant(5, 0.5)
		if took := durationOf(t, tr, 11); took != 2100*time.Millisecond {
			t.Errorf("at 5/s 11 requests took %v, want 2.2s less half a token, once", took)
		}
		if state, _ := tr.State("service.example"); !state.Fleet.Leased || state.Fleet.Members != 4 || state.Fleet.Rate != 8 {
			t.Errorf("%+v", state)
		}
		if usage := share.Usage(); usage.Sent != 112 || usage.Throttled != 0 {
			t.Errorf("%+v", usage)
		}

		time.Sleep(11 * time.Second)
		if state, _ := tr.State("service.example"); state.Fleet.Leased {
			t.Error("the lease has not ended")
		}
		// 8/s of four: this one continues at 2/s, and the law of the AWS SDKs
		// raises that.
		grant(2, 0)
		time.Sleep(11 * time.Second)
		wantAlone("alone")
		outcome = throttled
		get(t, tr)
		if state, _ := tr.State("service.example"); state.SendRate > 3 {
			t.Errorf("after throttling alone: %+v", state)
		}
		outcome = ok
		grant(1000, 0)
		share.Grant(pacer.Grant{})
		wantAlone("in a fleet that has lost its rate")
	})
}

// With slots, requests are sent in them, and not once they have passed. A
// process without a lease keeps the rate that it may have alone.
func TestSharedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(always(ok))
		adaptive(tr)
		share, begin := joined(t, tr), time.Now()
		wantTook := func(what string, n int, want time.Duration) {
			t.Helper()
			if got := durationOf(t, tr, n); got != want {
				t.Errorf("%s: %d requests took %v, want %v", what, n, got, want)
			}
		}
		share.Alone(2, 0)
		wantTook("alone at 2/s", 3, 1500*time.Millisecond)
		grant := func(first time.Duration, n int) {
			share.Grant(pacer.Grant{
				Until: time.Now().Add(10 * time.Second), Limited: true, Rate: 5, FleetRate: 100, Members: 20, AloneAtMost: 4,
				FirstSlot: time.Now().Add(first), Every: 100 * time.Millisecond, Slots: n,
			})
		}
		grant(time.Second, 3)
		if n := share.Usage().SendTokens; n != 3 {
			t.Errorf("%v slots are ahead", n)
		}
		wantTook("two slots", 2, 1100*time.Millisecond)
		time.Sleep(120 * time.Millisecond) // the third slot is 20 ms old
		grant(50*time.Millisecond, 1)
		wantTook("a slot", 1, 50*time.Millisecond)

		awake(share)
		var calls sync.WaitGroup
		calls.Go(func() { wantTook("a slot that comes at once", 1, 0) })
		synctest.Wait()
		if state, _ := tr.State("service.example"); !awake(share) || state.Waiting != 1 ||
			state.ExpectedWait <= 200*time.Millisecond {
			t.Errorf("a request without a slot, for which the store may not be awake: %+v", state)
		}
		grant(0, 1)
		calls.Wait()
		time.Sleep(time.Until(begin.Add(time.Minute)))
		if got := durationOf(t, tr, 5); got < time.Second || got > 2*time.Second {
			t.Errorf("alone at 4/s, 5 requests took %v", got)
		}
	})
}

// Before its first lease a process keeps the first rate, however many requests
// come at once.
func TestSharedFirstRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(always(ok))
		tr.Mode, tr.Shared = awsretry.Adaptive, &store{rate: 2}
		start := time.Now()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() { get(t, tr) })
		}
		calls.Wait()
		if took := time.Since(start).Round(time.Millisecond); took != 2*time.Second {
			t.Errorf("4 requests took %v", took)
		}
	})
}

// What was sent counts at once, and what was throttled with the time that it took.
func TestSharedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		tr := once(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return throttled(req, http.NoBody)
		})
		tr.Mode, tr.Shared = awsretry.Adaptive, s
		var calls sync.WaitGroup
		calls.Go(func() { get(t, tr) })
		time.Sleep(500 * time.Millisecond)
		synctest.Wait() // for the race detector
		share := s.shares[0]
		if u := share.Usage(); u.Counts != (pacer.Counts{Sent: 1}) {
			t.Errorf("before the response: %+v", u)
		}
		share.Grant(pacer.Grant{Until: time.Now().Add(time.Hour), Limited: true, Rate: 1000})
		calls.Wait()
		get(t, tr)
		want := pacer.Counts{Sent: 1, Throttled: 1, Trips: time.Second, TripsOf: 1} // not what was sent before the lease
		if u := share.Usage(); u.Counts != want {
			t.Errorf("%+v, want %+v", u, want)
		}
	})
}

// A Retry-After reaches the store and comes from it, unless it is longer than
// MaxRetryAfter.
func TestSharedRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := once(inTurn(responds(503, "Retry-After", "30"), ok))
		tr.ShareRetryAfter, tr.RetryAfterSpread = true, -1
		share := joined(t, tr)
		if u := share.Usage(); u.RetryAfter != 30*time.Second || !awake(share) {
			t.Errorf("%+v, or the store was not woken", u)
		}
		for _, tt := range []struct{ asked, want time.Duration }{
			{40 * time.Second, 40 * time.Second}, {time.Minute, time.Minute}, {time.Minute + 1, 0},
		} {
			share.Grant(pacer.Grant{RetryAfter: tt.asked})
			sendGet(t, tr).want(t, 200, "", tt.want)
		}
	})
}

// What the fleet should know at once wakes the store, and nothing else does.
func TestSharedWake(t *testing.T) {
	const lease = 10 * time.Second
	for _, tt := range []struct {
		name    string
		rate    float64       // granted; 0 for no limit
		after   time.Duration // how long after the grant
		limit   rateLimit
		base    httpfake.Base
		timeout time.Duration
		want    bool
		notSent int // how many of the requests
	}{
		{name: "a success at a limited rate", rate: 1, after: 2 * time.Second, base: always(ok)},
		{name: "a permanent failure", base: always(invalid)},
		{name: "a retry", base: httpfake.Statuses(500, 200), want: true},
		{name: "a throttled response", base: always(throttled), want: true},
		{name: "a success after the lease", after: lease, base: always(ok), want: true},
		{name: "a wait within the lease", rate: 1, base: always(ok)},
		{name: "a wait beyond the lease", rate: 0.05, base: always(ok), want: true},
		{name: "FailFast", rate: 1, limit: rateLimit{FailFast: true}, base: always(ok), want: true, notSent: 1},
		{name: "MaxWait", rate: 1, limit: rateLimit{MaxWait: 1}, base: always(ok), want: true, notSent: 1},
		{name: "a deadline", rate: 1, timeout: time.Millisecond, base: always(ok), want: true, notSent: 1},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			base := always(ok)
			tr := retrying(func(req *http.Request) (*http.Response, error) { return base(req) })
			tr.Mode, tr.RateLimit, tr.MaxAttempts = awsretry.Adaptive, tt.limit, 2
			share := joined(t, tr)
			for range 2 { // until no token is left
				time.Sleep(time.Minute)
				share.Grant(pacer.Grant{
					Until: time.Now().Add(lease), Limited: tt.rate > 0, Rate: tt.rate, FleetRate: tt.rate, Members: 1,
				})
				get(t, tr)
			}
			awake(share)
			share.Usage()

			time.Sleep(tt.after)
			base = tt.base
			r := send(tr, httpfake.Request(t, within(t, tt.timeout), "GET", nil))
			if refused := errors.Is(r.err, awsretry.ErrRateLimited); refused != (tt.notSent > 0) {
				t.Errorf("%v", r)
			}
			if got := awake(share); got != tt.want {
				t.Errorf("woken: %v", got)
			}
			if usage := share.Usage(); usage.NotSent != tt.notSent {
				t.Errorf("%+v", usage)
			}
		})
	}
}
