package deliveryqueue

import (
	"context"
	"testing"
	"time"
)

func TestCancelAll(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		for _, state := range []string{"available", "scheduled", "running", "discarded", "completed"} {
			for _, url := range []string{"http://a.test", "http://b.test"} {
				id := enqueue(t, q, post(t, url, "hello"), Options{})
				done := ""
				if state == "discarded" || state == "completed" {
					done = `, finalized_at = ` + q.store.after(`0`)
				}
				setJob(t, q, id, `state = '`+state+`', attempted_at = `+q.store.after(`0`)+done)
			}
		}
		n, err := q.CancelAll(t.Context(), Filter{Endpoint: "http://a.test"})
		if err != nil || n != 4 {
			t.Errorf("%d, %v", n, err)
		}
		want := Stats{Waiting: 2, Running: 2, Delivered: 2, Dead: 1, Canceled: 3}
		if s := stats(t, q); s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
		// The attempt in progress fails.
		var running Delivery
		for _, d := range list(t, q, Filter{State: Running, Endpoint: "http://a.test"}) {
			running = d
		}
		if _, err := q.store.settle(t.Context(), []*change{again(underWay(t, q, running.ID, 0), record{}, 0)}); err != nil {
			t.Fatal(err)
		}
		if d := list(t, q, Filter{IDs: []int64{running.ID}})[0]; d.State != Canceled {
			t.Errorf("%+v", d)
		}
		for _, f := range []Filter{{}, {State: Delivered}, {State: Canceled}, {State: "odd"}, {Limit: -1}} {
			if n, err := q.CancelAll(t.Context(), f); err == nil || n != 0 {
				t.Errorf("%+v: %d, %v", f, n, err)
			}
		}
		if n, err := q.CancelAll(t.Context(), Filter{Before: time.Now().Add(time.Minute), Limit: 2}); err != nil || n != 2 {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// PostgreSQL ends the statement of CancelAll if it and another transaction wait
// for each other. It is repeated.
func TestCancelAllAfterDeadlock(t *testing.T) {
	t.Parallel()
	q := open(t, newPostgres(t), Config{})
	first := enqueue(t, q, post(t, "http://a.test", "hello"), Options{})
	second := enqueue(t, q, post(t, "http://a.test", "hello"), Options{})
	other, err := q.store.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	run := func(statement string, values ...any) {
		if _, err := other.Exec(statement, values...); err != nil {
			t.Error(err)
		}
	}
	lock := func(id int64) { run(`UPDATE river_job SET attempt = attempt WHERE id = $1`, id) }
	run(`SET LOCAL deadlock_timeout = '1min'`) // so that PostgreSQL ends the other statement
	lock(second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		n, err := q.CancelAll(ctx, Filter{Endpoint: "http://a.test"})
		if err != nil {
			t.Error(err)
		}
		ended <- n
	}()
	waiting := `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
	eventually(t, "CancelAll waits for the second", func() bool {
		var n int
		if err := q.store.db.QueryRow(waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	lock(first)
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := <-ended; n != 2 {
		t.Errorf("%d are canceled", n)
	}
	eventually(t, "PostgreSQL counts a deadlock", func() bool {
		var n int
		counted := `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`
		if err := q.store.db.QueryRow(counted).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
}
