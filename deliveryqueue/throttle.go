package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"example.com/awsretry/delivery"
	"github.com/riverqueue/river/rivertype"
)

// The throttle of an endpoint is a row in the store with the time of the next
// free turn. An attempt takes that turn if it is near, and its job then runs
// again just before it. Otherwise the job only gets a place in the line after
// the jobs that have a turn, and asks again when that place is due. A turn that
// is not used, because its process died, is lost. An attempt that missed its
// turn takes another and waits for it in the worker, so that it does not miss
// that one too if the store is slow.

const (
	// turnsAhead is how far ahead turns are taken. For so short a delay, River
	// does not need its leader to run the job.
	turnsAhead = 4 * time.Second

	// turnsAheadOfMissed is turnsAhead for an attempt that missed a turn.
	turnsAheadOfMissed = 2 * turnsAhead

	// longestLine is the longest time until a job asks again, because the line
	// may have become shorter.
	longestLine = 10 * time.Minute

	// tooLate is the longest time after its turn at which an attempt may be
	// made.
	tooLate = 250 * time.Millisecond

	// longestInterval is the interval at a maxReceivesPerSecond of 1.
	longestInterval = time.Second

	// longestAhead is the longest time until a turn.
	longestAhead = turnsAheadOfMissed + longestInterval
)

// hold is the longest wait for a turn in a worker. A job that runs again for
// its turn begins that much earlier.
func (q *Queue) hold() time.Duration { return min(2*q.config.PollInterval, longestAhead) }

// throttle waits for the turn of an attempt, and reports whether it has come.
// If the wait is longer than hold, it returns the delay until the job should
// run again. It sets rec.Turn.
func (q *Queue) throttle(
	ctx context.Context, clock clock, policy *delivery.Policy, endpoint string, rec *record,
) (now bool, later time.Duration, err error) {
	if policy.ThrottlePolicy == nil || policy.ThrottlePolicy.MaxReceivesPerSecond == nil {
		return true, 0, nil
	}
	interval := time.Second / time.Duration(*policy.ThrottlePolicy.MaxReceivesPerSecond)
	hold, ahead := q.hold(), turnsAhead
	if rec.Turn != 0 && clock.until(rec.turn()) < -tooLate {
		hold, ahead = q.timing.hold, turnsAheadOfMissed
		rec.Turn = 0
	}
	if rec.Turn == 0 || clock.until(rec.turn()) > longestAhead { // or the clock was set back
		wait, taken, err := q.store.takeTurn(ctx, endpoint, interval, ahead)
		if err != nil {
			return false, 0, fmt.Errorf("the throttle of %s: %w", endpoint, err)
		}
		rec.Turn = 0
		if !taken {
			return false, wait, nil
		}
		rec.Turn = clock.now().Add(wait).UnixMicro()
	}
	wait := clock.until(rec.turn())
	if wait > hold {
		return false, wait - hold, nil
	}
	select {
	case <-ctx.Done(): // Run stops
		return false, 0, nil
	case <-time.After(wait):
		return true, 0, nil
	}
}

// A clock tells the store's time, from its time when the job was fetched.
type clock struct{ store, process time.Time }

func clockOf(job *rivertype.JobRow) clock {
	c := clock{process: time.Now()}
	c.store = c.process
	if job.AttemptedAt != nil {
		c.store = *job.AttemptedAt
	}
	return c
}

func (c clock) now() time.Time { return c.store.Add(time.Since(c.process)) }

func (c clock) until(t time.Time) time.Duration { return t.Sub(c.now()) }

// A line is an endpoint's row.
type line struct {
	next time.Time // the next attempt's turn
	tail time.Time // the place of the last job in the line
}

// take takes the next turn if it is at most ahead from now, and otherwise a
// place in the line. It returns the time until then.
func (l *line) take(now time.Time, interval, ahead time.Duration) (wait time.Duration, taken bool) {
	if l.next.Before(now) || l.next.After(now.Add(longestAhead)) { // or the clock was set back
		l.next = now
	}
	turn := l.next
	if turn.Sub(now) <= ahead {
		l.next = turn.Add(interval)
		return turn.Sub(now), true
	}
	if l.tail.Before(turn) {
		l.tail = turn
	}
	l.tail = l.tail.Add(interval)
	if longest := now.Add(longestLine); l.tail.After(longest) {
		l.tail = longest
	}
	return l.tail.Sub(now), false
}

// takeTurn takes the next turn of an endpoint, or a place in its line.
func (s *store) takeTurn(
	ctx context.Context, endpoint string, interval, ahead time.Duration,
) (wait time.Duration, taken bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}()
	if _, err = tx.ExecContext(ctx, s.query(`INSERT INTO deliveryqueue_endpoint (endpoint, next_at, tail_at)
		VALUES ($1, 0, 0) ON CONFLICT DO NOTHING`), endpoint); err != nil {
		return 0, false, err
	}
	// One clock for all processes.
	read := `SELECT next_at, tail_at, (extract(epoch from clock_timestamp()) * 1000000)::bigint
		FROM deliveryqueue_endpoint WHERE endpoint = $1 FOR UPDATE`
	if s.sqlite {
		read = `SELECT next_at, tail_at, 0 FROM deliveryqueue_endpoint WHERE endpoint = $1`
	}
	var next, tail, clock int64
	if err = tx.QueryRowContext(ctx, s.query(read), endpoint).Scan(&next, &tail, &clock); err != nil {
		return 0, false, err
	}
	now := time.UnixMicro(clock)
	if s.sqlite {
		now = time.Now()
	}
	l := line{time.UnixMicro(next), time.UnixMicro(tail)}
	wait, taken = l.take(now, interval, ahead)
	if _, err = tx.ExecContext(ctx, s.query(`UPDATE deliveryqueue_endpoint SET next_at = $1, tail_at = $2
		WHERE endpoint = $3`), l.next.UnixMicro(), l.tail.UnixMicro(), endpoint); err != nil {
		return 0, false, err
	}
	return wait, taken, tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
