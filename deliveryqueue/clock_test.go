package deliveryqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// withClock returns the URL of a new database whose clock is ahead of this
// process's.
func withClock(t *testing.T, ahead time.Duration) string {
	t.Helper()
	store := newPostgres(t)
	q := open(t, store, Config{}) // for the connection
	for _, statement := range []string{
		`CREATE SCHEMA shifted`,
		fmt.Sprintf(`CREATE FUNCTION shifted.now() RETURNS timestamptz LANGUAGE sql STABLE AS
			$$SELECT pg_catalog.now() + interval '%d s'$$`, int(ahead.Seconds())),
		fmt.Sprintf(`CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
			$$SELECT pg_catalog.clock_timestamp() + interval '%d s'$$`, int(ahead.Seconds())),
	} {
		execute(t, q.store.db, statement)
	}
	return store + "&search_path=shifted,pg_catalog"
}

// A process whose clock is wrong delivers at the same times as the others, and
// takes over no attempt that is being made.
func TestClockOfTheStore(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			end := newEndpoint(t, 503, 200)
			end.delay = 200 * time.Millisecond
			q := open(t, withClock(t, ahead), Config{})
			q.timing.sweep = 20 * time.Millisecond
			enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: parse(t, `{"healthyRetryPolicy": {
				"numRetries": 1, "numMinDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 1},
				"throttlePolicy": {"maxReceivesPerSecond": 10}}`)})
			start(t, q)
			waitFor(t, q, Stats{Delivered: 1})
			all := end.requests()
			if len(all) != 2 {
				t.Fatalf("%d requests", len(all))
			}
			if delay := all[1].at.Sub(all[0].at); delay < time.Second {
				t.Errorf("the retry is made after %v", delay)
			}
			d := list(t, q, Filter{})[0]
			if off := time.Until(d.Ended) - ahead; off.Abs() > time.Minute {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A deadline is a time of the store's clock.
func TestClockOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		c := clockOf(&rivertype.JobRow{AttemptedAt: &at})
		time.Sleep(time.Second)
		if now := c.now(); !now.Equal(at.Add(time.Second)) {
			t.Errorf("a second later it is %v later", now.Sub(at))
		}
	})
}

// setJob changes a job as the assignments say.
func setJob(t *testing.T, q *Queue, id int64, assignments string) {
	t.Helper()
	execute(t, q.store.db, fmt.Sprintf(`UPDATE river_job SET %s WHERE id = %d`, assignments, id))
}

// underWay returns the job of a delivery as a worker has it.
func underWay(t *testing.T, q *Queue, id int64, attempt int) *rivertype.JobRow {
	t.Helper()
	key := list(t, q, Filter{IDs: []int64{id}})[0].IdempotencyKey
	return &rivertype.JobRow{ID: id, Attempt: attempt, Metadata: fmt.Appendf(nil, `{"delivery": {"key": %q}}`, key)}
}

// No process has to lead the others for what is due to be delivered.
func TestDueWithoutLeader(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		q.timing.sweep = 20 * time.Millisecond
		execute(t, q.store.db, fmt.Sprintf(`INSERT INTO river_leader (leader_id, elected_at, expires_at)
			VALUES ('dead', %s, %s)`, q.store.after(`0`), q.store.after(`3600`)))
		for _, assignments := range []string{
			`state = 'scheduled', scheduled_at = ` + q.store.after(`1`),
			`state = 'retryable', scheduled_at = ` + q.store.after(`1`),
			`scheduled_at = ` + q.store.after(`3600`), // enqueued by a process whose clock is ahead
		} {
			setJob(t, q, enqueue(t, q, post(t, end.URL, "hello"), Options{}), assignments)
		}
		later := enqueue(t, q, post(t, end.URL, "hello"), Options{})
		setJob(t, q, later, `state = 'scheduled', scheduled_at = `+q.store.after(`3600`))
		start(t, q)
		waitFor(t, q, Stats{Delivered: 3, Waiting: 1})
	})
}

// A retry that is available before its time, as River makes it if the clock of
// the process that leads the others is ahead, is not made before its time.
func TestLeaderIsAhead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		ids := make([]int64, 2)
		for i, assignments := range []string{``, `, attempted_at = ` + q.store.after(`-10`)} {
			ids[i] = enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
			setJob(t, q, ids[i], `scheduled_at = `+q.store.after(`3600`)+assignments)
		}
		if err := q.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, early := range []bool{true, false} {
			d := list(t, q, Filter{IDs: ids[i : i+1]})[0]
			if time.Until(d.Next) < time.Minute != early {
				t.Errorf("job %d: %+v", i, d)
			}
		}
	})
}

