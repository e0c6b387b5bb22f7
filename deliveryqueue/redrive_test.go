package deliveryqueue

import (
	"database/sql"
	"errors"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"
)

// A dead letter whose deadline has passed is redriven only with a new one, and
// keeps the record of its attempts until then.
func TestRedriveAfterTheDeadline(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 400)
		q := open(t, store, Config{})
		passed := enqueue(t, q, post(t, end.URL, "passed"), Options{Deadline: time.Now().Add(time.Minute)})
		for _, deadline := range []time.Time{{}, time.Now().Add(time.Hour)} {
			enqueue(t, q, post(t, end.URL, "open"), Options{Deadline: deadline})
		}
		stop := start(t, q)
		waitFor(t, q, Stats{Dead: 3})
		stop()
		past := `jsonb_set(args, '{deadline}', '1')`
		if q.store.sqlite {
			past = `jsonb_patch(args, '{"deadline": 1}')`
		}
		setJob(t, q, passed, `args = `+past)
		before := get(t, q, passed)
		n, err := q.Redrive(t.Context(), Filter{})
		var refused *DeadlinePassedError
		if n != 2 || !errors.As(err, &refused) || refused.N != 1 {
			t.Errorf("%d are redriven: %v", n, err)
		}
		if d := get(t, q, passed); !reflect.DeepEqual(d, before) || d.Attempts != 1 {
			t.Errorf("%+v, want %+v", d, before)
		}
		if n, err := q.RedriveUntil(t.Context(), Filter{}, time.Now().Add(-time.Second)); n != 0 || err == nil {
			t.Errorf("%d are redriven until a second ago: %v", n, err)
		}
		end.respond(200)
		if n, err := q.RedriveUntil(t.Context(), Filter{}, time.Now().Add(time.Hour)); n != 1 || err != nil {
			t.Errorf("%d are redriven: %v", n, err)
		}
		start(t, q)
		waitFor(t, q, Stats{Delivered: 3})
	})
}

// A deadline that cannot be stored is an error, and a distant deadline has not
// passed.
func TestDeadlinesThatAreFar(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	for _, far := range []time.Time{time.Unix(1<<60, 0), time.Unix(math.MaxInt64, 0), time.Unix(maxDeadline+1, 0)} {
		if _, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{Deadline: far}); err == nil {
			t.Errorf("%v is taken", far)
		}
	}
	for _, deadline := range []time.Time{
		time.Unix(maxDeadline, 0), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(math.MinInt64/2, 0),
	} {
		enqueue(t, q, post(t, end.URL, "hello"), Options{Deadline: deadline})
	}
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1, Dead: 2})
}

// What was delivered or canceled is delivered again, from the beginning of its
// policy. What waits is attempted now, and its policy continues.
func TestRedriveWhatIsNotDead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		good, bad := newEndpoint(t, 200), newEndpoint(t, 503)
		q := open(t, store, Config{})
		sent := enqueue(t, q, post(t, good.URL, "sent"), Options{IdempotencyKey: "key"})
		policy := parse(t, `{"healthyRetryPolicy": {"numRetries": 2, "minDelayTarget": 1000, "maxDelayTarget": 1000}}`)
		waits := enqueue(t, q, post(t, bad.URL, "waits"), Options{Policy: policy, Deadline: time.Now().Add(24 * time.Hour)})
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Waiting: 1})
		for attempts := 1; attempts <= 2; attempts++ {
			eventually(t, "it waits", func() bool {
				d := get(t, q, waits)
				return d.State == Waiting && d.Attempts == attempts && time.Until(d.Next) > 900*time.Second
			})
			if n, err := q.Redrive(t.Context(), Filter{State: Waiting}); n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		waitFor(t, q, Stats{Delivered: 1, Dead: 1})
		if d := get(t, q, waits); d.Attempts != 3 || d.Reason != "max_attempts" {
			t.Errorf("%+v", d)
		}
		bad.check(t, 3)
		if n, err := q.Redrive(t.Context(), Filter{State: Delivered, IDs: []int64{sent}}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		good.wait(t, 2)
		waitFor(t, q, Stats{Delivered: 1, Dead: 1})
		if r := good.requests()[1]; r.body != "sent" || r.header.Get("Idempotency-Key") != "key" || get(t, q, sent).Attempts != 1 {
			t.Errorf("%+v", r)
		}
		check(t, q.Cancel(t.Context(), waits))
		bad.respond(200)
		if n, err := q.Redrive(t.Context(), Filter{State: Canceled}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		waitFor(t, q, Stats{Delivered: 2})
	})
}

// Redrive continues after a batch that another transaction has changed meanwhile.
func TestRedriveBesideAnother(t *testing.T) {
	t.Parallel()
	q := open(t, newPostgres(t), Config{})
	enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
	backlog(t, q, batchSize+1)
	execute(t, q.store.db, `UPDATE river_job SET state = 'discarded', finalized_at = now()`)
	another := must[*sql.Tx](t)(q.store.db.Begin())
	defer another.Rollback()
	execute(t, another, `UPDATE river_job SET state = 'cancelled' WHERE id < (SELECT max(id) FROM river_job)`)
	var redriving sync.WaitGroup
	redriving.Go(func() {
		if n, err := q.Redrive(t.Context(), Filter{}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	eventually(t, "it waits for the other transaction", func() bool {
		return scan[int](t, q, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	check(t, another.Commit())
	redriving.Wait()
	wantStats(t, q, Stats{Waiting: 1, Canceled: batchSize})
}
