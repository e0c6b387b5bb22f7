package deliveryqueue

import (
	"database/sql"
	"testing"
	"time"
)

// What River's web UI does to deliveries. It uses these methods of River's client.
func TestRiverUI(t *testing.T) {
	t.Parallel()
	dies, waits := newEndpoint(t, 503), newEndpoint(t, 503, 200)
	q := open(t, newSQLite(t), Config{})
	dead := enqueue(t, q, post(t, dies.URL, "hello"), Options{Policy: retries(t, 0), IdempotencyKey: "dies"})
	waiting := enqueue(t, q, post(t, waits.URL, "hello"), Options{IdempotencyKey: "waits", Policy: parse(t,
		`{"healthyRetryPolicy": {"numRetries": 1, "minDelayTarget": 60, "maxDelayTarget": 60}}`)})
	start(t, q)
	waits.wait(t, 1)
	waitFor(t, q, Stats{Waiting: 1, Dead: 1})

	// Retry now.
	client := q.store.jobs.(*riverJobs[*sql.Tx]).client
	for _, id := range []int64{dead, waiting} {
		_, err := client.JobRetry(t.Context(), id)
		check(t, err)
	}
	dies.wait(t, 2)
	waitFor(t, q, Stats{Delivered: 1, Dead: 1})
	for id, end := range map[int64]*endpoint{dead: dies, waiting: waits} {
		d := get(t, q, id)
		for _, g := range end.requests() {
			if d.Attempts != 2 || g.header.Get("Idempotency-Key") != d.IdempotencyKey {
				t.Errorf("%+v, sent with %v", d, g.header)
			}
		}
	}

	check(t, client.QueuePause(t.Context(), queueName, nil))
	eventually(t, "the pause holds", func() bool {
		before := len(waits.requests())
		enqueue(t, q, post(t, waits.URL, "hello"), Options{})
		time.Sleep(2 * longestFetch) // River is notified within 50 ms
		return len(waits.requests()) == before
	})
	check(t, client.QueueResume(t.Context(), queueName, nil))
	eventually(t, "it goes on", func() bool { return stats(t, q).open() == 0 })
}