// River makes nothing available by the clock of the process that leads.
func TestRiverSchedulesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 200)
		q := open(t, store, Config{})
		q.timing.sweep = time.Hour // so that only River could
		later := enqueue(t, q, post(t, end.URL, "hello"), Options{Delay: time.Hour})
		ahead := enqueue(t, q, post(t, end.URL, "hello"), Options{})
		setJob(t, q, ahead, `scheduled_at = `+q.store.after(`3600`))
		start(t, q)
		waitFor(t, q, Stats{Delivered: 1, Waiting: 1}) // so the first sweep has ended
		eventually(t, "this process leads", func() bool {
			var leaders int
			if err := q.store.db.QueryRowContext(t.Context(), `SELECT count(*) FROM river_leader`).Scan(&leaders); err != nil {
				t.Fatal(err)
			}
			return leaders == 1
		})
		setJob(t, q, later, `scheduled_at = `+q.store.after(`-1`))
		time.Sleep(500 * time.Millisecond)
		end.check(t, 1)
	})
}

// What was under way in a process that died runs again, unless it was canceled.
func TestSweep(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		old := q.store.after(fmt.Sprint(-q.rescueAfter().Seconds() - 1))
		fresh := q.store.after(fmt.Sprint(-q.rescueAfter().Seconds() + 60))
		var ids []int64
		for _, assignments := range []string{
			`attempted_at = ` + old,
			`attempted_at = ` + fresh,
			`attempt = 1000, attempted_at = ` + old,
			`metadata = '{"cancel_attempted_at": "2026-01-01T00:00:00Z"}', attempted_at = ` + old,
		} {
			ids = append(ids, enqueue(t, q, post(t, "http://endpoint.test", ""), Options{}))
			setJob(t, q, ids[len(ids)-1], `state = 'running', `+assignments)
		}
		if err := q.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, want := range []State{Waiting, Running, Dead, Canceled} {
			d := list(t, q, Filter{IDs: ids[i : i+1]})[0]
			if d.State != want || d.Ended.IsZero() != (i < 2) {
				t.Errorf("job %d: %+v, want %s", i, d, want)
			}
		}
	})
}

// The outcome of an attempt that another process has taken over changes
// nothing.
func TestOutcomeThatIsTooLate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		gone := &change{ID: 1_000_000, Attempt: 2, State: rivertype.JobStateCompleted, Final: true}
		id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
		setJob(t, q, id, `state = 'running', attempt = 2`)
		for _, tt := range []struct {
			attempt int
			want    State
		}{{1, Running}, {2, Dead}, {2, Dead}} {
			late := end(underWay(t, q, id, tt.attempt), rivertype.JobStateDiscarded, record{Attempts: 7})
			if _, err := q.store.settle(t.Context(), []*change{gone, late}); err != nil {
				t.Fatal(err)
			}
			d := list(t, q, Filter{})[0]
			if d.State != tt.want || (d.Attempts == 7) != (tt.want == Dead) {
				t.Errorf("after the outcome of attempt %d: %+v", tt.attempt, d)
			}
		}
		// But an endpoint that has it has it, whoever sent it.
		delivered := end(underWay(t, q, id, 1), rivertype.JobStateCompleted, record{Attempts: 8})
		for _, tt := range []struct {
			state string
			want  State
		}{{"discarded", Delivered}, {"running", Delivered}, {"available", Delivered}, {"scheduled", Delivered},
			{"cancelled", Canceled}} {
			assignments := fmt.Sprintf(`state = '%s', attempt = 2, finalized_at = NULL`, tt.state)
			if tt.state == "discarded" || tt.state == "cancelled" {
				assignments = fmt.Sprintf(`state = '%s', attempt = 2, finalized_at = CURRENT_TIMESTAMP`, tt.state)
			}
			setJob(t, q, id, assignments)
			if _, err := q.store.settle(t.Context(), []*change{delivered}); err != nil {
				t.Fatal(err)
			}
			if d := list(t, q, Filter{})[0]; d.State != tt.want || d.Attempts != 8 {
				t.Errorf("delivered while it was %s: %+v", tt.state, d)
			}
		}
	})
}
