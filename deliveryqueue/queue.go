package deliveryqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Queue is a store of deliveries. Any number of processes may open the same
// store, to enqueue deliveries, to run them, or both. A Queue is safe for
// concurrent use. Open returns one; the zero value is not usable.
type Queue struct {
	config Config
	river  *slog.Logger // for River
	store  store

	settling   *group
	transports transports
	ownFaults  rarely
	newerRows  rarely
	sweeps     sweeps
	closed     atomic.Bool
	asked      signal // for the fetchers of Run
}

// Open opens a store: a PostgreSQL database if store begins with postgres:// or
// postgresql://, or has a host= as in libpq, and otherwise an SQLite file,
// which Open creates if it is missing, readable by its owner only. Open creates
// or updates River's tables and its own. It returns an error if a newer version
// has updated them so that this one cannot use them.
//
// A pool or an sql.DB, for example one whose passwords expire, must be of
// PostgreSQL. Close does not close it. With an sql.DB, new deliveries of other
// processes wait for a poll. Its driver must give up a connection that does not
// answer when a statement's context ends, as pgx's does.
//
// Give the queue its own database, or a schema that is the first one of the
// search_path when Open is called. The settings of Run apply to all of River's jobs
// there, and those of another River client apply to the queue's: by default it
// deletes dead letters after 7 days. An SQLite file may have tables of the
// caller's, as EnqueueTx requires.
// Open sets its journal mode to WAL. If another process has locked the file,
// Open may return up to 5 s after ctx has ended.
func Open[Store ~string | *pgxpool.Pool | *sql.DB](ctx context.Context, store Store, config Config) (*Queue, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	river := config.Logger
	if river == nil {
		river = slog.New(slog.DiscardHandler)
	}
	config = config.withDefaults()
	s, err := openStore(ctx, store, river)
	if err != nil {
		return nil, fmt.Errorf("deliveryqueue: Open: %w", err)
	}
	return &Queue{config: config, river: river, store: *s, settling: newGroup(), asked: make(signal, 1)}, nil
}

// Close closes the store, and the idle connections of Config.Base. Call it after each
// Run has returned. Deliveries stay in the store.
func (q *Queue) Close() error {
	q.closed.Store(true)
	q.transports.closeIdleConnections()
	return q.store.close()
}

var errClosed = errors.New("the Queue is closed")

// check returns an error if the queue was closed, or a file of its store no longer
// exists.
func (q *Queue) check() error {
	if q.closed.Load() {
		return errClosed
	}
	return q.store.check()
}

// errorOf returns err as the error of an exported method, or nil.
func errorOf(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("deliveryqueue: %s: %w", method, err)
}

// rarely limits how often something is done.
type rarely struct{ last atomic.Int64 } // in Unix nanoseconds

// due reports whether the last time that it reported true is that long ago, or the
// clock was set back since then.
func (r *rarely) due(every time.Duration) bool {
	now, last := time.Now().UnixNano(), r.last.Load()
	return (now-last >= every.Nanoseconds() || now < last) && r.last.CompareAndSwap(last, now)
}
