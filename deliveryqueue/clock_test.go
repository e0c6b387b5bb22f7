package deliveryqueue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/httpfake"
	"github.com/riverqueue/river/rivertype"
)

// withClock returns the URL of a new database whose clock is ahead of this
// process's.
func withClock(t *testing.T, ahead time.Duration) string {
	t.Helper()
	store := newPostgres(t)
	db := connect(t, "pgx", store)
	execute(t, db, `CREATE SCHEMA shifted`)
	for _, name := range []string{"now", "clock_timestamp"} {
		execute(t, db, fmt.Sprintf(`CREATE FUNCTION shifted.%[1]s() RETURNS timestamptz LANGUAGE sql STABLE AS
			$$SELECT pg_catalog.%[1]s() + interval '%[2]d s'$$`, name, int(ahead.Seconds())))
	}
	return store + "&search_path=shifted,pg_catalog"
}

// A process whose clock is wrong delivers at the same times as the others, and
// takes over no attempt in progress.
func TestClockOfTheStore(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			end := newEndpoint(t, 503, 200)
			end.hold = make(chan struct{})
			q := open(t, withClock(t, ahead), Config{})
			policy := parse(t, `{"healthyRetryPolicy": {"numRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 1},
				"throttlePolicy": {"maxReceivesPerSecond": 10}}`)
			id := enqueue(t, q, post(t, end.URL, "hello"), Options{Policy: policy})
			start(t, q)
			end.wait(t, 1)
			check(t, q.sweep(t.Context()))
			close(end.hold)
			waitFor(t, q, Stats{Delivered: 1})
			all := end.requests()
			if len(all) != 2 {
				t.Fatalf("%d requests", len(all))
			}
			if delay := all[1].at.Sub(all[0].at); delay < time.Second {
				t.Errorf("the retry is made after %v", delay)
			}
			if d := get(t, q, id); (time.Until(d.Ended) - ahead).Abs() > time.Minute {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A deadline is a time on the store's clock.
func TestClockOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		now := clockOf(&rivertype.JobRow{AttemptedAt: &at})
		time.Sleep(time.Second)
		if now := now(); !now.Equal(at.Add(time.Second)) {
			t.Errorf("a second later it is %v later", now.Sub(at))
		}
	})
}

// River makes nothing available by the clock of the leading process.
func TestRiverSchedulesNothing(t *testing.T) {
	t.Parallel()
	store := newSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		q := open(t, store, Config{Base: httpfake.Statuses(204), PollInterval: time.Second})
		later := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{Delay: time.Hour})
		// It is due by either clock. No sweep takes a job of this priority.
		setJob(t, q, later, `priority = 3, scheduled_at = '1999-01-01 00:00:00'`)
		enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{})
		stop := start(t, q)
		time.Sleep(20 * time.Second) // River schedules each 5 s
		if scan[int](t, q, `SELECT count(*) FROM river_leader`) != 1 {
			t.Error("this process does not lead")
		}
		stop()
		wantStats(t, q, Stats{Delivered: 1, Waiting: 1})
	})
}

// A sweep repeats the attempts that were in progress in a process that died, unless
// they were canceled, and makes available what is due soon, however much that is.
func TestSweep(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		died := q.rescueAfter().Seconds()
		attempted := func(seconds float64) string {
			return `state = 'running', attempted_at = ` + q.store.after(fmt.Sprint(seconds))
		}
		scheduled := func(seconds string) string { return `scheduled_at = ` + q.store.after(seconds) }
		tests := []struct {
			assignments, state string
			at                 time.Duration // when it is scheduled, from now
		}{
			{attempted(-died - 1), "available", 0},
			{attempted(-died + 60), "running", 0},
			{attempted(-died-1) + `, attempt = 1000`, "discarded", 0},
			{attempted(-died-1) + `, metadata = '{"cancel_attempted_at": "2026-01-01T00:00:00Z"}'`, "cancelled", 0},
			{`state = 'running', attempted_at = NULL`, "available", 0},
			{`state = 'scheduled', ` + scheduled(`1`), "available", 0},
			{`state = 'retryable', ` + scheduled(`1`), "available", 0},
			{`state = 'scheduled', ` + scheduled(fmt.Sprint(2*step.Seconds()-1)), "available", 2 * step},
			{`state = 'scheduled', ` + scheduled(`3600`), "scheduled", time.Hour},
		}
		var ids []int64
		for _, tt := range tests {
			ids = append(ids, enqueue(t, q, post(t, "http://endpoint.test", ""), Options{}))
			setJob(t, q, ids[len(ids)-1], tt.assignments)
		}
		check(t, q.sweep(t.Context()))
		for i, tt := range tests {
			state := scan[string](t, q, fmt.Sprintf(`SELECT state FROM river_job WHERE id = %d`, ids[i]))
			d := get(t, q, ids[i])
			if state != tt.state || d.Ended.IsZero() != (d.State == Waiting || d.State == Running) ||
				d.State == Waiting && (time.Until(d.Next)-tt.at).Abs() > time.Minute ||
				(d.Reason == reasonCrashed) != (d.State == Dead) {
				t.Errorf("%s: it is %s, want %s: %+v", tt.assignments, state, tt.state, d)
			}
		}
		for _, id := range ids {
			setJob(t, q, id, `state = 'scheduled', attempted_at = NULL, finalized_at = NULL, `+scheduled(`1`))
		}
		backlog(t, q, sweepLimit+100)
		execute(t, q.store.db, `UPDATE river_job SET state = 'scheduled', `+scheduled(`1`))
		check(t, q.sweep(t.Context()))
		if n := scan[int](t, q, `SELECT count(*) FROM river_job WHERE state = 'scheduled'`); n != 0 {
			t.Errorf("%d are not made available", n)
		}
	})
}

