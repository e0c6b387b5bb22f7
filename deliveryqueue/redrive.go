package deliveryqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// ErrNotFound is in the error of Cancel and Request for an unknown ID.
var ErrNotFound = errors.New("deliveryqueue: there is no such delivery")

// Cancel cancels a delivery. An attempt in progress is canceled as soon as its
// process notices; the delivery is then canceled unless the attempt succeeded
// or was the last. A canceled dead letter is deleted after
// Config.KeepDelivered, like a delivered one. Cancel returns an error if the
// delivery has already been delivered.
func (q *Queue) Cancel(ctx context.Context, id int64) error {
	var job *rivertype.JobRow
	err := q.store.db.bounded(ctx, func(ctx context.Context) (err error) {
		job, err = q.store.cancel(ctx, id)
		return err
	})
	switch {
	case errors.Is(err, rivertype.ErrNotFound):
		return fmt.Errorf("%w: %d", ErrNotFound, id)
	case err != nil:
	case stateOf(job.State) == Delivered:
		err = fmt.Errorf("delivery %d is delivered already", id)
	case stateOf(job.State) == Dead:
		var n int
		if n, err = q.cancelAll(ctx, Filter{IDs: []int64{id}, State: Dead}); err == nil && n == 0 {
			err = fmt.Errorf("delivery %d was redriven meanwhile", id)
		}
	}
	return errorOf("Cancel", err)
}

// CancelAll cancels the deliveries that f selects, as Cancel does, also dead
// letters, and returns their number, even with an error. An attempt in progress
// is not cut off; its delivery is canceled unless it succeeds or is the last.
// Filter.State must be Waiting, Running, Dead or "". f must not be the zero Filter:
// to cancel all deliveries, set Before to the current time.
func (q *Queue) CancelAll(ctx context.Context, f Filter) (n int, err error) {
	switch {
	case f.State == Delivered || f.State == Canceled:
		err = fmt.Errorf("Filter.State is %q; it must be waiting, running or dead, or empty", f.State)
	case reflect.ValueOf(f).IsZero():
		err = errors.New("the Filter is empty; to cancel all deliveries, set Before to the present")
	default:
		n, err = q.cancelAll(ctx, f)
	}
	return n, errorOf("CancelAll", err)
}

func (q *Queue) cancelAll(ctx context.Context, f Filter) (n int, err error) {
	now, state := q.store.after(`0`), `::river_job_state`
	marked := `metadata || jsonb_build_object('cancel_attempted_at', ` + now + `)`
	if q.store.sqlite {
		state = ``
		marked = `jsonb_patch(` + q.store.metadata() + `, jsonb_object('cancel_attempted_at', ` + now + `))`
	}
	return q.inBatches(ctx, f, fmt.Sprintf(`UPDATE river_job SET
			state = (CASE WHEN state = 'running' THEN 'running' ELSE 'cancelled' END)%[1]s,
			finalized_at = CASE WHEN state <> 'running' THEN %[2]s END,
			metadata = CASE WHEN state = 'running' THEN %[3]s ELSE metadata END`, state, now, marked),
		`state NOT IN ('cancelled', 'completed')`)
}

// Redrive makes the dead letters that f selects wait for delivery again, from
// the beginning of their policies and with the same bodies, headers and
// idempotency keys. It returns their number, even with an error: it redrives
// 5,000 at a time, so that others can use the store in between.
//
// With Filter.State, it does so with what is Delivered or Canceled instead of the
// dead letters. What is Waiting continues with its policy, and its next attempt is
// due now; a Retry-After, a throttle and a Pause of its endpoint hold.
//
// It leaves those whose deadlines have passed as they are. If there are any, the
// error is a [*DeadlinePassedError].
func (q *Queue) Redrive(ctx context.Context, f Filter) (n int, err error) {
	return q.redrive(ctx, f, 0)
}

// RedriveUntil is like Redrive, with a new deadline for all that f selects.
func (q *Queue) RedriveUntil(ctx context.Context, f Filter, deadline time.Time) (n int, err error) {
	until, err := deadlineOf(deadline)
	if err == nil && !deadline.After(time.Now()) {
		err = fmt.Errorf("the deadline is %v; it must be in the future", deadline)
	}
	if err != nil {
		return 0, fmt.Errorf("deliveryqueue: Redrive: %w", err)
	}
	return q.redrive(ctx, f, until)
}

