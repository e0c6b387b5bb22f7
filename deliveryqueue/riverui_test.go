package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// What River's web UI does to a delivery, which it does by these methods of
// River's client.
func TestRiverUI(t *testing.T) {
	t.Parallel()
	const waits = `{"healthyRetryPolicy": {"numRetries": 1, "minDelayTarget": 60, "maxDelayTarget": 60}}`
	for _, tt := range []struct {
		name     string
		statuses []int
		policy   string
		before   Stats
		press    func(*testing.T, *river.Client[*sql.Tx], int64) error
		after    Stats
		attempts int // that the endpoint has seen, and that the delivery counts
	}{
		{"retry of one that waits", []int{503, 200}, waits, Stats{Waiting: 1}, retry, Stats{Delivered: 1}, 2},
		{"retry of a dead letter", []int{503, 503, 200}, noRetries, Stats{Dead: 1}, retry, Stats{Dead: 1}, 2},
		{"retry of one that was delivered", []int{200, 200}, waits, Stats{Delivered: 1}, retry, Stats{Delivered: 1}, 2},
		{"delete", []int{404}, waits, Stats{Dead: 1}, remove, Stats{}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			end := newEndpoint(t, tt.statuses...)
			q := open(t, newSQLite(t), Config{})
			id := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, tt.policy), IdempotencyKey: "key 1"})
			start(t, q)
			end.wait(t, 1)
			waitFor(t, q, tt.before) // so that no worker has it
			client := q.store.jobs.(*riverJobs[*sql.Tx]).client
			if err := tt.press(t, client, id); err != nil {
				t.Fatal(err)
			}
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

func retry(t *testing.T, client *river.Client[*sql.Tx], id int64) error {
	_, err := client.JobRetry(t.Context(), id)
	return err
}

func remove(t *testing.T, client *river.Client[*sql.Tx], id int64) error {
	_, err := client.JobDelete(t.Context(), id)
	return err
}

// A pause of the queue holds for all deliveries.
func TestRiverUIPause(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		enqueue(t, q, post(t, end.URL, "hello"), Options{})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1})
		var pause, resume func(context.Context, string, *river.QueuePauseOpts) error
		switch jobs := q.store.jobs.(type) {
		case *riverJobs[*sql.Tx]:
			pause, resume = jobs.client.QueuePause, jobs.client.QueueResume
		case *riverJobs[pgx.Tx]:
			pause, resume = jobs.client.QueuePause, jobs.client.QueueResume
		}
		eventually(t, "the pause holds", func() bool {
			// River does not hear of a pause in PostgreSQL before it listens.
			if err := errors.Join(resume(t.Context(), queueName, nil), pause(t.Context(), queueName, nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond) // River hears of it in 50 ms in SQLite, and at once in PostgreSQL
			before := len(end.requests())
			enqueue(t, q, post(t, end.URL, "hello"), Options{})
			time.Sleep(500 * time.Millisecond)
			return len(end.requests()) == before
		})
		if err := resume(t.Context(), queueName, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it goes on", func() bool { return stats(t, q).open() == 0 })
	})
}
