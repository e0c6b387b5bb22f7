package contract_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/contract"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/internal/sharing"
)

// A store is a Shared that the test itself plays.
type store struct {
	shares []sharing.Share
	err    error
	rate   float64
	join   func(sharing.Share) // may be nil
}

func (s *store) Validate(awsretry.Mode) error { return s.err }

func (s *store) FirstRate() float64 { return s.rate }

func (s *store) Join(share sharing.Share) {
	s.shares = append(s.shares, share)
	if s.join != nil {
		s.join(share)
	}
}

// Each partition joins once, and the Transport can be used while it does.
func TestSharedJoin(t *testing.T) {
	tr := retrying(always(ok))
	s := &store{}
	s.join = func(share sharing.Share) {
		if _, ok := tr.State(share.Partition()); !ok {
			t.Errorf("there is no partition %q yet", share.Partition())
		}
	}
	tr.Shared = s
	for range 3 {
		for _, host := range []string{"a.example", "b.example"} {
			req := httpfake.Request(t, t.Context(), "GET", nil)
			req.URL.Host = host
			send(tr, req).response(t)
		}
	}
	var names []string
	for _, share := range s.shares {
		names = append(names, share.Partition())
		if share.Dropped() {
			t.Errorf("%q is dropped", share.Partition())
		}
	}
	if want := []string{"a.example", "b.example"}; !slices.Equal(names, want) {
		t.Errorf("joined %q, want %q", names, want)
	}
}

func TestSharedInvalid(t *testing.T) {
	bad := errors.New("store: the prefix is empty")
	tr := retrying(always(ok))
	tr.Shared = &store{err: bad}
	if _, err := get(t, tr); !errors.Is(err, bad) || !strings.Contains(err.Error(), "Transport.Shared") {
		t.Errorf("%v", err)
	}
	for field, quota := range map[string]awsretry.QuotaConfig{
		"Quota.InitialCost is 5;":       {InitialCost: 5},
		"Quota.RefillPerSecond is 0.5;": {RefillPerSecond: 0.5},
	} {
		tr := retrying(always(ok))
		tr.Quota = quota
		if err := tr.Validate(); err != nil {
			t.Errorf("without Shared: %v", err)
		}
		tr.Shared = &store{}
		if err := tr.Validate(); err == nil || !strings.Contains(err.Error(), field+" with Shared it must be 0") {
			t.Errorf("%s %v", field, err)
		}
	}
}

// If Join panics when there is a response already, its body is closed.
func TestSharedPanicsLate(t *testing.T) {
	for _, status := range []int{200, 500} {
		tr := &transport{Shared: secondJoinPanics()}
		body := httpfake.NewBody(strings.NewReader("response"))
		tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
			return httpfake.Response(req, status, body), nil
		})
		tr.MaxAttempts = 1
		resp, _, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "GET", nil))
		if panicked {
			t.Fatal("the first Join panics")
		}
		resp.Body.Close()
		req := httpfake.Request(t, t.Context(), "GET", nil)
		req.URL.Host = "other.example"
		if _, _, panicked := tryRoundTrip(tr, req); !panicked || body.Closes() != 2 {
			t.Errorf("%d: panicked: %v; the body was closed %d times in 2 responses", status, panicked, body.Closes())
		}
	}
}

// An extra partition that stays because it is throttled joins with the next
// request, not when it is released.
func TestSharedExtraJoins(t *testing.T) {
	held, hold, released := make(chan bool), make(chan bool), make(chan bool)
	tr := once(func(req *http.Request) (*http.Response, error) {
		if req.Method == "GET" {
			held <- true
			<-hold
			return ok(req, http.NoBody)
		}
		close(hold)
		<-released
		return throttled(req, http.NoBody)
	})
	s := secondJoinPanics()
	tr.Mode, tr.MaxPartitions, tr.Shared = awsretry.Adaptive, 1, s
	tr.RateLimit.FailFast = true
	go func() {
		_, _ = getOf(t, tr, "held")
		close(released)
	}()
	<-held
	if _, _, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "POST", nil)); panicked {
		t.Error("it joins when it is released")
	}
	for _, want := range []bool{true, false} {
		if _, _, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "POST", nil)); panicked != want {
			t.Errorf("panicked: %v", panicked)
		}
	}
	if names := []string{s.shares[0].Partition(), s.shares[2].Partition()}; names[0] != "held" ||
		names[1] != "service.example" || len(s.shares) != 3 {
		t.Errorf("%q joined, %d", names, len(s.shares))
	}
}

// secondJoinPanics returns a store whose second Join panics.
func secondJoinPanics() *store {
	joins := 0
	return &store{join: func(sharing.Share) {
		if joins++; joins == 2 {
			panic("store")
		}
	}}
}

