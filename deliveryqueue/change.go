package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// A change is the update of a job after an attempt.
type change struct {
	ID int64 `json:"id"`

	// Key is the delivery's. A store that was restored to an older state assigns
	// IDs again.
	Key string `json:"key"`

	// Taken is when the attempt was, by the store's clock in Unix microseconds. It is
	// later if the job was taken again since, also after this outcome was committed and
	// the reply was lost.
	Taken int64 `json:"taken"`

	State rivertype.JobState `json:"state"`
	Final bool               `json:"final"`
	Delay float64            `json:"delay"` // until the job runs again, in seconds; see due

	Record map[string]record `json:"record"`

	due    time.Time
	job    *rivertype.JobRow
	silent bool // not for OnOutcome, because no attempt was made
}

// priority is the priority of all jobs.
const priority = 2

// end returns the change of a job to a final state.
func end(job *rivertype.JobRow, state rivertype.JobState, rec record) *change {
	return &change{
		ID: job.ID, Key: keyOf(job), Taken: job.AttemptedAt.UnixMicro(), State: state, Final: true, Record: rec.update(), job: job,
	}
}

// again returns the change of a job to run again after delay.
func again(job *rivertype.JobRow, rec record, delay time.Duration) *change {
	c := end(job, rivertype.JobStateScheduled, rec)
	c.Final, c.due = false, time.Now().Add(delay)
	if delay <= step {
		c.State = rivertype.JobStateAvailable
	}
	return c
}

// keyOf returns the key of a job's delivery, or "" if the row is damaged.
func keyOf(job *rivertype.JobRow) string {
	m, _ := readMetadata(job.Metadata) // the row may have none
	return m.Head.Key
}

// A committed is the state of a job after a change.
type committed struct {
	state      rivertype.JobState
	next, done storedTime
	alone      sql.NullInt64 // until when its endpoint gets no attempts
}

// outcome returns the delivery after the change.
func (c *change) outcome(row committed) Delivery {
	d := Delivery{ID: c.ID, State: stateOf(row.state), Enqueued: c.job.CreatedAt, Ended: row.done.Time}
	if d.State == Waiting {
		d.Next = later(row.next.Time, row.alone)
	}
	meta, err := readMetadata(c.job.Metadata)
	meta.Record = c.Record[rivertype.MetadataKeyOutput]
	d.describe(meta, err)
	return d
}

// settle commits changes of jobs that still belong to the same deliveries, and
// returns the changes that it made, by ID. Unless the delivery succeeded, it does
// not change a job that is no longer running or that another process has taken
// over; a late success overrides dead. A job that was canceled during the attempt
// does not run again.
func (s *store) settle(ctx context.Context, changes []*change) (map[int64]committed, error) {
	for _, c := range changes {
		if !c.Final {
			c.Delay = max(time.Until(c.due), 0).Seconds()
		}
	}
	raw, err := json.Marshal(changes)
	if err != nil {
		return nil, err
	}
	made := make(map[int64]committed, len(changes))
	err = s.byIndex(ctx, s.db, func(rows *sql.Rows) error {
		var id int64
		var row committed
		err := rows.Scan(&id, &row.state, &row.next, &row.done, &row.alone)
		made[id] = row
		return err
	}, `id bigint, state river_job_state, next timestamptz, done timestamptz, alone bigint`, s.settleQuery(), string(raw), "")
	return made, err
}

// settleQuery returns the statement of settle. All times are by the store's
// clock. An attempt does not count as one of River's, which crashLimit limits.
// The condition is a CASE because SQLite would otherwise use the index on state
// and scan all waiting jobs, instead of finding them by ID.
func (s *store) settleQuery() string {
	rows := `jsonb_to_recordset($1::jsonb) AS o (id bigint, key text, taken bigint, state text, final bool, delay float8,
		record jsonb)`
	meta, state := s.metadata(), `::river_job_state`
	merged := `metadata || o.record`
	some := ` AND river_job.id = ANY (ARRAY(SELECT CAST(value ->> 'id' AS bigint) FROM jsonb_array_elements($1::jsonb)))` // by index in any order
	if s.sqlite {
		rows = `(SELECT value ->> 'id' AS id, value ->> 'key' AS key, value ->> 'taken' AS taken,
			value ->> 'state' AS state, value ->> 'final' AS final, value ->> 'delay' AS delay,
			value -> 'record' AS record FROM json_each($1)) AS o`
		merged, state, some = `jsonb_patch(`+meta+`, o.record)`, ``, ``
	}
	return fmt.Sprintf(`
		UPDATE river_job SET
			state = (CASE WHEN o.final OR (%[1]s) ->> 'cancel_attempted_at' IS NULL THEN o.state ELSE 'cancelled' END)%[2]s,
			finalized_at = CASE WHEN o.final OR (%[1]s) ->> 'cancel_attempted_at' IS NOT NULL THEN %[3]s END,
			scheduled_at = CASE WHEN o.final THEN scheduled_at ELSE %[4]s END,
			attempt = CASE WHEN o.final THEN river_job.attempt ELSE river_job.attempt - 1 END,
			metadata = %[5]s
		FROM %[6]s
		WHERE river_job.id = o.id%[8]s AND COALESCE((%[1]s) -> 'delivery' ->> 'key', '') = o.key AND CASE WHEN o.state = 'completed'
			THEN river_job.state IN ('running', 'available', 'scheduled', 'retryable', 'discarded')
			ELSE river_job.state = 'running' AND abs(%[9]s - o.taken) < 10 END
		RETURNING river_job.id, river_job.state, river_job.scheduled_at, river_job.finalized_at, %[7]s`,
		meta, state, s.after(`0`), s.after(`o.delay`), merged, rows, s.aloneUntil(), some, s.microsOf(`river_job.attempted_at`))
}
