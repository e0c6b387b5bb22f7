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

// Options are those of one delivery.
type Options struct {
	// Policy is the delivery policy: its retries, its content type and its
	// throttle, which counts the attempts of all deliveries to the endpoint (the
	// URL's scheme and host) by all processes. nil: the default policy.
	Policy *delivery.Policy

	// IdempotencyKey is sent with each attempt in the header Idempotency-Key. "":
	// the request's own, or a random one. Two deliveries with the same key are
	// two deliveries. A key with control characters is refused, and so is a
	// request with two keys.
	IdempotencyKey string
}

// crashLimit is how often the process may die in the attempts of a delivery.
const crashLimit = 1000

// Enqueue stores a delivery, and returns its number when that is durable. It
// reads and closes the request's body. A body that is longer than
// Config.MaxBody is refused with a [*BodyTooLargeError]. The request's context
// is not used.
//
// After an error that is ctx's, or of the connection to the store, the delivery
// may be stored. Enqueue waits up to 5 s for an SQLite file that another process
// has locked, even if ctx ends earlier.
func (q *Queue) Enqueue(ctx context.Context, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.insert)
}

// EnqueueTx is like Enqueue, as a part of a transaction in the same SQLite file.
// The delivery is there when the transaction commits. It is as durable as the
// transaction's own connection makes it.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, req *http.Request, o Options) (int64, error) {
	return q.enqueue(ctx, req, o, q.store.within(tx))
}

// EnqueuePgxTx is like Enqueue, as a part of a transaction in the same
// PostgreSQL database. The delivery is there when the transaction commits.
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
