package contract_test

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/sharing"
)

// getOf sends a GET of the named partition through rt.
func getOf(t *testing.T, rt http.RoundTripper, partition string) (*http.Response, error) {
	t.Helper()
	ctx := awsretry.WithPartition(t.Context(), partition)
	return rt.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
}

// Only a Transport that has something to share joins.
func TestSharedNothing(t *testing.T) {
	noQuota := awsretry.QuotaConfig{Capacity: -1}
	for _, tt := range []struct {
		name string
		tr   *transport
		want int
	}{
		{"standard", &transport{}, 1},
		{"standard without a quota", &transport{Quota: noQuota}, 0},
		{"adaptive without a quota", &transport{Mode: awsretry.Adaptive, Quota: noQuota}, 1},
		{"a Retry-After", &transport{Quota: noQuota, ShareRetryAfter: true}, 1},
		{"legacy", &transport{Mode: awsretry.Legacy}, 0},
		{"legacy with a Retry-After", &transport{Mode: awsretry.Legacy, ShareRetryAfter: true}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{}
			tt.tr.Base, tt.tr.Shared = always(ok), s
			if _, err := get(t, tt.tr); err != nil || len(s.shares) != tt.want {
				t.Errorf("%d partitions have joined, %v", len(s.shares), err)
			}
			if tt.tr.Quota == noQuota && len(s.shares) > 0 {
				if n, _, ok := s.shares[0].RetryTokens(); n != 0 || ok || s.shares[0].FirstTokens() != 0 {
					t.Errorf("%d retry tokens, %v", n, ok)
				}
			}
		})
	}
}

// A share does not keep its Transport, also if a hook refers to that.
func TestSharedKeepsNoTransport(t *testing.T) {
	for name, hook := range map[string]func(*transport){
		"no hook":   func(*transport) {},
		"Observe":   func(tr *transport) { tr.Observe = func(awsretry.Attempt) { runtime.KeepAlive(tr) } },
		"Partition": func(tr *transport) { tr.Partition = func(*http.Request) string { return string(tr.Mode) } },
		"Policy": func(tr *transport) {
			tr.Policy = func(*awsretry.Attempt) awsretry.Class { runtime.KeepAlive(tr); return awsretry.Success }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{}
			func() {
				tr := &transport{Base: always(ok), Mode: awsretry.Adaptive, Shared: s, ShareRetryAfter: true}
				hook(tr)
				sendGet(t, tr).response(t)
				s.shares[0].Grant(sharing.Grant{Until: time.Now().Add(time.Hour), Limited: true, Rate: 1})
			}()
			for range 100 {
				runtime.GC()
				if s.shares[0].Dropped() {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if !s.shares[0].Dropped() {
				t.Error("it is not dropped")
			}
			s.shares[0].Usage() // nothing is left to report
			s.shares[0].Grant(sharing.Grant{RetryAfter: time.Second})
		})
	}
}

// A partition that replaces another one begins with the tokens that the fleet of
// that one had left. What one gives back later is not the other's.
func TestSharedFirstTokens(t *testing.T) {
	s := &store{}
	tr := retrying(always(ok))
	tr.Shared, tr.MaxPartitions = s, 1
	begin := func(name string) sharing.Share {
		t.Helper()
		if _, err := getOf(t, tr, name); err != nil {
			t.Fatal(err)
		}
		return s.shares[len(s.shares)-1]
	}
	a := begin("a")
	if got := a.FirstTokens(); got != 500 {
		t.Errorf("the first one has %d", got)
	}
	a.TakeTokens(490)
	a.Grant(sharing.Grant{Until: time.Now().Add(time.Hour), FleetTokens: 200})
	if state, _ := tr.State("a"); state.Tokens != 10 || state.FleetTokens != 200 {
		t.Errorf("%+v", state)
	}
	awake(a)

	b := begin("b")
	if first, own := b.FirstTokens(), b.Usage().Tokens; first != 210 || own != 11 { // one of the success
		t.Errorf("the second one has %d, and %d of its own", first, own)
	}
	if !a.Dropped() || !awake(a) {
		t.Error("the store was not woken for the partition that was dropped")
	}
	if took := a.TakeTokens(500); took != 10 {
		t.Errorf("%d tokens are given back", took)
	}
	b.TakeTokens(8)

	c := begin("c") // b has no grant yet
	if first, own := c.FirstTokens(), c.Usage().Tokens; first != 3 || own != 4 {
		t.Errorf("the third one has %d, and %d of its own", first, own)
	}
}

// Partitions that are as good as new are replaced first, although their bucket
// is with the fleet.
func TestSharedFresh(t *testing.T) {
	s := &store{join: func(share sharing.Share) {
		share.TakeTokens(500)
		share.AddTokens(10)
		share.Grant(sharing.Grant{Until: time.Now().Add(time.Hour), FleetTokens: 490})
	}}
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		if awsretry.AttemptNumber(req.Context()) == 1 && req.Method == "PUT" {
			return throttled(req, http.NoBody)
		}
		return ok(req, http.NoBody)
	})
	tr.Mode, tr.Shared, tr.MaxPartitions = awsretry.Adaptive, s, 3
	ctx := awsretry.WithPartition(t.Context(), "throttled")
	send(tr, httpfake.Request(t, ctx, "PUT", nil)).response(t)
	for i := range 5 {
		if _, err := getOf(t, tr, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := tr.State("throttled"); !ok {
		t.Error("the partition that is throttled was replaced")
	}
}

// The limiter of an extra partition may be looked at when that becomes a shared
// one. The race detector judges.
func TestSharedExtra(t *testing.T) {
	for range 20 {
		s := &store{}
		held, hold := make(chan bool), make(chan bool)
		tr := once(func(req *http.Request) (*http.Response, error) {
			if req.Method == "GET" {
				return throttled(req, http.NoBody)
			}
			held <- true
			<-hold
			return ok(req, http.NoBody)
		})
		tr.Mode, tr.Shared, tr.MaxPartitions = awsretry.Adaptive, s, 1
		var all sync.WaitGroup
		all.Go(func() {
			_, _ = tr.RoundTrip(httpfake.Request(t, awsretry.WithPartition(t.Context(), "held"), "PUT", nil))
		})
		<-held
		extra := make(chan bool)
		all.Go(func() {
			_, _ = tr.RoundTrip(httpfake.Request(t, awsretry.WithPartition(t.Context(), "extra"), "PUT", nil))
			close(extra)
		})
		<-held
		all.Go(func() {
			for looking := true; looking; {
				select {
				case <-extra:
					looking = false
				default:
					tr.State("extra")
				}
			}
		})
		_, _ = getOf(t, tr, "extra")
		close(hold)
		all.Wait()
	}
}

// A Retry-After of another process that is longer than MaxRetryAfter is ignored,
// as this process's own is.
func TestSharedMaxRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		tr := once(always(ok))
		tr.Shared, tr.ShareRetryAfter, tr.MaxRetryAfter, tr.RetryAfterSpread = s, true, 2*time.Second, -1
		for _, tt := range []struct{ asked, want time.Duration }{
			{0, 0}, {2 * time.Second, 2 * time.Second}, {2*time.Second + 1, 0}, {10 * time.Minute, 0},
		} {
			if len(s.shares) > 0 {
				s.shares[0].Grant(sharing.Grant{RetryAfter: tt.asked})
			}
			sendGet(t, tr).want(t, 200, "", tt.want)
		}
	})
}

