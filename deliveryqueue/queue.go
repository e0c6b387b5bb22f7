package deliveryqueue

import (
	"context"
	"fmt"
	"time"
)

// A Queue is a store of deliveries. Any number of processes may have the same
// store open, those that enqueue and those that run it. A Queue is safe for
// concurrent use.
type Queue struct {
	config Config
	store  store
	timing timing

	settling *group
}

// timing has what tests shorten.
type timing struct {
	hold   time.Duration // how long an attempt waits for its turn in the worker at most
	settle time.Duration // how long the outcome of an attempt waits for the store
	rescue time.Duration // how long after an attempt has to be over its process counts as dead
	sweep  time.Duration // between two looks for such attempts
}

var defaultTiming = timing{
	hold: longestAhead, settle: 30 * time.Second, rescue: 5 * time.Second, sweep: 5 * time.Second,
}

// Open opens a store: a PostgreSQL database if it begins with postgres:// or
// postgresql://, and else an SQLite file, which Open makes if it is missing,
// readable by its owner only. Open makes River's tables and its own, and brings
// those of an older version up to date. The tables of a newer version are an
// error.
//
// Give the queue a database of its own, or, by the URL's search_path, a schema:
// the settings of its Run are for all of River's jobs in there, and those of
// another River client for the queue's: by default one of them deletes dead
// letters after 7 days. A file may have tables of the caller's, as EnqueueTx
// needs it: Open adds its own to any SQLite file, and sets its journal mode to
// WAL. A file that another process has locked can hold Open up for 5 s after
// ctx has ended.
func Open(ctx context.Context, store string, config Config) (*Queue, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	s, err := openStore(ctx, store, config.Logger)
	if err != nil {
		return nil, fmt.Errorf("deliveryqueue: Open: %w", err)
	}
	return &Queue{config: config, store: s, timing: defaultTiming, settling: newGroup()}, nil
}

// Close closes the store. End each Run before. Deliveries stay in the store.
func (q *Queue) Close() error { return q.store.close() }
