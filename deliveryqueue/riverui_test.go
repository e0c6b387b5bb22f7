package deliveryqueue

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"example.com/awsretry/delivery"
	"github.com/riverqueue/river"
)

// What River's web UI does to a delivery, which it does by these methods of
// River's client.
func TestRiverUI(t *testing.T) {
	t.Parallel()
	waits := parse(t, `{"healthyRetryPolicy": {"numRetries": 1, "minDelayTarget": 60, "maxDelayTarget": 60}}`)
	for _, tt := range []struct {
		name     string
		statuses []int
		policy   *delivery.Policy
		before   Stats
		press    func(context.Context, *river.Client[*sql.Tx], int64) error
		after    Stats
		attempts int // that the endpoint has seen, and that the delivery counts
	}{
		{"retry of one that waits", []int{503, 200}, waits, Stats{Waiting: 1}, retry, Stats{Delivered: 1}, 2},
		{"retry of a dead letter", []int{503, 503, 200}, retries(t, 0), Stats{Dead: 1}, retry, Stats{Dead: 1}, 2},
		{"retry of one that was delivered", []int{200, 200}, waits, Stats{Delivered: 1}, retry, Stats{Delivered: 1}, 2},
		{"delete", []int{404}, waits, Stats{Dead: 1}, remove, Stats{}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end := newEndpoint(t, tt.statuses...)
			q := open(t, newSQLite(t), Config{})
			id := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: tt.policy, IdempotencyKey: "key 1"})
			start(t, q)
			end.wait(t, 1)
			waitFor(t, q, tt.before) // so that no worker has it
			check(t, tt.press(t.Context(), riverClient(q), id))
			end.wait(t, tt.attempts)
			waitFor(t, q, tt.after)
			for _, seen := range end.requests() {
				if seen.header.Get("Idempotency-Key") != "key 1" {
					t.Errorf("%+v", seen)
				}
			}
			for _, d := range list(t, q, Filter{}) {
				if d.Attempts != tt.attempts {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

func riverClient(q *Queue) *river.Client[*sql.Tx] { return q.store.jobs.(*riverJobs[*sql.Tx]).client }

func retry(ctx context.Context, client *river.Client[*sql.Tx], id int64) error {
	_, err := client.JobRetry(ctx, id)
	return err
}

func remove(ctx context.Context, client *river.Client[*sql.Tx], id int64) error {
	_, err := client.JobDelete(ctx, id)
	return err
}

// A pause of the queue holds for all deliveries.
func TestRiverUIPause(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	startOne(t, q, end)
	check(t, riverClient(q).QueuePause(t.Context(), queueName, nil))
	eventually(t, "the pause holds", func() bool {
		before := len(end.requests())
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		time.Sleep(2 * longestFetch) // River hears of it in 50 ms
		return len(end.requests()) == before
	})
	check(t, riverClient(q).QueueResume(t.Context(), queueName, nil))
	eventually(t, "it goes on", func() bool { return stats(t, q).open() == 0 })
}