// underWay returns the job of a delivery as a worker got it that long ago.
func underWay(t *testing.T, q *Queue, id int64, ago time.Duration) *rivertype.JobRow {
	t.Helper()
	at := scan[storedTime](t, q, fmt.Sprintf(`SELECT attempted_at FROM river_job WHERE id = %d`, id)).Add(-ago)
	return &rivertype.JobRow{
		ID: id, AttemptedAt: &at, Metadata: fmt.Appendf(nil, `{"delivery": {"key": %q}}`, get(t, q, id).IdempotencyKey),
	}
}

func settle(t *testing.T, q *Queue, changes ...*change) {
	t.Helper()
	must[map[int64]committed](t)(q.store.settle(t.Context(), changes))
}

// The outcome of an attempt that another process has taken over changes nothing,
// and neither does the outcome of another delivery: a store that was restored to an
// older state assigns IDs again.
func TestOutcomeThatIsTooLate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		gone := &change{ID: 1_000_000, State: rivertype.JobStateCompleted, Final: true}
		id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
		setJob(t, q, id, `state = 'running', attempted_at = `+q.store.after(`0`))
		for _, final := range []rivertype.JobState{rivertype.JobStateDiscarded, rivertype.JobStateCompleted} {
			another := end(underWay(t, q, id, 0), final, record{Attempts: 6})
			another.Key = "another"
			settle(t, q, another)
		}
		for _, tt := range []struct {
			ago  time.Duration
			want State
		}{{time.Second, Running}, {0, Dead}, {0, Dead}} {
			settle(t, q, gone, end(underWay(t, q, id, tt.ago), rivertype.JobStateDiscarded, record{Attempts: 7}))
			d := get(t, q, id)
			if d.State != tt.want || d.Attempts != map[State]int{Running: 0, Dead: 7}[tt.want] {
				t.Errorf("after the outcome of an attempt %v before: %+v", tt.ago, d)
			}
		}
		// But a success counts, whichever process sent it.
		delivered := end(underWay(t, q, id, time.Second), rivertype.JobStateCompleted, record{Attempts: 8})
		for _, tt := range []struct {
			state string
			ended bool
			want  State
		}{
			{"discarded", true, Delivered}, {"running", false, Delivered}, {"available", false, Delivered},
			{"scheduled", false, Delivered}, {"cancelled", true, Canceled},
		} {
			at := `NULL`
			if tt.ended {
				at = q.store.after(`0`)
			}
			setJob(t, q, id, fmt.Sprintf(`state = '%s', finalized_at = %s`, tt.state, at))
			settle(t, q, delivered)
			if d := get(t, q, id); d.State != tt.want || d.Attempts != 8 {
				t.Errorf("delivered while it was %s: %+v", tt.state, d)
			}
		}
	})
}

// A success wins also in the batch of the outcome of a later attempt.
func TestTwoOutcomesOfADelivery(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		for first := range 2 {
			id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
			setJob(t, q, id, `state = 'running', attempted_at = `+q.store.after(`0`))
			both := []*outcome{
				{change: end(underWay(t, q, id, time.Minute), rivertype.JobStateCompleted, record{Attempts: 1})},
				{change: end(underWay(t, q, id, 0), rivertype.JobStateDiscarded, record{Attempts: 2})},
			}
			settleAll(t.Context(), q.store.settle, []*outcome{both[first], both[1-first]})
			if d := get(t, q, id); d.State != Delivered || !both[0].made || both[1].made != (first == 1) {
				t.Errorf("%+v after %v and %v", d, both[0].made, both[1].made)
			}
		}
	})
}

// An outcome is committed again if the reply to it was lost. It does not end the next
// attempt, which may be another process's.
func TestOutcomeThatIsCommittedTwice(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{})
		id := enqueue(t, q, post(t, "http://endpoint.test", ""), Options{})
		take := func() *rivertype.JobRow {
			t.Helper()
			return must[[]taken](t)(q.store.take(t.Context(), []candidate{{Endpoint: "http://endpoint.test", N: 1}}, "a client"))[0].job
		}
		for _, outcome := range []func(*rivertype.JobRow) *change{
			func(job *rivertype.JobRow) *change { return again(job, record{Attempts: 1}, 0) },
			func(job *rivertype.JobRow) *change { return end(job, rivertype.JobStateDiscarded, record{Attempts: 1}) },
		} {
			first := outcome(take())
			settle(t, q, first)
			if first.Final {
				must[int](t)(q.Redrive(t.Context(), Filter{}))
			}
			time.Sleep(5 * time.Millisecond) // SQLite's times are in milliseconds
			next := take()
			settle(t, q, first)
			if d := get(t, q, id); d.State != Running {
				t.Errorf("the next attempt was ended: %+v", d)
			}
			settle(t, q, again(next, record{Attempts: 2}, 0))
			if d := get(t, q, id); d.State != Waiting || d.Attempts != 2 {
				t.Errorf("after the next attempt: %+v", d)
			}
		}
	})
}

// What is done rarely is done after the clock was set back.
func TestRarely(t *testing.T) {
	t.Parallel()
	var r rarely
	if !r.due(time.Minute) || r.due(time.Minute) {
		t.Error("not once")
	}
	r.last.Store(time.Now().Add(time.Hour).UnixNano())
	if !r.due(time.Minute) || r.due(time.Minute) {
		t.Error("not once after the clock was set back")
	}
}
