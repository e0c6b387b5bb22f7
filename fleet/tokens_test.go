package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
)

// A store that comes back empty gets the retry tokens that its fleet had left:
// at most a lease's worth for each process is there twice.
func TestTokensAfterRestart(t *testing.T) {
	store := storetest.Start(t)
	const processes, capacity, float, lease = 6, 300, 10, 200 * time.Millisecond
	down := true
	var mu sync.Mutex
	var transports []*awsretry.Transport
	for range processes {
		shared := fleet.New(dial(t, store.Addr), fleet.Config{Lease: lease})
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
	allLeased := func() bool {
		return !slices.ContainsFunc(transports, func(tr *awsretry.Transport) bool { return !leased(tr) })
	}
	stored := func() int {
		n, _ := strconv.ParseFloat(store.Do("HGET", "awsretry:{service.test}", "tokens"), 64)
		return int(n)
	}
	// total returns all tokens when renewals move none any more.
	total := func() (n int) {
		t.Helper()
		same, last := 0, -1
		eventually(t, "the tokens are settled", func() bool {
			time.Sleep(lease / 2)
			in, out := stored(), held()
			if n = in + out; n == last {
				same++
			} else {
				same, last = 0, n
			}
			return same == 5
		})
		return n
	}
	mu.Lock()
	down = false
	mu.Unlock()
	for _, tr := range transports {
		send(t, tr)
	}
	eventually(t, "all have leases", allLeased)
	if all := total(); all > capacity {
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
	before := total()
	store.Stop()
	eventually(t, "the leases end", func() bool { return !slices.ContainsFunc(transports, leased) })
	store.Restart()
	eventually(t, "all have leases again", allLeased)
	after := total()
	t.Logf("%d of %d tokens before, %d after", before, capacity, after)
	if after > min(before+processes*float, capacity) || before < 10 || before > capacity-30 {
		t.Errorf("%d of %d tokens before, %d after", before, capacity, after)
	}
}

// A ledger is a store of retry tokens whose replies may be lost.
type ledger struct {
	mu             sync.Mutex
	tokens, moved  int // moved is the most that one renewal moved
	applied, reply bool
}

func (l *ledger) Eval(_ context.Context, _ string, _, args []string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, _ := strconv.Atoi(args[argAsked])
	returned, _ := strconv.Atoi(args[argReturned])
	granted := 0
	if l.applied {
		l.tokens += returned
		granted = min(asked, l.tokens)
		l.tokens -= granted
		l.moved = max(l.moved, returned, granted)
	}
	if !l.reply {
		return nil, errors.New("boom")
	}
	return reply(map[int]string{replyTokens: strconv.Itoa(granted), replyLeft: strconv.Itoa(l.tokens)}), nil
}

// set says what the store does with a renewal. It returns the tokens that are
// in the store.
func (l *ledger) set(applied, reply bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applied, l.reply = applied, reply
	return l.tokens
}

func (l *ledger) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// While renewals fail, at most one of them moves retry tokens, whatever the
// store did with it.
func TestTokensOfFailedRenewals(t *testing.T) {
	for name, applied := range map[string]bool{"the store did nothing": false, "the reply is lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{tokens: 490, applied: true, reply: true}
				shared := fleet.New(l, fleet.Config{})
				var status atomic.Int64
				tr := &awsretry.Transport{
					Base: roundTripper(func(req *http.Request) (*http.Response, error) {
						return respond(int(status.Load()), 0).RoundTrip(req)
					}),
					Quota: awsretry.QuotaConfig{
						SuccessIncrement: -1,
					}, Backoff: awsretry.Decorrelated{Initial: time.Millisecond, Max: time.Millisecond},
					Shared: shared,
				}
				status.Store(200)
				send(t, tr)
				time.Sleep(time.Second)
				held := func() int {
					state, _ := tr.State("service.test")
					return state.Tokens
				}
				before := l.set(applied, false) + held()
				status.Store(503)
				for range 50 { // retries that cannot be paid ask for tokens
					send(t, tr)
					time.Sleep(100 * time.Millisecond)
				}
				spent := 10 // the bucket of this process, and no retry more
				after := l.set(true, true) + held()
				if moved := l.most(); before-after > spent+moved || after > before {
					t.Errorf("%d tokens before, %d after; one renewal moved at most %d", before, after, moved)
				}
				status.Store(200)
				time.Sleep(time.Second)
				if held() < 10 {
					t.Errorf("%d tokens after the store came back", held())
				}
				shared.Close()
			})
		})
	}
}
