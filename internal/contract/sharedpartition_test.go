package contract_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/admission"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/pacer"
)

// These tests are about when partitions begin and end to share their buckets.

// getOf sends a GET of the named partition through rt.
func getOf(t *testing.T, rt http.RoundTripper, partition string) result {
	t.Helper()
	return send(rt, httpfake.Request(t, awsretry.WithPartition(t.Context(), partition), "GET", nil))
}

// names returns the partitions that have joined.
func (s *store) names() (names []string) {
	for _, share := range s.shares {
		names = append(names, share.Partition())
	}
	return names
}

// Each partition joins once, and the Transport can be used while it does.
func TestSharedJoin(t *testing.T) {
	tr := retrying(always(ok))
	s := &store{join: func(share *admission.Share) {
		if _, ok := tr.State(share.Partition()); !ok || share.Dropped() {
			t.Errorf("there is no partition %q yet", share.Partition())
		}
	}}
	tr.Shared = s
	for range 3 {
		getOf(t, tr, "a").response(t)
		getOf(t, tr, "b").response(t)
	}
	if names := s.names(); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("joined %q", names)
	}
}

// Only a Transport that has something to share joins.
func TestSharedNothing(t *testing.T) {
	noQuota := quota{Capacity: -1}
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
		s := &store{}
		tt.tr.Base, tt.tr.Shared = always(ok), s
		if sendGet(t, tt.tr).response(t); len(s.shares) != tt.want {
			t.Errorf("%s: %d partitions have joined", tt.name, len(s.shares))
		}
		if tt.tr.Quota == noQuota && len(s.shares) > 0 {
			if n, _, _, ok := s.shares[0].RetryTokens(); n != 0 || ok || s.shares[0].FirstTokens() != 0 {
				t.Errorf("%s: %d retry tokens, %v", tt.name, n, ok)
			}
		}
	}
}

// joinPanics returns a store one of whose Joins panics.
func joinPanics(on int) *store {
	joins := 0
	return &store{join: func(*admission.Share) {
		if joins++; joins == on {
			panic("store")
		}
	}}
}

// wantPanic fails unless a request panics, or does not.
func wantPanic(t *testing.T, tr *transport, req *http.Request, want bool) {
	t.Helper()
	if _, _, panicked := tryRoundTrip(tr, req); panicked != want {
		t.Errorf("panicked: %v", panicked)
	}
}

// A panic in Join leaves no lock held, the next request joins, and the partition
// can be dropped.
func TestSharedPanics(t *testing.T) {
	tr, s := retrying(always(ok)), joinPanics(1)
	tr.Mode, tr.MaxPartitions, tr.Shared = awsretry.Adaptive, 1, s
	wantPanic(t, tr, to(t, "a.example"), true)
	wantPanic(t, tr, to(t, "a.example"), false)
	getOf(t, tr, "another")
	if names := s.names(); len(names) != 3 || !s.shares[1].Dropped() {
		t.Errorf("joined %q, and the first one is still there", names)
	}
}

// If Join panics when there is a response already, its body is closed.
func TestSharedPanicsLate(t *testing.T) {
	for _, outcome := range []outcome{ok, busy} {
		var last *httpfake.Body
		tr := once(func(req *http.Request) (*http.Response, error) {
			last = httpfake.NewBody(http.NoBody)
			return outcome(req, last)
		})
		tr.Shared = joinPanics(2)
		sendGet(t, tr).response(t)
		wantPanic(t, tr, to(t, "other.example"), true)
		wantClosed(t, last)
	}
}

// An extra partition that stays because it is throttled joins with the next
// request, not when it is released. It may be looked at meanwhile, of which the
// race detector judges.
func TestSharedExtraJoins(t *testing.T) {
	held, hold, released := make(chan bool), make(chan bool), make(chan bool)
	tr := once(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "held.example" {
			held <- true
			<-hold
			return ok(req, http.NoBody)
		}
		close(hold)
		<-released
		return throttled(req, http.NoBody)
	})
	s := joinPanics(2)
	tr.MaxPartitions, tr.Shared = 1, s
	failFast(tr)
	go func() {
		send(tr, to(t, "held.example"))
		close(released)
	}()
	<-held
	done := make(chan bool)
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				tr.State("extra.example")
			}
		}
	})
	for _, joins := range []bool{false, true, false} {
		wantPanic(t, tr, to(t, "extra.example"), joins)
	}
	close(done)
	looking.Wait()
	if names := s.names(); !slices.Equal(names, []string{"held.example", "extra.example", "extra.example"}) {
		t.Errorf("%q joined", names)
	}
}

// A share does not keep its Transport, also if its hooks refer to that.
func TestSharedKeepsNoTransport(t *testing.T) {
	share := func() *admission.Share {
		tr := &transport{Base: always(ok), Mode: awsretry.Adaptive, ShareRetryAfter: true}
		tr.Observe = func(awsretry.Attempt) { runtime.KeepAlive(tr) }
		tr.Partition = func(*http.Request) string { return string(tr.Mode) }
		tr.Policy = func(*awsretry.Attempt) awsretry.Class { runtime.KeepAlive(tr); return awsretry.Success }
		share := joined(t, tr)
		share.Grant(pacer.Grant{Until: time.Now().Add(time.Hour), Limited: true, Rate: 1})
		return share
	}()
	for range 100 {
		if runtime.GC(); share.Dropped() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !share.Dropped() {
		t.Error("it is not dropped")
	}
	share.Usage() // nothing is left to report
	share.Grant(pacer.Grant{RetryAfter: time.Second})
}

// A partition that replaces another one begins with the tokens that the fleet of
// that one had left. What one gives back later is not the other's.
func TestSharedFirstTokens(t *testing.T) {
	s := &store{}
	tr := retrying(always(ok))
	tr.Shared, tr.MaxPartitions = s, 1
	begin := func(name string, first, own int) *admission.Share {
		t.Helper()
		getOf(t, tr, name).response(t)
		share := s.shares[len(s.shares)-1]
		if f, o := share.FirstTokens(), share.Usage().Tokens; f != first || o != own {
			t.Errorf("%s has %d, and %d of its own; want %d and %d", name, f, o, first, own)
		}
		return share
	}
	a := begin("a", 500, 500)
	a.TakeTokens(490)
	a.Grant(pacer.Grant{Until: time.Now().Add(time.Hour), FleetTokens: 200})
	if state, _ := tr.State("a"); state.Tokens != 10 || state.Fleet.Tokens != 200 {
		t.Errorf("%+v", state)
	}
	awake(a)

	b := begin("b", 210, 11) // one of the success
	if !a.Dropped() || !awake(a) {
		t.Error("the store was not woken for the partition that was dropped")
	}
	if took := a.TakeTokens(500); took != 10 {
		t.Errorf("%d tokens are given back", took)
	}
	b.TakeTokens(8)
	begin("c", 3, 4) // b has no grant yet
}

// Partitions that are as good as new are replaced first, although their bucket
// is with the fleet.
func TestSharedFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := once(inTurn(throttled, ok))
		tr.Mode, tr.MaxPartitions = awsretry.Adaptive, 3
		tr.Shared = &store{join: func(share *admission.Share) {
			share.TakeTokens(500)
			share.AddTokens(10)
			share.Grant(pacer.Grant{Until: time.Now().Add(time.Hour), FleetTokens: 490})
		}}
		getOf(t, tr, "throttled").response(t)
		for i := range 5 {
			getOf(t, tr, fmt.Sprint(i)).response(t)
		}
		if _, ok := tr.State("throttled"); !ok {
			t.Error("the partition that is throttled was replaced")
		}
	})
}