// A panic in Join leaves no lock held, the next request joins, and the partition
// can be dropped.
func TestSharedPanics(t *testing.T) {
	tr := retrying(always(ok))
	var share sharing.Share
	tr.Mode, tr.MaxPartitions = awsretry.Adaptive, 1
	joins := 0
	tr.Shared = &store{join: func(s sharing.Share) {
		share = s
		if joins++; joins == 1 {
			panic("store")
		}
	}}
	if _, _, panicked := tryRoundTrip(tr, httpfake.Request(t, t.Context(), "GET", nil)); !panicked {
		t.Error("the panic did not come through")
	}
	if _, err := get(t, tr); err != nil || joins != 2 {
		t.Errorf("joined %d times, %v", joins, err)
	}
	first := share
	getOf(t, tr, "another")
	if !first.Dropped() {
		t.Error("the partition is still there")
	}
}

// Retry tokens come and go. A retry that finds none wakes the store, and does
// not wait for it.
func TestSharedTokens(t *testing.T) {
	s := &store{}
	tr := retrying(always(busy))
	tr.Shared = s
	sendGet(t, tr).response(t)
	share := s.shares[0]
	if capacity, cost, ok := share.RetryTokens(); capacity != 500 || cost != 10 || !ok {
		t.Errorf("capacity %d, cost %d, %v", capacity, cost, ok)
	}
	if taken := share.TakeTokens(1 << 30); taken != 490 {
		t.Errorf("took %d tokens, want 490", taken)
	}
	share.Usage()
	if resp, err := get(t, tr); contract.StopOf(resp, err) != awsretry.StopQuota {
		t.Errorf("%v", err)
	}
	if !awake(share) {
		t.Error("the store was not woken")
	}
	if usage := share.Usage(); usage.Refused != 1 || usage.Tokens != 0 {
		t.Errorf("%+v", usage)
	}
	share.AddTokens(10)
	if resp, err := get(t, tr); contract.StopOf(resp, err) != awsretry.StopMaxAttempts {
		t.Errorf("with 10 tokens: %v", err)
	}
}

// A retry without tokens waits for those of the fleet, if there are any, no longer
// than its delay.
func TestSharedTokensInTheDelay(t *testing.T) {
	for name, test := range map[string]struct {
		grant *sharing.Grant
		give  bool // after half the delay
		want  awsretry.Stop
		took  time.Duration
	}{
		"they come":             {&sharing.Grant{FleetTokens: 10}, true, awsretry.StopMaxAttempts, time.Second},
		"they do not come":      {&sharing.Grant{FleetTokens: 10}, false, awsretry.StopQuota, time.Second},
		"there are none":        {&sharing.Grant{FleetTokens: 4}, true, awsretry.StopQuota, 0},
		"the lease has ended":   {&sharing.Grant{FleetTokens: 10, Until: time.Unix(1, 0)}, true, awsretry.StopQuota, 0},
		"before the first one":  {nil, true, awsretry.StopMaxAttempts, time.Second},
		"the first one is late": {nil, false, awsretry.StopQuota, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				tr := retrying(always(busy))
				tr.Shared, tr.Backoff, tr.MaxAttempts = s, contract.Delay(time.Second), 2
				s.join = func(share sharing.Share) {
					share.TakeTokens(1 << 30)
					if test.give {
						time.AfterFunc(500*time.Millisecond, func() { share.AddTokens(5) })
					}
					if g := test.grant; g != nil {
						if g.Until.IsZero() {
							g.Until = time.Now().Add(time.Minute)
						}
						share.Grant(*g)
					}
				}
				start := time.Now()
				resp, err := get(t, tr)
				if stop, took := contract.StopOf(resp, err), time.Since(start); stop != test.want || took != test.took {
					t.Errorf("%v after %v (%v), want %v after %v", stop, took, err, test.want, test.took)
				}
			})
		})
	}
}

// A grant paces the process until its end. Then the process goes on by itself,
// at its part of the rate of all.
func TestSharedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		throttling := false
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			if throttling {
				return throttled(req, http.NoBody)
			}
			return ok(req, http.NoBody)
		})
		tr.Mode, tr.Shared = awsretry.Adaptive, s
		sendGet(t, tr).response(t)
		send := func(n int) time.Duration {
			start := time.Now()
			for range n {
				sendGet(t, tr).response(t)
			}
			return time.Since(start)
		}
		if took := send(100); took != 0 {
			t.Errorf("without a rate 100 requests took %v", took)
		}
		share := s.shares[0]
		grant := func(g sharing.Grant) {
			g.Until = time.Now().Add(10 * time.Second)
			share.Grant(g)
		}
		grant(sharing.Grant{Limited: true, Rate: 5, FleetRate: 8, Members: 4, FirstToken: 0.5})
		grant(sharing.Grant{Limited: true, Rate: 5, FleetRate: 8, Members: 4, FirstToken: 0.5})
		if took := send(11).Round(time.Millisecond); took != 2100*time.Millisecond {
			t.Errorf("at 5/s 11 requests took %v, want 2.2s less half a token, once", took)
		}
		if state, _ := tr.State("service.example"); !state.Leased || state.Members != 4 || state.FleetRate != 8 {
			t.Errorf("%+v", state)
		}
		usage := share.Usage()
		if usage.Accepted+usage.AcceptedBefore != 112 || usage.Throttled != 0 {
			t.Errorf("%+v", usage)
		}

		time.Sleep(11 * time.Second)
		if state, _ := tr.State("service.example"); state.Leased {
			t.Error("the lease has not ended")
		}
		// 8/s of four: this one goes on at 2/s, and the law of the AWS SDKs
		// raises that.
		grant(sharing.Grant{Limited: true, Rate: 2, FleetRate: 8, Members: 4})
		time.Sleep(11 * time.Second)
		if took := send(5); took < time.Second || took > 3*time.Second {
			t.Errorf("alone 5 requests took %v", took)
		}
		throttling = true
		get(t, tr)
		if state, _ := tr.State("service.example"); state.SendRate > 3 {
			t.Errorf("after throttling alone: %+v", state)
		}
		throttling = false
		grant(sharing.Grant{Limited: true, Rate: 1000, FleetRate: 8, Members: 4})
		grant(sharing.Grant{})
		if took := send(5); took < time.Second || took > 3*time.Second {
			t.Errorf("a fleet that has lost its rate: 5 requests took %v", took)
		}
	})
}

