package awsretry_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"github.com/google/go-cmp/cmp"
)

func names(tr *awsretry.Transport) []string {
	var all []string
	for name := range tr.Partitions() {
		all = append(all, name)
	}
	return all
}

func TestPartitionNames(t *testing.T) {
	get := func(url string) *http.Request {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	byPath := func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") }
	tests := []struct {
		name      string
		partition func(*http.Request) string
		req       *http.Request
		want      string
	}{
		{"host", nil, get("http://one.example/x"), "one.example"},
		{"host with port", nil, get("http://one.example:8080/x"), "one.example:8080"},
		{"host in capitals", nil, get("http://One.EXAMPLE/x"), "one.example"},
		{"user is left out", nil, get("http://user:secret@one.example/x"), "one.example"},
		{"function", byPath, get("http://one.example/table"), "table"},
		{"context", byPath, get("http://one.example/table").WithContext(awsretry.WithPartition(t.Context(), "mine")), "mine"},
		{"empty in the context", byPath, get("http://one.example/table").WithContext(awsretry.WithPartition(t.Context(), "")), ""},
		{"inner context", nil, get("http://one.example").WithContext(awsretry.WithPartition(awsretry.WithPartition(t.Context(), "outer"), "inner")), "inner"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := &awsretry.Transport{Base: answering(200), Partition: tt.partition}
			if _, err := tr.RoundTrip(tt.req); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, names(tr)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if state, ok := tr.State(tt.want); !ok || state.Tokens != 500 {
				t.Errorf("state %+v, %v", state, ok)
			}
		})
	}
}

func TestPartitionsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := awsretry.WithPartition(t.Context(), "bad")
		tr := &awsretry.Transport{
			Mode: awsretry.Adaptive, Backoff: awsretry.BackoffFunc(noPause), Quota: awsretry.QuotaConfig{Capacity: 20},
			Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Table") == "bad" {
					return answer(429, ""), nil
				}
				return answer(200, ""), nil
			}),
		}
		for range 3 {
			req := newRequest(t, "GET", nil).WithContext(bad)
			req.Header.Set("Table", "bad")
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}
		if state, _ := tr.State("bad"); state.Tokens != 0 || !state.Limited {
			t.Errorf("the throttled partition: %+v", state)
		}
		start := time.Now()
		for range 1000 {
			if resp, err := get(t, tr); err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
		}
		if state, _ := tr.State("service.example"); state.Tokens != 20 || state.Limited || time.Since(start) != 0 {
			t.Errorf("the other partition: %+v after %v", state, time.Since(start))
		}
	})
}

func TestLeastRecentlyUsedPartitionGoesFirst(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200), MaxPartitions: 2}
	use := func(name string) {
		t.Helper()
		if _, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(awsretry.WithPartition(t.Context(), name))); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		use  string
		want []string
	}{
		{"a", []string{"a"}},
		{"b", []string{"b", "a"}},
		{"a", []string{"a", "b"}},
		{"c", []string{"c", "a"}},
		{"c", []string{"c", "a"}},
		{"d", []string{"d", "c"}},
	}
	for _, step := range steps {
		use(step.use)
		if diff := cmp.Diff(step.want, names(tr)); diff != "" {
			t.Fatalf("after %q (-want +got):\n%s", step.use, diff)
		}
	}
	if _, ok := tr.State("a"); ok {
		t.Error("a is still there")
	}
	for range tr.Partitions() {
		break
	}
}

func TestPartitionsAreBounded(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200)}
	for i := range 3000 {
		req := newRequest(t, "GET", nil)
		req.URL.Host = fmt.Sprint("host", i)
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(names(tr)); got != 1024 {
		t.Errorf("%d partitions, want 1024", got)
	}
}

func TestNoPartitionsBeforeTheFirstRequest(t *testing.T) {
	var tr awsretry.Transport
	if _, ok := tr.State("x"); ok || len(names(&tr)) != 0 {
		t.Error("there are some")
	}
}

func TestPartitionsInParallel(t *testing.T) {
	tr := &awsretry.Transport{Base: sequence(200), MaxPartitions: 8, Mode: awsretry.Adaptive}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 50 {
				req := newRequest(t, "GET", nil)
				req.URL.Host = fmt.Sprint("host", (g+i)%16)
				if _, err := tr.RoundTrip(req); err != nil {
					t.Error(err)
				}
				for name, state := range tr.Partitions() {
					if state.Tokens != 500 {
						t.Errorf("%s: %+v", name, state)
					}
				}
			}
		})
	}
	wg.Wait()
	if got := len(names(tr)); got != 8 {
		t.Errorf("%d partitions, want 8", got)
	}
}

