package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// The indexes of this package. SQLite would choose others for some queries.
const (
	dueIndex   = `deliveryqueue_due`
	asideIndex = `deliveryqueue_aside`
)

// available returns the SQL condition of the jobs that fetch takes when they are
// due, and endpoint the expression of a job's endpoint. dueIndex has both. The CASE
// keeps PostgreSQL from using River's index: with statistics that are a minute old,
// in which few jobs are available, it would sort all jobs that are available now
// for each endpoint.
func (s *store) available() string {
	const condition = `state = 'available' AND queue = '` + queueName + `'`
	if s.sqlite {
		return condition
	}
	return `CASE WHEN ` + condition + ` THEN true ELSE false END`
}

// aside is the condition of the jobs in asideIndex: those that wait for their
// time, and the dead letters.
const aside = `state IN ('discarded', 'retryable', 'scheduled') AND queue = '` + queueName + `'`

const isRunning = `state = 'running' AND queue = '` + queueName + `'`

func (s *store) endpoint() string {
	return `COALESCE(NULLIF(CAST((` + s.metadata() + `) -> 'delivery' ->> 'endpoint' AS text), ''), '` + noEndpoint + `')`
}

// noEndpoint is the endpoint of a row that has none.
const noEndpoint = `-`

// candidates returns the endpoints that a query finds, and whether their deliveries are
// due.
func (s *store) candidates(ctx context.Context, query, after, upTo string) (all []candidate, err error) {
	err = s.byIndex(ctx, s.looking, func(rows *sql.Rows) error {
		c := candidate{turns: math.MaxInt}
		var perSecond, wait int64
		var failing, waited sql.NullInt64
		if err := rows.Scan(&c.Endpoint, &perSecond, &wait, &failing, &c.health.disabled, &waited); err != nil {
			return err
		}
		c.due = waited.Valid && waited.Int64 >= 0
		c.waited = time.Duration(waited.Int64) * time.Microsecond
		if failing.Valid {
			c.health.failing = time.Now().Add(-time.Duration(failing.Int64) * time.Microsecond)
		}
		if c.wait = max(time.Duration(wait)*time.Microsecond, 0); c.wait > longestHold {
			c.wait = 0 // the clock was set back
		}
		c.health.throttled = perSecond > 0
		switch {
		case c.health.disabled:
			c.wait, c.turns = 0, 1
		case perSecond > 0:
			c.turns = 1 + int(max(early-c.wait, 0)*time.Duration(perSecond)/time.Second)
		}
		all = append(all, c)
		return nil
	}, `endpoint text, per_second integer, wait bigint, failing bigint, disabled boolean, waited bigint`, query, after, upTo)
	return all, err
}

// dueQuery returns the statement for the first endpoints that have deliveries, after $1
// and up to $2 unless that is "".
func (s *store) dueQuery(limit int) string {
	// The recursion skips from one endpoint to the next in the index, so its cost
	// depends on the number of endpoints, not of deliveries.
	return fmt.Sprintf(`
		WITH RECURSIVE walk (endpoint, n) AS (
			SELECT (SELECT %[1]s FROM %[3]s WHERE %[2]s AND %[1]s > $1 ORDER BY %[1]s LIMIT 1), 1
			UNION ALL
			SELECT (SELECT %[1]s FROM %[3]s WHERE %[2]s AND %[1]s > walk.endpoint ORDER BY %[1]s LIMIT 1), n + 1
			FROM walk WHERE walk.endpoint IS NOT NULL AND ($2 = '' OR walk.endpoint < $2) AND n < %[4]d
		)
		%[5]s WHERE walk.endpoint IS NOT NULL AND ($2 = '' OR walk.endpoint <= $2) ORDER BY walk.n`,
		s.endpoint(), s.available(), s.jobsBy(dueIndex), limit, s.candidateColumns())
}

// latelyQuery returns the statement for the endpoints of the deliveries that became due
// recently, of at most limit deliveries. It uses River's index.
func (s *store) latelyQuery(limit int) string {
	return fmt.Sprintf(`
		WITH walk (endpoint) AS (SELECT DISTINCT endpoint FROM (
			SELECT %[1]s AS endpoint FROM river_job
			WHERE state = 'available' AND queue = '%[2]s' AND priority = %[3]d AND scheduled_at BETWEEN %[4]s AND %[5]s
			ORDER BY scheduled_at DESC LIMIT %[6]d) AS lately)
		%[7]s`,
		s.endpoint(), queueName, priority, s.after(fmt.Sprint(-step.Seconds())), s.after(`0`), limit, s.candidateColumns())
}

