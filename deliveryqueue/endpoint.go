package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"example.com/awsretry/delivery"
	"github.com/riverqueue/river/rivertype"
)

// The processes share what they know about an endpoint in a row of the store: when
// its throttle has the next turn (next_at), until when it gets no attempts because
// of its Retry-After or before the next probe (alone_until), and how its last
// attempts ended. An endpoint without a row has none of these.

const (
	// tooLate is the longest time after its turn at which an attempt may be
	// made.
	tooLate = 250 * time.Millisecond

	// longestHold is the longest time until a turn, and the longest time without
	// attempts at an endpoint. A time farther ahead means that the clock was set
	// back.
	longestHold = time.Hour

	// early is how long before its turn a delivery is taken. It then waits in a
	// worker.
	early = 30 * time.Millisecond

	// longestWait is the longest wait for a turn in a worker, for an attempt that
	// missed its turn because the store is slow.
	longestWait = 9 * time.Second

	// probeInterval is the time between two attempts at a disabled endpoint.
	probeInterval = 5 * time.Minute
)

// A rate is a throttle in attempts per second, and the ID of the delivery whose policy
// has it. The zero rate: the endpoint's.
type rate struct {
	perSecond int
	from      int64
}

// rateIsSet is the from of a rate of SetThrottle, which no delivery's replaces.
const rateIsSet = math.MaxInt64

func rateOf(id int64, policy *delivery.Policy) rate {
	if throttle := policy.ThrottlePolicy; throttle != nil && throttle.MaxReceivesPerSecond != nil {
		return rate{*throttle.MaxReceivesPerSecond, id}
	}
	return rate{}
}

// awaitTurn takes a turn for an attempt, by the endpoint's throttle, and waits
// for it. If the endpoint is disabled, it takes the next probe instead. It reports
// false if the turn is not near, and if Run stops. An attempt that misses its turn,
// because the store is slow, takes another, which may be farther ahead.
func (q *Queue) awaitTurn(ctx context.Context, own rate, endpoint string, h health) (now bool, err error) {
	switch {
	case h.disabled:
		return q.store.takeProbe(ctx, endpoint, probeInterval)
	case !h.throttled && own == rate{}:
		return true, nil
	}
	var wait time.Duration
	for _, ahead := range []time.Duration{2 * early, longestWait} {
		asked := time.Now()
		next, taken, err := q.store.takeTurn(ctx, endpoint, own, ahead)
		if err != nil {
			return false, fmt.Errorf("a turn of %s: %w", endpoint, err)
		}
		if !taken {
			return false, nil
		}
		// It is unknown when the store read its clock. Counted from its reply, the
		// wait is too long rather than too short.
		if wait = next; wait-time.Since(asked) >= -tooLate {
			break
		}
	}
	select {
	case <-ctx.Done():
		return false, nil
	case <-time.After(wait):
		return true, nil
	}
}

// takeTurn takes the endpoint's next turn if it is at most ahead from now, and
// returns the time until then. The rate of the newest delivery becomes the endpoint's.
func (s *store) takeTurn(
	ctx context.Context, endpoint string, own rate, ahead time.Duration,
) (wait time.Duration, taken bool, err error) {
	const newer = `CAST($2 AS bigint) > 0 AND CAST($3 AS bigint) >= own.rate_from`
	const interval = `COALESCE(1000000 / NULLIF(%s, 0), 0)`
	perSecond := `CASE WHEN ` + newer + ` THEN CAST($2 AS bigint) ELSE own.per_second END`
	// The statement sets next_at to the turn plus the interval.
	err = s.db.QueryRowContext(ctx, s.query(fmt.Sprintf(`
		INSERT INTO deliveryqueue_endpoint AS own (endpoint, next_at, per_second, rate_from)
		VALUES ($1, %[1]s + %[3]s, CAST($2 AS bigint), CAST($3 AS bigint))
		ON CONFLICT (endpoint) DO UPDATE SET per_second = %[4]s,
			rate_from = CASE WHEN %[5]s THEN CAST($3 AS bigint) ELSE own.rate_from END,
			next_at = CASE WHEN own.next_at > %[1]s + $5 THEN %[1]s ELSE %[2]s(own.next_at, %[1]s) END + %[6]s
			WHERE own.next_at <= %[1]s + $4 OR own.next_at > %[1]s + $5
		RETURNING next_at - %[7]s - %[1]s`, s.micros(), s.greatest, fmt.Sprintf(interval, `CAST($2 AS bigint)`),
		perSecond, newer, fmt.Sprintf(interval, perSecond), fmt.Sprintf(interval, `per_second`))),
		endpoint, own.perSecond, own.from, ahead.Microseconds(), longestHold.Microseconds()).Scan(&wait)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return wait * time.Microsecond, err == nil, err
}

