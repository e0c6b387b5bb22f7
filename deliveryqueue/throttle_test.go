package deliveryqueue

import (
	"testing"
	"time"
)

// Turns are an interval apart, none is farther ahead than requested, and after a
// break or when the clock was set back the next one is now. An attempt whose turn
// is not near does not wait for it in a worker.
func TestTurns(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		take := func(ahead time.Duration) (time.Duration, bool) {
			t.Helper()
			wait, taken, err := q.store.takeTurn(t.Context(), "http://endpoint.test", 1, ahead)
			check(t, err)
			return wait.Round(time.Second), taken
		}
		for i := range 3 {
			if wait, taken := take(time.Minute); !taken || wait != time.Duration(i)*time.Second {
				t.Errorf("turn %d: in %v, %v", i, wait, taken)
			}
		}
		if wait, taken := take(time.Second); taken {
			t.Errorf("a turn in %v", wait)
		}
		if now, err := q.awaitTurn(t.Context(), throttle(t, 1), "http://endpoint.test", false); now || err != nil {
			t.Errorf("an attempt waited for its turn: %v, %v", now, err)
		}
		for what, off := range map[string]string{"after a break": "- 60", "the clock was set back": "+ 7200"} {
			execute(t, q.store.db, `UPDATE deliveryqueue_endpoint SET next_at = next_at `+off+`000000`)
			if wait, taken := take(0); !taken || wait != 0 {
				t.Errorf("%s: in %v, %v", what, wait, taken)
			}
		}
	})
}

// Two processes that share only the store keep to the rate of an endpoint.
func TestThrottleOfManyProcesses(t *testing.T) {
	t.Parallel()
	const rate, n = 20, 20
	end, store := newEndpoint(t, 200), newSQLite(t)
	q := open(t, store, Config{})
	var items []Item
	for range n {
		items = append(items, Item{post(t, end.URL, "hello"), Options{Policy: throttle(t, rate)}})
	}
	for range 2 {
		process{Store: store, Workers: 4}.start(t)
	}
	enqueue(t, q, post(t, end.URL, "hello"), Options{})
	waitFor(t, q, Stats{Delivered: 1}) // so a process runs
	begin := time.Now()
	must[[]int64](t)(q.EnqueueMany(t.Context(), items))
	waitFor(t, q, Stats{Delivered: 1 + n})
	end.check(t, 1+n)
	// Requests may arrive late, but never early: on a busy machine the times
	// between them show nothing.
	for i, r := range end.requests()[1:] {
		if took, least := r.at.Sub(begin), time.Duration(i)*time.Second/rate; took < least-5*time.Millisecond {
			t.Errorf("%d requests in %v, want at least %v", i+1, took, least)
		}
	}
}