// awake reports whether share has been woken since the last call.
func awake(share sharing.Share) bool {
	select {
	case <-share.Wake():
		return true
	default:
		return false
	}
}

// What the fleet should know at once wakes the store, and nothing else does.
func TestSharedWake(t *testing.T) {
	const lease = 10 * time.Second
	for _, tt := range []struct {
		name    string
		rate    float64       // granted; 0 for no limit
		after   time.Duration // how long after the grant
		limit   awsretry.RateLimitConfig
		base    httpfake.Base
		timeout time.Duration
		want    bool
		notSent int // how many of the requests
	}{
		{name: "a success", base: always(ok)},
		{name: "a success at a limited rate", rate: 1, after: 2 * time.Second, base: always(ok)},
		{name: "a permanent failure", base: always(responds(400))},
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
			s := &store{}
			base := always(ok)
			tr := retrying(func(req *http.Request) (*http.Response, error) { return base(req) })
			tr.Mode, tr.RateLimit, tr.MaxAttempts, tr.Shared = awsretry.Adaptive, tt.limit, 2, s
			sendGet(t, tr).response(t)
			share := s.shares[0]
			grant := sharing.Grant{
				Until: time.Now().Add(lease), Limited: tt.rate > 0, Rate: tt.rate, FleetRate: tt.rate, Members: 1,
			}
			share.Grant(grant)
			for range 2 { // until no token is left
				time.Sleep(time.Minute)
				grant.Until = time.Now().Add(lease)
				share.Grant(grant)
				_, _ = get(t, tr)
			}
			awake(share)
			share.Usage()

			time.Sleep(tt.after)
			base = tt.base
			ctx := within(t, tt.timeout)
			_, err := tr.RoundTrip(httpfake.Request(t, ctx, "GET", nil))
			if refused := errors.Is(err, awsretry.ErrRateLimited); refused != (tt.notSent > 0) {
				t.Errorf("%v", err)
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
