package deliveryqueue

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// step is the interval of the sweeps. A job that is due earlier than that is made
// available at once.
const step = 5 * time.Second

// outage is how long no sweep succeeds before it is logged, and the interval of
// further logs.
const outage = time.Minute

// forgetting is the interval between two deletions of unused rows. In SQLite, each
// deletion delays the attempts of all processes.
const forgetting = time.Hour

// A sweeps is when a sweep succeeded last, and the error of the last one.
type sweeps struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (s *sweeps) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err = err; err == nil {
		s.at = time.Now()
	}
}

func (s *sweeps) last() (at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, s.err
}

// Swept returns when Run last made available what is due and repeated what
// processes that died had in progress, which it does every 5 s. The zero time: Run
// has not done so.
func (q *Queue) Swept() time.Time {
	at, _ := q.sweeps.last()
	return at
}

// sweepUntil sweeps until ctx ends. It calls end if the store no longer exists.
func (q *Queue) sweepUntil(ctx context.Context, l *ledger, end func(error)) {
	var forgot time.Time
	for {
		if err := q.check(); err != nil {
			q.config.Logger.ErrorContext(ctx, "deliveryqueue: Run stops", "error", err)
			end(err)
			return
		}
		err := q.sweep(ctx)
		if err == nil {
			err = q.note(ctx, l)
		}
		if err == nil && time.Since(forgot) >= forgetting {
			err = q.store.forget(ctx)
			forgot = time.Now()
		}
		q.sweeps.ended(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
	}
}

// note stores the successes that the store does not have.
func (q *Queue) note(ctx context.Context, l *ledger) error {
	all := l.unnoted(time.Now())
	if len(all) == 0 {
		return nil
	}
	err := q.store.noteSuccesses(ctx, all)
	if err == nil {
		l.note(all)
	}
	return err
}

// watchSweeps logs, until ctx ends, when no sweep succeeds for long: the store fails,
// or a statement hangs.
func (q *Queue) watchSweeps(ctx context.Context) {
	began := time.Now()
	var failing, logged time.Time // zero: the store works
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
		at, err := q.sweeps.last()
		if at.Before(began) {
			at = began
		}
		switch now := time.Now(); {
		case !logged.IsZero() && at.After(logged):
			q.config.Logger.WarnContext(ctx, "deliveryqueue: the store is back", "failed for", at.Sub(failing))
			logged = time.Time{}
		case now.Sub(at) >= outage && now.Sub(logged) >= outage:
			q.config.Logger.ErrorContext(ctx, "deliveryqueue: the store fails, and deliveries wait", "for", now.Sub(at), "error", err)
			failing, logged = at, now
		}
	}
}

// sweepLimit is the maximum number of jobs that a statement of a sweep changes,
// so that other statements do not wait long for it, and it ends in time.
const sweepLimit = 2000

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
	// Make available the attempts that are due before the next sweep, also if that
	// is late. All jobs have these priorities; the condition lets the query use an index of
	// River's.
	due := fmt.Sprintf(`
		UPDATE river_job SET state = 'available'
		WHERE id IN (SELECT id FROM river_job
			WHERE state IN ('scheduled', 'retryable') AND queue = $1 AND priority IN (1, 2) AND scheduled_at <= %s
			ORDER BY scheduled_at LIMIT %d %s)`, s.after(fmt.Sprint(2*step.Seconds())), sweepLimit, skip)
	for _, statement := range []string{died, due} {
		for changed := int64(sweepLimit); changed == sweepLimit; {
			result, err := s.db.ExecContext(ctx, s.query(statement), queueName)
			if err != nil {
				return err
			}
			if changed, err = result.RowsAffected(); err != nil {
				return err
			}
		}
	}
	return nil
}
