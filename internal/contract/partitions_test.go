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
	standard := func(*transport) {}
	revision2026 := func(tr *transport) { tr.Revision = awsretry.Revision2026 }
	slowRefill := func(tr *transport) { tr.Quota.RefillPerSecond = 1e-6 }
	for _, tt := range []struct {
		name    string
		fit     int // MaxPartitions
		change  func(*transport)
		callers int
		most    int // attempts
	}{
		{"all fit", 5, standard, 1, 5500},
		{"standard", 4, standard, 1, 5400},
		{"one fits", 1, standard, 1, 5100},
		{"Revision2026", 4, revision2026, 1, 5144},
		{"adaptive", 4, adaptive, 1, 5400},
		{"slow refill, many callers", 4, slowRefill, 50, 5400},
		{"standard, many callers", 4, standard, 50, 5400},
		{"adaptive, many callers", 4, adaptive, 50, 5400},
		{"adaptive, a caller for each", 4, adaptive, hosts, 5400},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			var attempts atomic.Int32
			tr := &transport{
				MaxPartitions: tt.fit,
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					attempts.Add(1)
					time.Sleep(10 * time.Millisecond)
					return httpfake.Response(req, 503, http.NoBody), nil
				}),
			}
			tt.change(tr)
			var all sync.WaitGroup
			for caller := range tt.callers {
				all.Go(func() {
					for i := range requests / tt.callers {
						host := (caller + i) % hosts
						if tt.callers == hosts {
							host = caller
						}
						send(tr, to(t, fmt.Sprint("host", host))).wantBody(t, "")
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

// The outage of one service takes no retries from others, even if all of them
// are more than fit.
func TestOutageOfOneOfManyServices(t *testing.T) {
	const rounds = 2000
	attempts, others := 0, 0
	tr := retrying(func(req *http.Request) (*http.Response, error) {
		if req.URL.Host == "down" {
			attempts++
			return httpfake.Response(req, 503, http.NoBody), nil
		}
		if others++; others%100 == 2 { // every hundredth response of the others, whose retry succeeds
			return httpfake.Response(req, 503, http.NoBody), nil
		}
		return httpfake.Response(req, 200, http.NoBody), nil
	})
	tr.MaxPartitions = 4
	for i := range rounds {
		for _, host := range []string{"down", "a", "b", "c", "d", "e", "f", fmt.Sprint("once", i)} {
			resp := send(tr, to(t, host)).response(t)
			if failed := resp.StatusCode != 200; failed != (host == "down") {
				t.Fatalf("round %d: %s got %d", i, host, resp.StatusCode)
			}
		}
	}
	if attempts != rounds+100 {
		t.Errorf("%d attempts for %d requests to the host that is down, want %d", attempts, rounds, rounds+100)
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
	for _, statuses := range [][]int{{503, 200}, {503, 503}, {503, 404}} {
		for want, ctx := range map[string]context.Context{
			"service.example": t.Context(),
			"Table":           awsretry.WithPartition(t.Context(), "Table"),
		} {
			var seen []string
			plain, observed := retrying(httpfake.Statuses(statuses...)), retrying(httpfake.Statuses(statuses...))
			observed.Observe = func(a awsretry.Attempt) { seen = append(seen, a.Partition) }
			observed.Policy = func(a *awsretry.Attempt) awsretry.Class {
				seen = append(seen, a.Partition)
				return awsretry.DefaultPolicy(a)
			}
			for _, tr := range []*transport{plain, observed} {
				tr.MaxAttempts = 2
				resp := send(tr, httpfake.Request(t, ctx, "GET", nil)).response(t)
				if last, ok := awsretry.Outcome(resp); !ok || last.Partition != want {
					t.Errorf("%v: Outcome says %q, %v; want %q", statuses, last.Partition, ok, want)
				}
			}
			if !slices.Equal(seen, slices.Repeat([]string{want}, 4)) {
				t.Errorf("%v: the policy and the observer saw %q, want %q", statuses, seen, want)
			}
		}
	}
}