// A DeadlinePassedError is the error of Redrive for deliveries that were not
// redriven, because their deadlines have passed.
type DeadlinePassedError struct{ N int } // deliveries

func (e *DeadlinePassedError) Error() string {
	return fmt.Sprintf("deliveryqueue: Redrive: the deadlines of %d deliveries have passed", e.N)
}

func (q *Queue) redrive(ctx context.Context, f Filter, until int64) (n int, err error) {
	if f.State = cmp.Or(f.State, Dead); f.State == Running {
		return 0, errors.New("deliveryqueue: Redrive: Filter.State is running; it must be waiting, delivered, dead or canceled, or empty")
	}
	fresh, args := "metadata - 'output' - 'cancel_attempted_at'", `jsonb_set(args, '{deadline}', '%d')`
	passed := `CASE WHEN args ->> 'deadline' ~ '^[0-9]{1,18}$' THEN CAST(args ->> 'deadline' AS bigint) < %s ELSE false END`
	if q.store.sqlite {
		fresh = `jsonb_patch(` + q.store.metadata() + `, '{"output": null, "cancel_attempted_at": null}')`
		args = `CASE WHEN json_valid(args, 9) THEN jsonb_patch(args, '{"deadline": %d}') ELSE args END`
		passed = `CASE WHEN json_valid(args, 9) THEN COALESCE(args ->> 'deadline', 0) BETWEEN 1 AND %s ELSE false END`
	}
	passed = fmt.Sprintf(passed, q.store.micros())
	update := fmt.Sprintf(`UPDATE river_job SET state = 'available', scheduled_at = %s`, q.store.after(`0`))
	if f.State != Waiting {
		update += fmt.Sprintf(`, priority = %d, attempt = 0, finalized_at = NULL, metadata = %s`, priority, fresh)
	}
	condition, refused := fmt.Sprintf(`state IN (%s)`, stateList(f.State)), 0
	if until != 0 {
		update += `, args = ` + fmt.Sprintf(args, until)
	} else {
		condition += ` AND NOT ` + passed
		refused, err = q.count(ctx, f, passed)
	}
	if err == nil {
		n, err = q.inBatches(ctx, f, update, condition)
	}
	if err != nil {
		return n, fmt.Errorf("deliveryqueue: Redrive: %w", err)
	}
	q.asked.give()
	if refused > 0 {
		return n, &DeadlinePassedError{refused}
	}
	return n, nil
}

func (q *Queue) count(ctx context.Context, f Filter, condition string) (n int, err error) {
	where, params, err := q.store.where(f)
	if err != nil {
		return 0, err
	}
	err = q.store.reading.QueryRowContext(ctx, q.store.query(
		`SELECT count(*) FROM river_job WHERE `+where+` AND `+condition), params...).Scan(&n)
	return n, err
}

const (
	batchSize     = 5000    // deliveries that a statement of Redrive and CancelAll changes
	deadlocked    = "40P01" // the SQLSTATE of a statement that PostgreSQL ended so that another one could continue
	mostDeadlocks = 10      // consecutive ones of a call are an error
)

// inBatches changes the deliveries that f selects by an update, if they meet a
// condition, and returns their number.
func (q *Queue) inBatches(ctx context.Context, f Filter, update, condition string) (n int, err error) {
	where, params, err := q.store.where(f)
	if err != nil {
		return 0, err
	}
	deadlocks, batch := 0, batchSize
	for last := int64(0); ; { // deliveries that fail again meanwhile are not redriven twice
		if f.Limit > 0 {
			batch = min(batchSize, f.Limit-n)
		}
		ids, err := q.store.ids(ctx, q.store.reading,
			fmt.Sprintf(`SELECT id FROM river_job WHERE %s AND %s%s`, where, condition, f.next(last, batch)), params)
		if err != nil || len(ids) == 0 {
			return n, err
		}
		changed, err := q.store.ids(ctx, q.store.db.patient(),
			fmt.Sprintf(`%s WHERE id IN %s AND %s RETURNING id`, update, idList(ids), condition), nil)
		if deadlocks++; sqlState(err) == deadlocked && deadlocks < mostDeadlocks { // with outcomes that were committed meanwhile
			continue
		}
		deadlocks = 0
		if n += len(changed); err != nil || f.Limit > 0 && n == f.Limit {
			return n, err
		}
		last = ids[len(ids)-1] // another process may have changed some of them since
	}
}
