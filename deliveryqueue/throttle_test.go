package deliveryqueue

import (
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"github.com/riverqueue/river"
)

// Turns are an interval apart, none is farther ahead than requested, and after a
// break or when the clock was set back the next one is now. An attempt whose turn
// is not near does not wait for it in a worker.
func TestTurns(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		own := rate{1, 1}
		take := func(ahead time.Duration) (time.Duration, bool) {
			t.Helper()
			wait, taken, err := q.store.takeTurn(t.Context(), "http://endpoint.test", own, ahead)
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
		if now, err := q.awaitTurn(t.Context(), own, "http://endpoint.test", health{}); now || err != nil {
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

// The throttle of an endpoint is that of its newest delivery that has one, unless it
// is set, and it counts deliveries that have none.
func TestThrottleIsTheEndpoints(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		const name = "http://endpoint.test"
		check(t, q.Pause(t.Context(), name)) // the endpoint has a row
		check(t, q.Resume(t.Context(), name))
		for i, tt := range []struct {
			own  rate
			set  int // before it; -1: not
			want int // per second, afterward
		}{
			{rate{}, -1, 0}, {rate{10, 5}, -1, 10}, {rate{}, -1, 10}, {rate{100, 4}, -1, 10}, {rate{5, 6}, -1, 5},
			{rate{100, 7}, 2, 2}, {rate{}, -1, 2}, {rate{}, 50, 50}, {rate{20, 8}, 0, 20}, {rate{}, 0, 0},
		} {
			if tt.set >= 0 {
				check(t, q.SetThrottle(t.Context(), name, tt.set))
			}
			execute(t, q.store.db, `UPDATE deliveryqueue_endpoint SET next_at = 0`)
			for range 2 { // the first one is now
				wait, taken, err := q.store.takeTurn(t.Context(), name, tt.own, time.Minute)
				check(t, err)
				want := time.Duration(0)
				if tt.want > 0 {
					want = time.Second / time.Duration(tt.want)
				}
				if !taken || wait > want {
					t.Errorf("%d: a turn in %v, %v", i, wait, taken)
				}
			}
			if got := endpoints(t, q)[name].PerSecond; got != tt.want {
				t.Errorf("%d: %d per second, want %d", i, got, tt.want)
			}
		}
		for _, bad := range []int{-1, maxPerSecond + 1} {
			if err := q.SetThrottle(t.Context(), name, bad); err == nil {
				t.Errorf("%d is accepted", bad)
			}
		}
	})
}

// A throttle that is set applies to deliveries that wait and have none, and not to
// those of other endpoints. It is kept although the endpoint is not used.
func TestSetThrottle(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		const rate, n = 20, 10
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		for range n {
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
			enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: throttle(t, 1000)})
			enqueue(t, q, post(t, end.URL, "other"), Options{Endpoint: "other"})
		}
		check(t, q.SetThrottle(t.Context(), end.URL, rate))
		check(t, q.store.forget(t.Context()))
		begin := time.Now()
		start(t, q)
		waitFor(t, q, Stats{Delivered: 3 * n})
		i := 0
		for _, r := range end.requests() {
			if r.body == "other" {
				continue
			}
			if took, least := r.at.Sub(begin), time.Duration(i)*time.Second/rate; took < least-5*time.Millisecond {
				t.Errorf("%d requests in %v, want at least %v", i+1, took, least)
			}
			i++
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

// An attempt whose turn is after the deadline is not made.
func TestTurnAfterTheDeadline(t *testing.T) {
	t.Parallel()
	q := open(t, newSQLite(t), Config{Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
		t.Error("an attempt was made")
		return httpfake.Empty(204, req), req.Body.Close()
	})})
	const name = "http://endpoint.test"
	check(t, q.SetThrottle(t.Context(), name, 1))
	id := enqueue(t, q, post(t, name, "hello"), Options{Deadline: time.Now().Add(early)})
	execute(t, q.store.db, `UPDATE deliveryqueue_endpoint SET next_at = `+q.store.micros()+` + 50000`)
	w := &worker{queue: q, fetcher: q.newFetcher(t.Context())}
	job := must[[]taken](t)(q.store.take(t.Context(), []candidate{{Endpoint: name, N: 1}}, "a client"))[0].job
	w.fetcher.ledger.enter(id, name, health{throttled: true}, time.Now())
	_ = w.Work(t.Context(), &river.Job[args]{JobRow: job, Args: args{job.EncodedArgs}})
	if d := get(t, q, id); d.State != Dead || d.Reason != string(awsretry.StopDeadline) {
		t.Errorf("%+v", d)
	}
}
