package deliveryqueue

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 503, 503, 200)
	end.hold = make(chan struct{})
	q := open(t, newSQLite(t), Config{})
	check(t, q.Cancel(t.Context(), enqueue(t, q, post(t, end.URL, "hello"), Options{})))
	if err := q.Cancel(t.Context(), 1_000_000); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v", err)
	}
	running := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: retries(t, 5)})
	start(t, q)
	end.wait(t, 1)
	check(t, q.Cancel(t.Context(), running))
	waitFor(t, q, Stats{Canceled: 2}) // the attempt is cut off
	end.check(t, 1)
	close(end.hold)
	dead := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: retries(t, 0)})
	waitFor(t, q, Stats{Canceled: 2, Dead: 1})
	check(t, q.Cancel(t.Context(), dead))
	wantStats(t, q, Stats{Canceled: 3})
	if n, err := q.Redrive(t.Context(), Filter{IDs: []int64{dead}}); n != 0 || err != nil {
		t.Errorf("%d redriven, %v", n, err)
	}
	delivered := enqueue(t, q, post(t, end.URL, "hello"), Options{})
	waitFor(t, q, Stats{Canceled: 3, Delivered: 1})
	if err := q.Cancel(t.Context(), delivered); err == nil || !strings.Contains(err.Error(), "is delivered already") {
		t.Errorf("error %v", err)
	}
}

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
		if n, err := q.CancelAll(t.Context(), Filter{Endpoint: "http://a.test"}); err != nil || n != 4 {
			t.Errorf("%d, %v", n, err)
		}
		wantStats(t, q, Stats{Waiting: 2, Running: 2, Delivered: 2, Dead: 1, Canceled: 3})
		// The attempt in progress fails.
		running := list(t, q, Filter{State: Running, Endpoint: "http://a.test"})[0].ID
		settle(t, q, again(underWay(t, q, running, 0), record{}, 0))
		if d := get(t, q, running); d.State != Canceled || d.Ended.IsZero() {
			t.Errorf("%+v", d)
		}
		for _, f := range []Filter{{}, {State: Delivered}, {State: Canceled}, {Limit: -1}} {
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
// for each other. It is repeated, but not forever.
func TestCancelAllAfterDeadlock(t *testing.T) {
	t.Parallel()
	q := open(t, newPostgres(t), Config{})
	enqueue(t, q, post(t, "http://a.test", "hello"), Options{})
	for _, statement := range []string{
		`CREATE SEQUENCE tries`,
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			IF nextval('tries') < 12 THEN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END IF;
			RETURN NEW;
		END$$`,
		`CREATE TRIGGER fail BEFORE UPDATE ON river_job FOR EACH ROW EXECUTE FUNCTION fail()`,
	} {
		execute(t, q.store.db, statement)
	}
	if n, err := q.CancelAll(t.Context(), Filter{Endpoint: "http://a.test"}); n != 0 || sqlState(err) != deadlocked {
		t.Errorf("after %d deadlocks: %d, %v", mostDeadlocks, n, err)
	}
	if n, err := q.CancelAll(t.Context(), Filter{Endpoint: "http://a.test"}); n != 1 || err != nil {
		t.Errorf("after one more: %d, %v", n, err)
	}
}

// A job of another queue in the same tables is no delivery.
func TestCancelOfAnotherQueue(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		id := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
		setJob(t, q, id, `queue = 'default', kind = 'invoice'`)
		if err := q.Cancel(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("error %v", err)
		}
		if state := scan[string](t, q, `SELECT state FROM river_job`); state != "available" {
			t.Errorf("the job is %s", state)
		}
	})
}
