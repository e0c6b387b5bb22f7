package deliveryqueue

import "testing"

// A store that is put back at an older state under live workers gives IDs out
// again. What the workers were doing then changes none of the new deliveries.
func TestRestore(t *testing.T) {
	const n = 4
	onEach(t, func(t *testing.T, store string) {
		slow, other := newEndpoint(t, 204), newEndpoint(t, 204)
		slow.hold = make(chan struct{})
		q := open(t, store, Config{Workers: n, PerEndpoint: n})
		hasResponded(t, q, slow.URL)
		for range n {
			enqueue(t, q, post(t, slow.URL, "old"), Options{})
		}
		start(t, q)
		slow.wait(t, n)

		statements := []string{"TRUNCATE river_job RESTART IDENTITY"}
		if q.store.sqlite {
			statements = []string{"DELETE FROM river_job", "DELETE FROM sqlite_sequence WHERE name = 'river_job'"}
		}
		for _, statement := range statements {
			execute(t, q.store.db, statement)
		}
		for want := range n {
			if id := enqueue(t, q, post(t, other.URL, "new"), Options{}); id != int64(want+1) {
				t.Fatalf("the ID is %d, want %d again", id, want+1)
			}
		}
		close(slow.hold)
		other.wait(t, n)
		waitFor(t, q, Stats{Delivered: n})
	})
}

// A success that comes late wins over dead: the delivery was made.
func TestLateSuccess(t *testing.T) {
	onEach(t, func(t *testing.T, store string) {
		slow := newEndpoint(t, 204)
		slow.hold = make(chan struct{})
		q := open(t, store, Config{})
		startOne(t, q, slow)
		execute(t, q.store.db, "UPDATE river_job SET state = 'discarded', finalized_at = CURRENT_TIMESTAMP")
		close(slow.hold)
		waitFor(t, q, Stats{Delivered: 1})
	})
}