func TestLookingUpAPartitionAllocatesNothing(t *testing.T) {
	tr := &awsretry.Transport{Base: answering(200)}
	one, other := newRequest(t, "GET", nil), newRequest(t, "GET", nil)
	other.URL.Host = "other.example"
	if got := testing.AllocsPerRun(1000, func() { tr.RoundTrip(one); tr.RoundTrip(other) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// The record of an attempt names its partition, to a policy, to an observer and to Outcome, after a success as after a failure.
func TestAttemptsNameTheirPartition(t *testing.T) {
	for _, statuses := range [][]int{{503, 200}, {503, 503}, {503, 404}} {
		var seen []string
		note := func(a *awsretry.Attempt) { seen = append(seen, a.Partition) }
		plain := awsretry.Transport{Base: answering(statuses...), Backoff: awsretry.BackoffFunc(noPause), MaxAttempts: 2}
		observed := awsretry.Transport{
			Base: answering(statuses...), Backoff: awsretry.BackoffFunc(noPause), MaxAttempts: 2,
			Observe: func(a awsretry.Attempt) { note(&a) },
			Policy:  func(a *awsretry.Attempt) awsretry.Class { note(a); return awsretry.DefaultPolicy(a) },
		}
		for _, tr := range []*awsretry.Transport{&plain, &observed} {
			for _, request := range []struct {
				ctx  context.Context
				want string
			}{
				{t.Context(), "service.example"},
				{awsretry.WithPartition(t.Context(), "Table"), "Table"},
			} {
				seen = nil
				resp, err := tr.RoundTrip(newRequest(t, "GET", nil).WithContext(request.ctx))
				if err != nil {
					t.Fatal(err)
				}
				last, ok := awsretry.Outcome(resp)
				if !ok || last.Partition != request.want {
					t.Errorf("%v: Outcome says %q, %v; want %q", statuses, last.Partition, ok, request.want)
				}
				want := slices.Repeat([]string{request.want}, len(seen))
				if tr == &observed && len(seen) != 4 || !slices.Equal(seen, want) {
					t.Errorf("%v: seen are %q, want %q each time", statuses, seen, request.want)
				}
			}
		}
	}
}

// An outage of more services than fit costs hardly more retries than one of as many as fit.
func TestOutageOfMoreServicesThanFit(t *testing.T) {
	const hosts, requests = 5, 5000
	tests := []struct {
		name    string
		tr      awsretry.Transport
		callers int
		most    int // attempts
	}{
		{"all fit", awsretry.Transport{MaxPartitions: 5}, 1, 5500},
		{"standard", awsretry.Transport{MaxPartitions: 4}, 1, 5400},
		{"one fits", awsretry.Transport{MaxPartitions: 1}, 1, 5100},
		{"Revision2026", awsretry.Transport{MaxPartitions: 4, Revision: awsretry.Revision2026}, 1, 5144},
		{"adaptive", awsretry.Transport{MaxPartitions: 4, Mode: awsretry.Adaptive}, 1, 5400},
		{"slow refill, many callers", awsretry.Transport{MaxPartitions: 4, Quota: awsretry.QuotaConfig{RefillPerSecond: 1e-6}}, 50, 5400},
		{"standard, many callers", awsretry.Transport{MaxPartitions: 4}, 50, 5400},
		{"adaptive, many callers", awsretry.Transport{MaxPartitions: 4, Mode: awsretry.Adaptive}, 50, 5400},
		{"adaptive, a caller for each", awsretry.Transport{MaxPartitions: 4, Mode: awsretry.Adaptive}, hosts, 5400},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int32
				tt.tr.Base = roundTripper(func(*http.Request) (*http.Response, error) {
					attempts.Add(1)
					time.Sleep(10 * time.Millisecond)
					return answer(503, ""), nil
				})
				var wg sync.WaitGroup
				for caller := range tt.callers {
					wg.Go(func() {
						for i := range requests / tt.callers {
							req := newRequest(t, "GET", nil)
							host := (caller + i) % hosts
							if tt.callers == hosts {
								host = caller
							}
							req.URL.Host = fmt.Sprint("host", host)
							if _, err := tt.tr.RoundTrip(req); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				if got := int(attempts.Load()); got < requests || got > tt.most {
					t.Errorf("%d attempts, want %d at most", got, tt.most)
				}
				if got := len(names(&tt.tr)); got != tt.tr.MaxPartitions {
					t.Errorf("%d partitions, want %d", got, tt.tr.MaxPartitions)
				}
			})
		})
	}
}

// One service's outage takes no retries from others, though all of them together are more than fit.
func TestOutageOfOneOfManyServices(t *testing.T) {
	tr := &awsretry.Transport{MaxPartitions: 4, Backoff: awsretry.BackoffFunc(noPause)}
	failures, attempts := 0, 0 // of the host that is down
	stumbles := 0
	tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		switch {
		case req.URL.Host == "down":
			attempts++
			return answer(503, ""), nil
		case stumbles%100 == 1: // every hundredth answer of the others, which a retry mends
			stumbles++
			return answer(503, ""), nil
		}
		stumbles++
		return answer(200, ""), nil
	})
	for i := range 2000 {
		for _, host := range []string{"down", "a", "b", "c", "d", "e", "f", fmt.Sprint("once", i)} {
			req := newRequest(t, "GET", nil)
			req.URL.Host = host
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 {
				if failures++; host != "down" {
					t.Fatalf("round %d: %s got %d", i, host, resp.StatusCode)
				}
			}
		}
	}
	if failures != 2000 || attempts != 2100 {
		t.Errorf("the host that is down was asked %d times for %d failures, want 2100 for 2000", attempts, failures)
	}
}

// Those who wait in the line of a partition are not overtaken, however many other partitions are used meanwhile.
func TestLineIsNotOvertakenThroughASuccessor(t *testing.T) {
	for _, tr := range []*awsretry.Transport{
		{Mode: awsretry.Adaptive, MaxPartitions: 2, MaxAttempts: 1},
		{MaxPartitions: 2, MaxAttempts: 1, Quota: awsretry.QuotaConfig{Capacity: 5, InitialCost: 5, SuccessIncrement: -1, RefillPerSecond: 2.5, Wait: true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var served []string
			tr.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				served = append(served, req.Header.Get("Caller"))
				if req.Header.Get("Caller") == "first" {
					return answer(429, ""), nil
				}
				return answer(200, ""), nil
			})
			var wg sync.WaitGroup
			call := func(host, caller string) {
				wg.Go(func() {
					req := newRequest(t, "GET", nil)
					req.URL.Host = host
					req.Header.Set("Caller", caller)
					if _, err := tr.RoundTrip(req); err != nil {
						t.Error(err)
					}
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
			wg.Wait()
			served = slices.DeleteFunc(served, func(caller string) bool { return caller == "first" || caller == "other" })
			if !slices.Equal(served, want) {
				t.Errorf("served in the order %q", served)
			}
			if got := len(names(tr)); got != 2 {
				t.Errorf("%d partitions, want 2", got)
			}
		})
	}
}

// A name of any length costs no more than 255 bytes of memory, and is found by itself and by the name that is listed.
func TestPartitionNamesAreBounded(t *testing.T) {
	long := strings.Repeat("Long.", 200_000)
	tr := &awsretry.Transport{Base: answering(200)}
	for _, host := range []string{long + "1", long + "2"} {
		req := newRequest(t, "GET", nil)
		req.URL.Host = host
		var seen string
		ctx := awsretry.WithObserver(t.Context(), func(a awsretry.Attempt) { seen = a.Partition })
		for _, ctx := range []context.Context{ctx, t.Context(), awsretry.WithPartition(t.Context(), host)} {
			if _, err := tr.RoundTrip(req.WithContext(ctx)); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := tr.State(strings.ToLower(host)); !ok {
			t.Error("the host's partition is not found")
		}
		if _, ok := tr.State(host); !ok {
			t.Error("the named partition is not found")
		}
		if _, ok := tr.State(seen); !ok || len(seen) != 255 || !strings.HasPrefix(seen, "long.long.") {
			t.Errorf("the record names %q", seen)
		}
	}
	all := names(tr)
	for _, name := range all {
		if _, ok := tr.State(name); !ok || len(name) > 255 {
			t.Errorf("%q is listed", name)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d partitions, want 4", len(all))
	}
}

// TestPastRetryAfterKeepsNoPartition: what a service asked for once does not
// hold its partition for ever.
func TestPastRetryAfterKeepsNoPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{ShareRetryAfter: true, MaxAttempts: 1, MaxPartitions: 2, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == "POST" {
				return respond(req, 503, http.NoBody, "Retry-After", "1"), nil
			}
			return respond(req, 200, http.NoBody), nil
		})}
		for _, u := range []struct{ partition, method string }{{"a", "POST"}, {"b", "GET"}, {"c", "GET"}} {
			if _, err := tr.RoundTrip(request(t, awsretry.WithPartition(t.Context(), u.partition), u.method, nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if _, ok := tr.State("b"); !ok {
			t.Error("b was dropped in place of a, which was used before it")
		}
	})
}
