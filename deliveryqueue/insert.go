package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A newJob is a job to insert. River's client would insert it by the process's
// clock, and by a transaction's search_path.
type newJob struct {
	Args     json.RawMessage `json:"args"`
	Metadata map[string]head `json:"metadata"`
	Delay    float64         `json:"delay"`          // until it is due, in seconds
	Once     string          `json:"once,omitempty"` // no two jobs have the same; hexadecimal; "": any number
}

// A statement inserts at most this many jobs, and bytes of them unless one has more:
// PostgreSQL limits the size of a JSON array.
const (
	jobsAtOnce  = 1000
	bytesAtOnce = 16 << 20
)

// batch returns how many of the jobs one statement inserts. A job with Once has its
// own, which may insert none.
func batch(all []newJob) (n int) {
	size := 0
	for n < min(len(all), jobsAtOnce) {
		if size += len(all[n].Args); n > 0 && (size > bytesAtOnce || all[0].Once != "" || all[n].Once != "") {
			break
		}
		n++
	}
	return n
}

// A connection is an sql.DB, or an sql.Conn of it.
type connection interface {
	QueryContext(ctx context.Context, query string, params ...any) (*sql.Rows, error)
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// insertAll inserts all jobs or none.
func (s *store) insertAll(ctx context.Context, in connection, all []newJob) ([]int64, error) {
	if batch(all) == len(all) {
		return s.insert(ctx, in, all)
	}
	tx, err := in.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	ids, err := s.insert(ctx, tx, all)
	if err != nil {
		_ = tx.Rollback() // the context may have done it
		return nil, err
	}
	return ids, tx.Commit()
}

// insert inserts jobs in a connection, or a transaction of any driver, and returns
// their IDs.
func (s *store) insert(ctx context.Context, in any, all []newJob) (ids []int64, err error) {
	for len(all) > 0 {
		n := batch(all)
		got, err := s.idsIn(ctx, in, s.insertQuery(), s.insertParams(all[:n])...)
		if err == nil && len(got) == 0 {
			got, err = s.idsIn(ctx, in, onceQuery, all[0].Once)
		}
		if err != nil {
			return nil, err
		}
		ids, all = append(ids, got...), all[len(got):] // none: it was deleted meanwhile
	}
	return ids, nil
}

// idsIn returns the IDs, in the first of two columns, that a statement returns.
func (s *store) idsIn(ctx context.Context, in any, query string, params ...any) (ids []int64, err error) {
	var rows interface {
		Next() bool
		Scan(into ...any) error
		Err() error
	}
	switch in := in.(type) {
	case connection:
		rows, err = in.QueryContext(ctx, s.query(query), params...)
	case *sql.Tx:
		rows, err = in.QueryContext(ctx, s.query(query), params...)
	case pgx.Tx:
		if s.sqlite {
			return nil, errors.New("the transaction is of pgx, and the store is an SQLite file")
		}
		rows, err = in.Query(ctx, s.query(query), params...)
	default:
		return nil, errors.New("the transaction is nil")
	}
	if err != nil {
		return nil, err
	}
	for rows.Next() { // to the end, which closes them
		var id int64
		err = errors.Join(err, rows.Scan(&id, new(any)))
		ids = append(ids, id)
	}
	return ids, errors.Join(err, rows.Err())
}

// announceEvery limits how often a process notifies PostgreSQL's listeners, which
// poll too: each notification delays the commits of others.
const announceEvery = 100 * time.Millisecond

func (s *store) insertParams(all []newJob) []any {
	raw, _ := json.Marshal(all) // of JSON and numbers
	switch {
	case s.sqlite:
		return []any{string(raw)}
	case s.announced.due(announceEvery):
		return []any{string(raw), s.schema + ".river_insert"} // River's topic
	}
	return []any{string(raw), ""}
}

// onceQuery returns, in PostgreSQL, the job with the same Once as one that was not
// inserted. To return it at once, the statement would lock it up to the end of the
// caller's transaction.
const onceQuery = `SELECT id, kind FROM river_job
	WHERE unique_key = decode($1, 'hex') AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state)`

// insertQuery returns the statement of insert. A job that is due before the next
// sweep is available.
func (s *store) insertQuery() string {
	rows, real, binary, state, all := `jsonb_array_elements($1::jsonb) WITH ORDINALITY AS o (value, key)`, `float8`, `decode(%s, 'hex')`,
		`::river_job_state`, `B'11111111'`
	args := `value -> '%s'`
	conflict := `DO NOTHING`
	if s.sqlite {
		rows, real, binary, state, all = `json_each($1) AS o`, `real`, `unhex(%s)`, ``, `255`
		args, conflict = `jsonb(value -> '%s')`, `DO UPDATE SET kind = river_job.kind` // it returns the row
	}
	const once = `(value ->> 'once')`
	delay := fmt.Sprintf(`CAST(value ->> 'delay' AS %s)`, real)
	insert := fmt.Sprintf(`
		INSERT INTO river_job (args, metadata, kind, max_attempts, priority, queue, created_at, scheduled_at, state, unique_key, unique_states)
		SELECT %s, %s, '%s', %d, %d, '%s', %s, %s, (CASE WHEN %s > %g THEN 'scheduled' ELSE 'available' END)%s,
			%s, CASE WHEN %s IS NOT NULL THEN %s END
		FROM %s WHERE true ORDER BY key
		ON CONFLICT %s
		RETURNING id, kind`,
		fmt.Sprintf(args, "args"), fmt.Sprintf(args, "metadata"), kind, crashLimit, priority, queueName, s.after(`0`), s.after(delay),
		delay, step.Seconds(), state, fmt.Sprintf(binary, once), once, all, rows, conflict)
	if s.sqlite {
		return insert
	}
	return fmt.Sprintf(`WITH new AS (%s) SELECT id, CASE WHEN $2::text <> '' THEN pg_notify($2::text, '{"queue": "%s"}')::text END FROM new`,
		insert, queueName)
}