// candidateColumns returns the query of the candidates whose endpoints are in
// walk.
func (s *store) candidateColumns() string {
	own := `LEFT JOIN LATERAL (SELECT * FROM deliveryqueue_endpoint AS e WHERE e.endpoint = walk.endpoint LIMIT 1) AS own ON true`
	if s.sqlite { // it has no LATERAL
		own = `LEFT JOIN deliveryqueue_endpoint AS own ON own.endpoint = walk.endpoint`
	}
	return fmt.Sprintf(`
		SELECT walk.endpoint, COALESCE(own.per_second, 0), COALESCE(own.next_at - %[4]s, 0),
			CASE WHEN own.failing_since > 0 THEN %[4]s - own.failing_since END, COALESCE(own.disabled_at, 0) > 0,
			CASE WHEN NOT COALESCE(%[7]s, false) THEN %[4]s - (SELECT %[5]s FROM %[6]s
				WHERE %[2]s AND %[1]s = walk.endpoint ORDER BY scheduled_at LIMIT 1) END
		FROM walk %[3]s`,
		s.endpoint(), s.available(), own, s.micros(), s.microsOf(`scheduled_at`), s.jobsBy(dueIndex), s.isLeftAlone())
}

// isLeftAlone returns the SQL condition for an endpoint's row, own, under which no
// delivery is taken.
func (s *store) isLeftAlone() string {
	return fmt.Sprintf(`(own.paused_at > 0 OR own.alone_until > %[1]s AND own.alone_until <= %[1]s + %[2]d)`,
		s.micros(), longestHold.Microseconds())
}

// A taken job is running.
type taken struct {
	job      *rivertype.JobRow
	endpoint string
}

// take takes deliveries that are due. Since due, another process may have disabled
// an endpoint, or received a Retry-After from it.
func (s *store) take(ctx context.Context, of []candidate, client string) (all []taken, err error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	err = s.byIndex(ctx, s.db, func(rows *sql.Rows) error {
		job := &rivertype.JobRow{
			Kind: kind, MaxAttempts: crashLimit, Priority: priority, Queue: queueName, State: rivertype.JobStateRunning,
		}
		t := taken{job: job}
		var at, created storedTime
		err := rows.Scan(&job.ID, &job.EncodedArgs, &job.Metadata, &job.Attempt, &at, &created, &t.endpoint)
		job.CreatedAt, job.AttemptedAt, job.ScheduledAt = created.Time, &at.Time, at.Time
		all = append(all, t)
		return err
	}, `id bigint, args jsonb, metadata jsonb, attempt smallint, at timestamptz, created timestamptz, endpoint text`,
		s.takeQuery(), string(raw), client)
	return all, err
}

// takeQuery returns the statement of take. River's attempt number is an int16. In
// SQLite, args that look like JSON and are not would make it fail for all rows.
func (s *store) takeQuery() string {
	alone := `EXISTS (SELECT 1 FROM deliveryqueue_endpoint AS own WHERE own.endpoint = %s AND ` + s.isLeftAlone() + `)`
	if s.sqlite { // it has no LATERAL
		return fmt.Sprintf(`
			WITH RECURSIVE pick (endpoint, n, id, at) AS (
				SELECT value ->> 'endpoint', value ->> 'n', 0, '' FROM json_each($1) WHERE NOT %[5]s
				UNION ALL
				SELECT pick.endpoint, pick.n - 1, job.id, job.scheduled_at
				FROM pick, river_job AS job
				WHERE pick.n > 0 AND job.id = (SELECT id FROM river_job INDEXED BY deliveryqueue_due
					WHERE %[2]s AND %[1]s = pick.endpoint AND (scheduled_at, id) > (pick.at, pick.id) AND scheduled_at <= %[4]s
					ORDER BY scheduled_at, id LIMIT 1)
			)
			UPDATE river_job SET state = 'running', attempt = min(attempt + 1, %[3]d), attempted_at = %[4]s,
				attempted_by = jsonb_array($2)
			WHERE id IN (SELECT id FROM pick)
			RETURNING id, CASE WHEN json_valid(args, 9) THEN json(args) ELSE 'null' END,
				CASE WHEN json_valid(metadata, 5) THEN json(metadata) ELSE metadata END, attempt, attempted_at, created_at, %[1]s`,
			s.endpoint(), s.available(), math.MaxInt16, s.after(`0`), fmt.Sprintf(alone, `value ->> 'endpoint'`))
	}
	return fmt.Sprintf(`
		WITH taken AS MATERIALIZED (
			SELECT job.id FROM jsonb_to_recordset($1::jsonb) AS want (endpoint text, n int),
				LATERAL (SELECT id FROM river_job WHERE %[2]s AND %[1]s = want.endpoint AND scheduled_at <= now()
					ORDER BY scheduled_at, id LIMIT want.n FOR UPDATE SKIP LOCKED) AS job
			WHERE NOT %[4]s
		)
		UPDATE river_job SET state = 'running', attempt = LEAST(attempt + 1, %[3]d), attempted_at = now(),
			attempted_by = ARRAY[$2]
		WHERE id = ANY (ARRAY(SELECT id FROM taken)) -- for a join, PostgreSQL may read the whole table
		RETURNING id, args, metadata, attempt, attempted_at, created_at, %[1]s`, s.endpoint(), s.available(), math.MaxInt16,
		fmt.Sprintf(alone, `want.endpoint`))
}
