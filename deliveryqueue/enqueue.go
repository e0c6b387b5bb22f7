package deliveryqueue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"

	"example.com/awsretry/delivery"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Options configures one delivery. The zero value is ready to use.
type Options struct {
	// Policy is the delivery policy: retries, content type and throttle. The
	// throttle counts the attempts of all deliveries to the endpoint (the URL's
	// scheme and host) by all processes. nil: the default policy.
	Policy *delivery.Policy

	// IdempotencyKey is sent with each attempt in the header Idempotency-Key.
	// "": the request's own, or a random one. Enqueue does not deduplicate: two
	// deliveries may have the same key. It returns an error for a key with
	// control characters and for a request with two keys.
	IdempotencyKey string
}

// crashLimit is how often a process may die during the attempts of a delivery
// before that becomes a dead letter.
const crashLimit = 1000

// Enqueue stores a delivery durably and returns its ID. It reads and closes the
// request's body. The error is a [*BodyTooLargeError] if the body is longer
// than Config.MaxBody. The request's context is not used.
//
// After an error of ctx or of the connection to the store, the delivery may be
// stored. Enqueue waits up to 5 s for an SQLite file that another process
// has locked, even if ctx ends earlier.
func (q *Queue) Enqueue(ctx context.Context, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.insert)
}

// EnqueueTx is like Enqueue within a transaction in the same SQLite file. The
// delivery is stored when the transaction commits, as durably as the
// transaction's own connection commits.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.within(tx))
}

// EnqueuePgxTx is like Enqueue within a transaction in the same PostgreSQL
// database. The delivery is stored when the transaction commits.
func (q *Queue) EnqueuePgxTx(ctx context.Context, tx pgx.Tx, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.within(tx))
}

// An insertFunc inserts a job.
type insertFunc func(context.Context, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error)

// within returns the insertFunc of a transaction.
func (s *store) within(tx any) insertFunc {
	return func(
		ctx context.Context, a river.JobArgs, opts *river.InsertOpts,
	) (*rivertype.JobInsertResult, error) {
		return s.insertTx(ctx, tx, a, opts)
	}
}

func (q *Queue) enqueue(ctx context.Context, req *http.Request, o Options, insert insertFunc) (int64, error) {
	a, h, err := q.encode(req, o)
	if err != nil {
		return 0, fmt.Errorf("deliveryqueue: Enqueue: %w", err)
	}
	meta, err := json.Marshal(map[string]head{headKey: h})
	if err != nil {
		return 0, fmt.Errorf("deliveryqueue: Enqueue: %w", err)
	}
	result, err := insert(ctx, a, &river.InsertOpts{
		Queue: queueName, Priority: priority, MaxAttempts: crashLimit, Metadata: meta,
	})
	if err != nil {
		return 0, fmt.Errorf("deliveryqueue: Enqueue: %w", err)
	}
	return result.Job.ID, nil
}
