package deliveryqueue

import (
	"context"
	"fmt"
	"time"
)

// step is the interval of the sweeps, and how early a job is made available.
const step = 5 * time.Second

// sweepUntil sweeps until ctx ends.
func (q *Queue) sweepUntil(ctx context.Context) {
	for {
		if err := q.sweep(ctx); err != nil && ctx.Err() == nil {
			q.config.Logger.WarnContext(ctx, "deliveryqueue: looking for what is due", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(q.timing.sweep):
		}
	}
}

// sweepLimit is the maximum number of jobs that a statement of a sweep changes,
// so that other statements do not wait long for it.
const sweepLimit = 10_000

// wornLimit is how many jobs a sweep looks at that would be fetched next.
const wornLimit = 1000

// sweep does in each process and by the store's clock what River does only in
// its leader and by the leader's clock.
func (q *Queue) sweep(ctx context.Context) error {
	s := &q.store
	state, skip := `::river_job_state`, `FOR UPDATE SKIP LOCKED`
	if s.sqlite {
		state, skip = ``, ``
	}
	// Repeat the attempts of processes that died.
	died := fmt.Sprintf(`
		UPDATE river_job SET
			state = (CASE WHEN (%[1]s) ->> 'cancel_attempted_at' IS NOT NULL THEN 'cancelled'
				WHEN attempt >= max_attempts THEN 'discarded' ELSE 'available' END)%[2]s,
			finalized_at = CASE WHEN (%[1]s) ->> 'cancel_attempted_at' IS NOT NULL OR attempt >= max_attempts THEN %[3]s END,
			scheduled_at = %[3]s
		WHERE id IN (SELECT id FROM river_job WHERE state = 'running' AND queue = $1 AND (attempted_at < %[4]s OR attempted_at IS NULL)
			LIMIT %[5]d %[6]s)`,
		s.metadata(), state, s.after(`0`), s.after(fmt.Sprint(-q.rescueAfter().Seconds())), sweepLimit, skip)
	// Make available the attempts that are due before the next sweep. All jobs
	// have these priorities; the condition lets the query use an index of
	// River's.
	due := fmt.Sprintf(`
		UPDATE river_job SET state = 'available'
		WHERE id IN (SELECT id FROM river_job
			WHERE state IN ('scheduled', 'retryable') AND queue = $1 AND priority IN (1, 2) AND scheduled_at <= %s
			ORDER BY scheduled_at LIMIT %d %s)`, s.after(fmt.Sprint(step.Seconds())), sweepLimit, skip)
	// Make due what a process whose clock is ahead has enqueued. Exclude
	// retries, whose time is by the store's clock: River makes them available
	// too early if its leader's clock is ahead.
	ahead := fmt.Sprintf(`
		UPDATE river_job SET scheduled_at = %s
		WHERE id IN (SELECT id FROM river_job
			WHERE state = 'available' AND queue = $1 AND priority IN (1, 2) AND attempted_at IS NULL AND scheduled_at > %s
			LIMIT %d %s)`, s.after(`0`), s.after(fmt.Sprint(2*step.Seconds())), sweepLimit, skip)
	// Bury what River cannot count any further, which would make each fetch fail.
	worn := fmt.Sprintf(`
		UPDATE river_job SET state = 'discarded', finalized_at = %s
		WHERE id IN (SELECT id FROM (SELECT id, attempt FROM river_job
			WHERE state = 'available' AND queue = $1 AND priority IN (1, 2)
			ORDER BY priority, scheduled_at, id LIMIT %d) AS first WHERE attempt >= %d)`, s.after(`0`), wornLimit, crashLimit)
	for _, statement := range []string{died, due, ahead, worn} {
		if _, err := s.db.ExecContext(ctx, s.query(statement), queueName); err != nil {
			return err
		}
	}
	return nil
}
