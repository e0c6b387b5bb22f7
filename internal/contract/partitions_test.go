package contract_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// to returns a GET to a host.
func to(t testing.TB, host string) *http.Request {
	t.Helper()
	req := httpfake.Request(t, t.Context(), "GET", nil)
	req.URL.Host = host
	return req
}

func countPartitions(tr *transport) (n int) {
	for range tr.Partitions() {
		n++
	}
	return n
}

// The failures of one partition take no tokens from another, and do
// not delay it.
func TestPartitionsAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := retrying(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "bad.example" {
				return throttled(req, http.NoBody)
			}
			return ok(req, http.NoBody)
		})
		tr.Mode, tr.Quota.Capacity = awsretry.Adaptive, 20
		for range 3 {
			send(tr, to(t, "bad.example")).response(t)
		}
		if state, _ := tr.State("bad.example"); state.Tokens != 0 || !state.Limited {
			t.Errorf("the throttled partition: %+v", state)
		}
		for range 1000 {
			sendGet(t, tr).want(t, 200, "", 0)
		}
		if state, _ := tr.State("service.example"); state.Tokens != 20 || state.Limited {
			t.Errorf("the other partition: %+v", state)
		}
	})
}

// An outage of more services than MaxPartitions costs hardly more retries than
// one of as many as fit.
func TestOutageOfMoreServicesThanFit(t *testing.T) {
	const hosts, requests = 5, 5000
	for _, tt := range []struct {
		name    string
		fit     int // MaxPartitions
		change  func(*transport)
		callers int
		most    int // attempts
	}{
		{"all fit", 5, func(*transport) {}, 1, 5500},
		{"standard", 4, func(*transport) {}, 50, 5400},
		{"adaptive", 4, adaptive, 50, 5400},
		{"slow refill", 4, func(tr *transport) { tr.Quota.RefillPerSecond = 1e-6 }, 50, 5400},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var attempts atomic.Int32
			tr := &transport{MaxPartitions: tt.fit, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
				attempts.Add(1)
				time.Sleep(10 * time.Millisecond)
				return busy(req, http.NoBody)
			})}
			tt.change(tr)
			var all sync.WaitGroup
			for caller := range tt.callers {
				all.Go(func() {
					for i := range requests / tt.callers {
						send(tr, to(t, fmt.Sprint("host", (caller+i)%hosts))).wantBody(t, "")
					}
				})
			}
			all.Wait()
			if got := int(attempts.Load()); got < requests || got > tt.most {
				t.Errorf("%d attempts, want %d at most", got, tt.most)
			}
			if got := countPartitions(tr); got != tt.fit {
				t.Errorf("%d partitions, want %d", got, tt.fit)
			}
		})
	}
}

// No one overtakes those who wait in the line of a partition, however many
// other partitions are used meanwhile.
func TestLineIsNotOvertakenThroughASuccessor(t *testing.T) {
	slowQuota := quota{Capacity: 5, InitialCost: 5, SuccessIncrement: -1, RefillPerSecond: 2.5, Wait: true}
	for name, tr := range map[string]*transport{
		"send tokens":  {Mode: awsretry.Adaptive, MaxPartitions: 2, MaxAttempts: 1},
		"retry tokens": {Quota: slowQuota, MaxPartitions: 2, MaxAttempts: 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			var mu sync.Mutex
			var served []string
			tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				status := 200
				switch caller := req.Header.Get("Caller"); caller {
				case "first":
					status = 429
				case "other":
				default:
					served = append(served, caller)
				}
				return httpfake.Response(req, status, http.NoBody), nil
			})
			var all sync.WaitGroup
			call := func(host, caller string) {
				all.Go(func() {
					req := to(t, host)
					req.Header.Set("Caller", caller)
					send(tr, req).wantBody(t, "")
				})
				synctest.Wait()
			}
			call("busy", "first")
			var want []string
			for i := range 5 {
				call("busy", fmt.Sprint(i))
				want = append(want, fmt.Sprint(i))
				call(fmt.Sprint("one", i), "other")
				call(fmt.Sprint("two", i), "other")
			}
			all.Wait()
			if !slices.Equal(served, want) {
				t.Errorf("served in the order %q", served)
			}
			if got := countPartitions(tr); got != 2 {
				t.Errorf("%d partitions, want 2", got)
			}
		})
	}
}

// A Retry-After that is over does not keep its partition from being dropped.
func TestPastRetryAfterKeepsNoPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := once(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "a" {
				return httpfake.Response(req, 503, http.NoBody, "Retry-After", "1"), nil
			}
			return httpfake.Response(req, 200, http.NoBody), nil
		})
		tr.ShareRetryAfter, tr.MaxPartitions = true, 2
		for _, host := range []string{"a", "b", "c"} {
			send(tr, to(t, host)).response(t)
			time.Sleep(time.Minute)
		}
		if _, ok := tr.State("b"); !ok {
			t.Error("b was dropped instead of a, which was used before it")
		}
	})
}

// The record of every attempt names its partition.
func TestAttemptsNameTheirPartition(t *testing.T) {
	for want, ctx := range map[string]context.Context{
		"service.example": t.Context(),
		"Table":           awsretry.WithPartition(t.Context(), "Table"),
	} {
		var seen []string
		tr := retrying(httpfake.Statuses(503, 404))
		tr.Observe = func(a awsretry.Attempt) { seen = append(seen, a.Partition) }
		tr.Policy = func(a *awsretry.Attempt) awsretry.Class {
			seen = append(seen, a.Partition)
			return awsretry.DefaultPolicy(a)
		}
		resp := send(tr, httpfake.Request(t, ctx, "GET", nil)).response(t)
		if last, ok := awsretry.Outcome(resp); !ok || last.Partition != want {
			t.Errorf("Outcome says %q, %v; want %q", last.Partition, ok, want)
		}
		if !slices.Equal(seen, slices.Repeat([]string{want}, 4)) {
			t.Errorf("the policy and the observer saw %q, want %q", seen, want)
		}
	}
}
