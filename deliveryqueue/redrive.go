package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/riverqueue/river/rivertype"
)

// ErrNotFound is in the error of Cancel for an unknown ID.
var ErrNotFound = errors.New("deliveryqueue: there is no such delivery")

// Cancel cancels a delivery. An attempt in progress is canceled as soon as its
// process notices; the delivery is then canceled unless the attempt succeeded
// or was the last. A canceled dead letter is deleted after
// Config.KeepDelivered, like a delivered one. Cancel returns an error if the
// delivery has already been delivered.
func (q *Queue) Cancel(ctx context.Context, id int64) error {
	var state string
	err := q.store.db.QueryRowContext(ctx, q.store.query(
		`SELECT state FROM river_job WHERE id = $1 AND queue = $2`), id, queueName).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: %d", ErrNotFound, id)
	case err != nil:
		return fmt.Errorf("deliveryqueue: Cancel: %w", err)
	}
	if !isFinal(rivertype.JobState(state)) {
		job, err := q.store.cancel(ctx, id)
		if err != nil {
			return fmt.Errorf("deliveryqueue: Cancel: %w", err)
		}
		state = string(job.State)
	}
	switch stateOf(rivertype.JobState(state)) {
	case Delivered:
		return fmt.Errorf("deliveryqueue: Cancel: delivery %d is delivered already", id)
	case Dead:
		if err := q.dropDeadLetter(ctx, id); err != nil {
			return fmt.Errorf("deliveryqueue: Cancel: %w", err)
		}
	}
	return nil
}

// dropDeadLetter cancels a dead letter. It returns an error if the delivery is
// no longer one.
func (q *Queue) dropDeadLetter(ctx context.Context, id int64) error {
	result, err := q.store.db.ExecContext(ctx, q.store.query(fmt.Sprintf(
		`UPDATE river_job SET state = 'cancelled', finalized_at = %s
		WHERE id = $1 AND queue = $2 AND state = 'discarded'`, q.store.after("0"))), id, queueName)
	if err != nil {
		return err
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("delivery %d was redriven meanwhile", id)
	}
	return nil
}

// Redrive makes the dead letters that f selects wait for delivery again, from
// the beginning of their policies and with the same bodies, headers and
// idempotency keys. It returns their number, also with an error: it redrives
// 5,000 at a time, so that others can use the store meanwhile. Filter.State must
// be Dead or "".
func (q *Queue) Redrive(ctx context.Context, f Filter) (n int, err error) {
	if f.State != "" && f.State != Dead {
		return 0, fmt.Errorf("deliveryqueue: Redrive: Filter.State is %.20q; it must be dead, or empty", f.State)
	}
	f.State = Dead
	where, params, err := q.store.where(f)
	if err != nil {
		return 0, fmt.Errorf("deliveryqueue: Redrive: %w", err)
	}
	for last := int64(0); ; { // what fails again meanwhile is not redriven once more
		batch := redriveBatch
		if f.Limit > 0 {
			batch = min(batch, f.Limit-n)
		}
		ids, err := q.redrive(ctx, fmt.Sprintf("%s AND id > %d", where, last), params, batch)
		if err != nil {
			return n, fmt.Errorf("deliveryqueue: Redrive: %w", err)
		}
		if n += len(ids); len(ids) < batch || n == f.Limit {
			return n, nil
		}
		last = slices.Max(ids)
	}
}

// redriveBatch is how many dead letters a statement redrives.
const redriveBatch = 5000

// redrive redrives the first of the dead letters that a condition selects, and
// returns their IDs.
func (q *Queue) redrive(ctx context.Context, where string, params []any, batch int) (ids []int64, err error) {
	fresh := "metadata - 'output' - 'cancel_attempted_at'"
	if q.store.sqlite {
		fresh = `jsonb_patch(` + q.store.metadata() + `, '{"output": null, "cancel_attempted_at": null}')`
	}
	rows, err := q.store.db.QueryContext(ctx, q.store.query(fmt.Sprintf(
		`UPDATE river_job SET state = 'available', priority = %d, attempt = 0, finalized_at = NULL,
			metadata = %s, scheduled_at = %s
		WHERE id IN (SELECT id FROM river_job WHERE %s ORDER BY id LIMIT %d) AND state = 'discarded' RETURNING id`,
		priority, fresh, q.store.after(`0`), where, batch)), params...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
