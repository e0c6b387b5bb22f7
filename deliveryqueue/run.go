package deliveryqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/riverqueue/river"
)

// fetchCooldown is the least time between two fetches, which themselves wait.
const fetchCooldown = time.Millisecond

// forever disables River's cleaning and rescuing. Not every setting accepts River's
// own value for that, -1.
const forever = 100 * 365 * 24 * time.Hour

// cutOff is how long Run waits for attempts that it canceled.
const cutOff = 5 * time.Second

// Run makes the attempts until ctx ends, Config.Workers at a time. Then it
// takes no more deliveries and waits at most Config.StopTimeout for the
// attempts in progress. It returns nil if all have ended. Otherwise it cancels
// them, waits at most 5 s, and returns an error; the next Run repeats them. It
// also stops, and returns an error, if the SQLite file is deleted or replaced.
//
// Any number of processes may run the same store.
func (q *Queue) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	workers := river.NewWorkers()
	f := q.newFetcher(ctx)
	river.AddWorker(workers, &worker{queue: q, fetcher: f})
	keep := q.config.KeepDelivered
	if keep < 0 {
		keep = forever
	}
	runner, err := q.store.runner(&river.Config{
		Queues:                      map[string]river.QueueConfig{queueName: {MaxWorkers: q.config.sockets()}},
		Workers:                     workers,
		Logger:                      q.river,
		SoftStopTimeout:             q.config.StopTimeout,
		JobTimeout:                  q.jobTimeout(),
		RescueStuckJobsAfter:        forever, // River goes by the process's clock; see sweep
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           fetchCooldown,         // fetcher.fetch waits
		CompletedJobRetentionPeriod: max(keep, delivering), // disable reads them
		CancelledJobRetentionPeriod: keep,
		DiscardedJobRetentionPeriod: forever, // dead letters
	}, f)
	if err != nil {
		return fmt.Errorf("deliveryqueue: Run: %w", err)
	}
	if err := runner.Start(ctx); err != nil && ctx.Err() != nil {
		return nil // it has begun nothing
	} else if err != nil {
		return fmt.Errorf("deliveryqueue: Run: %w", errors.Join(q.check(), err))
	}
	var sweeping sync.WaitGroup
	sweeping.Go(func() { q.sweepUntil(ctx, f.ledger, end) })
	sweeping.Go(func() { q.watchSweeps(ctx) })
	<-ctx.Done()
	defer sweeping.Wait() // after the stop, which is timed
	begin := time.Now()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.config.StopTimeout+cutOff)
	defer cancel()
	select {
	case <-runner.Stopped():
	case <-stopping.Done():
	}
	if time.Since(begin) >= q.config.StopTimeout {
		err = fmt.Errorf("deliveryqueue: Run: attempts were not finished within Config.StopTimeout, %v, and were cut off",
			q.config.StopTimeout)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errReplaced) {
		return errors.Join(fmt.Errorf("deliveryqueue: Run: %w", cause), err)
	}
	if err := q.note(stopping, f.ledger); err != nil {
		q.config.Logger.DebugContext(ctx, "deliveryqueue: the last successes were not noted", "error", err)
	}
	return err
}

// jobTimeout bounds the run of a job: the attempt, and the waits before and
// after it.
func (q *Queue) jobTimeout() time.Duration {
	return q.config.AttemptTimeout + longestWait + settleTimeout
}

// rescueSlack is how long after the end of its time a job's process counts as dead.
const rescueSlack = 5 * time.Second

// rescueAfter returns how long after a job began its process counts as dead.
func (q *Queue) rescueAfter() time.Duration { return q.jobTimeout() + rescueSlack }
