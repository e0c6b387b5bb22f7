package fleet_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
)

// A store that comes back empty gets the retry tokens that its fleet had left:
// at most a lease's worth for each process is there twice.
func TestTokensAfterRestart(t *testing.T) {
	store := startStore(t)
	const processes, capacity, float = 6, 300, 10
	down := true
	var mu sync.Mutex
	var transports []*awsretry.Transport
	for range processes {
		shared := fleet.New(dial(t, store.addr), fleet.Config{Lease: 100 * time.Millisecond})
		t.Cleanup(func() { shared.Close() })
		tr := &awsretry.Transport{
			Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				status := 200
				if down {
					status = 503
				}
				mu.Unlock()
				return respond(status, 0).RoundTrip(r)
			}),
			Shared: shared, Quota: awsretry.QuotaConfig{Capacity: capacity, SuccessIncrement: -1},
			Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
		}
		transports = append(transports, tr)
	}
	held := func() int {
		n := 0
		for _, tr := range transports {
			state, _ := tr.State("service.test")
			n += state.Tokens
		}
		return n
	}
	leased := func() bool {
		for _, tr := range transports {
			if state, _ := tr.State("service.test"); !state.Leased {
				return false
			}
		}
		return true
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		for range 200 {
			if ok() {
				time.Sleep(150 * time.Millisecond) // the tokens that were asked for
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal(what)
	}
	stored := func() int {
		n, _ := strconv.ParseFloat(store.do("HGET", "awsretry:{service.test}", "tokens"), 64)
		return int(n)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	for _, tr := range transports {
		send(t, tr)
	}
	wait("no leases", leased)
	if all := stored() + held(); all > capacity {
		t.Errorf("%d tokens of %d at the start", all, capacity)
	}
	mu.Lock()
	down = true
	mu.Unlock()
	for range 3 { // requests that spend some
		for _, tr := range transports {
			send(t, tr)
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	before := stored() + held()
	store.stop()
	wait("the leases did not end", func() bool { return !leased() })
	store.start()
	wait("no leases again", leased)
	after := stored() + held()
	t.Logf("%d of %d tokens before, %d after", before, capacity, after)
	if after > min(before+processes*float, capacity) || before < 10 || before > capacity-30 {
		t.Errorf("%d of %d tokens before, %d after", before, capacity, after)
	}
}