// takeProbe takes the next probe of a disabled endpoint if it is due. It also
// reports true if the endpoint is no longer disabled.
func (s *store) takeProbe(ctx context.Context, endpoint string, interval time.Duration) (taken bool, err error) {
	result, err := s.db.ExecContext(ctx, s.query(fmt.Sprintf(`
		UPDATE deliveryqueue_endpoint SET alone_until = CASE WHEN disabled_at > 0 THEN %[1]s + $2 ELSE alone_until END
		WHERE endpoint = $1 AND (alone_until <= %[1]s OR alone_until > %[1]s + $3)`, s.micros())),
		endpoint, interval.Microseconds(), longestHold.Microseconds())
	if err != nil {
		return false, fmt.Errorf("a probe of %s: %w", endpoint, err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// leaveAlone prevents attempts at the endpoint for a while.
func (s *store) leaveAlone(ctx context.Context, endpoint string, wait time.Duration) error {
	_, err := s.db.ExecContext(ctx, s.query(fmt.Sprintf(`
		INSERT INTO deliveryqueue_endpoint AS own (endpoint, alone_until) VALUES ($1, %[1]s + $2)
		ON CONFLICT (endpoint) DO UPDATE SET alone_until = CASE WHEN own.alone_until > %[1]s + $3 THEN %[1]s + $2
			ELSE %[2]s(own.alone_until, %[1]s + $2) END`, s.micros(), s.greatest)),
		endpoint, wait.Microseconds(), longestHold.Microseconds())
	return err
}

// setHealth records whether an attempt at the endpoint failed. A success enables
// the endpoint.
func (s *store) setHealth(ctx context.Context, endpoint string, failed bool) error {
	since, health := `0`, `failing_since = 0, disabled_at = 0, alone_until = CASE WHEN own.disabled_at > 0 THEN 0 ELSE own.alone_until END`
	if failed {
		since = s.micros()
		health = `failing_since = CASE WHEN own.failing_since > 0 THEN own.failing_since ELSE ` + since + ` END`
	}
	_, err := s.db.ExecContext(ctx, s.query(fmt.Sprintf(`
		INSERT INTO deliveryqueue_endpoint AS own (endpoint, failing_since, used_at) VALUES ($1, %s, %s)
		ON CONFLICT (endpoint) DO UPDATE SET %[3]s, used_at = CASE WHEN own.used_at = 0 THEN %[2]s ELSE own.used_at END`,
		since, s.micros(), health)), endpoint)
	return err
}

// disable disables the endpoint, until a probe succeeds, if every attempt has failed for
// that long and, if it must be idle, nothing was delivered to it lately. It reports
// whether this process disabled it, and since when the attempts failed.
func (s *store) disable(
	ctx context.Context, endpoint string, failing, probe time.Duration, idle bool,
) (since time.Time, disabled bool, err error) {
	var at int64
	err = s.db.QueryRowContext(ctx, s.query(fmt.Sprintf(`
		UPDATE deliveryqueue_endpoint SET disabled_at = %[1]s, alone_until = %[1]s + $3
		WHERE endpoint = $1 AND disabled_at = 0 AND failing_since BETWEEN 1 AND %[1]s - $2 AND NOT ($4 AND EXISTS (
			SELECT 1 FROM river_job WHERE state = 'completed' AND queue = '%[2]s' AND finalized_at > %[3]s AND %[4]s = $1))
		RETURNING failing_since`, s.micros(), queueName, s.after(fmt.Sprint(-delivering.Seconds())), s.endpoint())),
		endpoint, failing.Microseconds(), probe.Microseconds(), idle).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, false, nil
	}
	return time.UnixMicro(at), err == nil, err
}

// A success is the last success of an endpoint, in the store's Unix microseconds.
type success struct {
	Endpoint string `json:"endpoint"`
	At       int64  `json:"at"`
}

// noteSuccesses clears failures that other processes recorded before these
// successes, which they did not see, and records once a day that the endpoints are
// used.
func (s *store) noteSuccesses(ctx context.Context, all []success) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	rows := `jsonb_to_recordset($1::jsonb) AS seen (endpoint text, at bigint)`
	if s.sqlite {
		rows = `(SELECT value ->> 'endpoint' AS endpoint, value ->> 'at' AS at FROM json_each($1)) AS seen`
	}
	_, err = s.db.ExecContext(ctx, s.query(fmt.Sprintf(`
		UPDATE deliveryqueue_endpoint SET used_at = seen.at,
			alone_until = CASE WHEN disabled_at BETWEEN 1 AND seen.at THEN 0 ELSE alone_until END,
			disabled_at = CASE WHEN disabled_at <= seen.at THEN 0 ELSE disabled_at END,
			failing_since = CASE WHEN failing_since <= seen.at THEN 0 ELSE failing_since END
		FROM %s WHERE deliveryqueue_endpoint.endpoint = seen.endpoint
			AND (failing_since BETWEEN 1 AND seen.at OR used_at < seen.at - %d)`, rows, (24*time.Hour).Microseconds())), string(raw))
	return err
}

// forget deletes the rows of endpoints that were not used for long and have no
// delivery that waits, runs or is dead.
func (s *store) forget(ctx context.Context) error {
	has := func(index, condition string) string {
		return fmt.Sprintf(`EXISTS (SELECT 1 FROM %s WHERE %s AND %s = deliveryqueue_endpoint.endpoint)`,
			s.jobsBy(index), condition, s.endpoint())
	}
	_, err := s.db.ExecContext(ctx, s.query(fmt.Sprintf(`
		DELETE FROM deliveryqueue_endpoint WHERE used_at < %[1]s - $1 AND next_at < %[1]s AND alone_until < %[1]s AND paused_at = 0
			AND rate_from < %[5]d AND (failing_since = 0 AND disabled_at = 0 OR NOT %[2]s AND NOT %[3]s AND NOT %[4]s)`, s.micros(),
		has(dueIndex, s.available()), has(asideIndex, aside), has("", isRunning), int64(rateIsSet))), keepEndpoint.Microseconds())
	return err
}

// keepEndpoint is how long the row of an endpoint is kept after its last success,
// or after the first failure since then.
const keepEndpoint = 30 * 24 * time.Hour

// aloneUntil returns the SQL expression of when attempts at a job's endpoint are
// allowed again, or NULL.
func (s *store) aloneUntil() string {
	return fmt.Sprintf(`(SELECT own.alone_until FROM deliveryqueue_endpoint AS own
		WHERE own.endpoint = %s AND own.alone_until BETWEEN %[2]s AND %[2]s + %[3]d)`, s.endpoint(), s.micros(), longestHold.Microseconds())
}

// later returns the later one of a time and a time in Unix microseconds.
func later(t time.Time, micros sql.NullInt64) time.Time {
	if other := time.UnixMicro(micros.Int64); micros.Valid && other.After(t) {
		return other
	}
	return t
}

// micros returns the SQL expression of the time by the store's clock, in Unix
// microseconds.
func (s *store) micros() string { return s.microsOf(s.now) }

// microsOf returns the SQL expression of a time in Unix microseconds.
func (s *store) microsOf(t string) string {
	if s.sqlite {
		return `CAST(unixepoch(` + t + `, 'subsec') * 1000000 AS INTEGER)`
	}
	return `(extract(epoch from ` + t + `) * 1000000)::bigint`
}

// clockOf returns the store's clock, by its time when the job was fetched.
func clockOf(job *rivertype.JobRow) (now func() time.Time) {
	fetched := time.Now()
	return func() time.Time { return job.AttemptedAt.Add(time.Since(fetched)) }
}