// With slots, requests are sent in them, and not once they have passed. A
// process without a lease keeps the rate that it may have alone.
func TestSharedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		tr := retrying(func(req *http.Request) (*http.Response, error) { return ok(req, http.NoBody) })
		tr.Mode, tr.Shared = awsretry.Adaptive, s
		sendGet(t, tr).response(t)
		share, begin := s.shares[0], time.Now()
		took := func(n int) time.Duration {
			start := time.Now()
			for range n {
				sendGet(t, tr).response(t)
			}
			return time.Since(start).Round(time.Millisecond)
		}
		share.Alone(2)
		if got := took(3); got != 1500*time.Millisecond {
			t.Errorf("alone at 2/s, 3 requests took %v", got)
		}
		grant := func(first time.Duration, n int) {
			share.Grant(sharing.Grant{
				Until: time.Now().Add(10 * time.Second), Limited: true, Rate: 5, FleetRate: 100, Members: 20, AloneAtMost: 4,
				FirstSlot: time.Now().Add(first), Every: 100 * time.Millisecond, Slots: n,
			})
		}
		grant(time.Second, 3)
		if n := share.Usage().SendTokens; n != 3 {
			t.Errorf("%v slots are ahead", n)
		}
		if got := took(2); got != 1100*time.Millisecond {
			t.Errorf("two slots took %v", got)
		}
		time.Sleep(120 * time.Millisecond) // the third slot is 20 ms old
		grant(50*time.Millisecond, 1)
		if got := took(1); got != 50*time.Millisecond {
			t.Errorf("a slot took %v", got)
		}
		var wake int
		select {
		case <-share.Wake():
			wake++
		default:
		}
		done := make(chan time.Duration)
		go func() { done <- took(1) }()
		synctest.Wait()
		select {
		case <-share.Wake():
			wake++
		default:
		}
		if state, _ := tr.State("service.example"); wake == 0 || state.Waiting != 1 || state.ExpectedWait <= 200*time.Millisecond {
			t.Errorf("a request without a slot: %d signals and %+v", wake, state)
		}
		grant(0, 1)
		if got := <-done; got != 0 {
			t.Errorf("it took %v", got)
		}
		time.Sleep(time.Until(begin.Add(time.Minute)))
		if got := took(5); got < time.Second || got > 2*time.Second {
			t.Errorf("alone at 4/s, 5 requests took %v", got)
		}
	})
}

// Before its first lease a process keeps the first rate, however many requests
// come at once.
func TestSharedFirstRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(func(req *http.Request) (*http.Response, error) { return ok(req, http.NoBody) })
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

// A cut tells outcomes of requests that were sent before it from others.
func TestSharedCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		tr := once(func(req *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return throttled(req, http.NoBody)
		})
		tr.Mode, tr.Shared = awsretry.Adaptive, s
		done := make(chan bool)
		go func() { get(t, tr); done <- true }()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait() // for the race detector
		s.shares[0].Grant(sharing.Grant{
			Until: time.Now().Add(time.Hour), Limited: true, Rate: 1000, Cut: time.Now(),
		})
		<-done
		if u := s.shares[0].Usage(); u.ThrottledBefore != 1 || u.Throttled != 0 {
			t.Errorf("sent before the cut: %+v", u)
		}
		get(t, tr)
		if u := s.shares[0].Usage(); u.ThrottledBefore != 0 || u.Throttled != 1 || u.ThrottledTrips != (pacing.Trips{Sum: time.Second, Of: 1}) {
			t.Errorf("sent after the cut: %+v", u)
		}
	})
}

// A shared Retry-After reaches the store and comes from it.
func TestSharedRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		tr := once(always(responds(503, "Retry-After", "30")))
		tr.Shared, tr.ShareRetryAfter, tr.RetryAfterSpread = s, true, -1
		get(t, tr)
		share := s.shares[0]
		if u := share.Usage(); u.RetryAfter != 30*time.Second {
			t.Errorf("%+v", u)
		}
		if !awake(share) {
			t.Error("the store was not woken")
		}
		share.Grant(sharing.Grant{RetryAfter: 40 * time.Second})
		sendGet(t, tr).want(t, 503, awsretry.StopMaxAttempts, 40*time.Second)
	})
}
